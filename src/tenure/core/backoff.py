"""How long to wait before the next attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from tenure.core.checks import number, refused, seconds

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A retry policy: which exceptions are retried, and after how long.

    The delay after attempt n is `min(initial * multiplier ** (n - 1), maximum)`, moved by up to ± `jitter` of itself; never beyond
    `maximum`.
    """

    initial: float | timedelta = 10.0
    """Seconds before the second attempt."""

    maximum: float | timedelta = 300.0
    """Seconds; no delay is longer, jitter included."""

    multiplier: float = 2.0
    """Growth from one delay to the next; 1 keeps them all the same."""

    jitter: float = 0.1
    """Share of the delay by which it is moved at random, so that jobs that failed together do not return together; 0 for none."""

    on: type[BaseException] | tuple[type[BaseException], ...] = (Exception,)
    """Exceptions that are retried; any other fails the job at once."""

    never: type[BaseException] | tuple[type[BaseException], ...] = ()
    """Exceptions that fail the job at once even though `on` covers them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", seconds(self.initial, "initial"))
        object.__setattr__(self, "maximum", seconds(self.maximum, "maximum"))
        _MULTIPLIER(self.multiplier, "multiplier")
        _JITTER(self.jitter, "jitter")
        object.__setattr__(self, "on", _exceptions(self.on, "on"))
        object.__setattr__(self, "never", _exceptions(self.never, "never"))

    def covers(self, exception: BaseException) -> bool:
        """Whether this exception is worth another attempt.

        What is no `Exception` (SystemExit, KeyboardInterrupt, a cancellation of the job's own making) is treated as one.
        """
        if isinstance(exception, self.never):
            return False
        if isinstance(exception, self.on):
            return True
        return not isinstance(exception, Exception) and isinstance(self.on, tuple) and Exception in self.on

    def delay(self, attempt: int) -> float:
        """Seconds to wait after this attempt (the first is 1), without jitter."""
        initial, maximum = float(self.initial), float(self.maximum)  # type: ignore[arg-type]
        if initial == 0:
            return 0.0
        # 2.0 ** 1024 overflows: an attempt count that high has long reached the maximum.
        exponent = min(attempt - 1, 1000)
        try:
            return float(min(initial * self.multiplier**exponent, maximum))
        except OverflowError:
            return maximum

    def jittered(self, attempt: int) -> float:
        """Seconds to wait after this attempt, moved at random by up to ± `jitter`; `maximum` at most.

        Where the upper half of that range lies beyond `maximum`, the range ends there and begins as low as it did: the delays stay
        spread, instead of half of them being exactly `maximum`.
        """
        delay, maximum = self.delay(attempt), float(self.maximum)  # type: ignore[arg-type]
        if not self.jitter:
            return delay
        shortest, longest = delay * (1 - self.jitter), min(delay * (1 + self.jitter), maximum)
        return min(shortest + (longest - shortest) * random.random(), maximum)  # noqa: S311


_MULTIPLIER = number(1)
_JITTER = number(0, 1)


def _exceptions(value: object, option: str) -> tuple[type[BaseException], ...]:
    """Classes of exceptions as a tuple, which one class alone may stand for."""
    classes = tuple(value) if isinstance(value, tuple | list | set | frozenset) else (value,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise refused(option, "an exception class, or a tuple of them", each)
    return classes
