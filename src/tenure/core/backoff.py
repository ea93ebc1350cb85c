"""Backoff: which exceptions are retried, and how long to wait before the next attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from tenure.core.checks import number, refused, seconds

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A retry policy: which exceptions are retried, and after how long.

    The delay after attempt n is `min(initial * multiplier ** (n - 1), maximum)`, moved at random by up to ± `jitter` of
    itself, and never longer than `maximum`.
    """

    initial: float | timedelta = 10.0
    """Seconds before the second attempt."""

    maximum: float | timedelta = 300.0
    """Seconds. The longest delay, jitter included."""

    multiplier: float = 2.0
    """Factor from one delay to the next, at least 1; 1 makes all delays the same."""

    jitter: float = 0.1
    """Share of the delay, 0 to 1, by which it is moved at random, so that jobs that failed together return apart."""

    on: type[BaseException] | tuple[type[BaseException], ...] = (Exception,)
    """Exceptions that are retried; any other exception fails the job at once."""

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

        Others than `Exception` (SystemExit, KeyboardInterrupt, a cancellation that the job raised) are treated like one.
        """
        if isinstance(exception, self.never):
            return False
        if isinstance(exception, self.on):
            return True
        return not isinstance(exception, Exception) and isinstance(self.on, tuple) and Exception in self.on

    def delay(self, attempt: int) -> float:
        """Seconds to wait after attempt number `attempt`, from 1, without jitter."""
        initial, maximum = float(self.initial), float(self.maximum)  # type: ignore[arg-type]
        if initial == 0:
            return 0.0
        # 2.0 ** 1024 overflows: a delay that long reached the maximum long ago.
        exponent = min(attempt - 1, 1000)
        try:
            return float(min(initial * self.multiplier**exponent, maximum))
        except OverflowError:
            return maximum

    def jittered(self, attempt: int) -> float:
        """Seconds to wait after attempt number `attempt`, moved at random by up to ± `jitter`; at most `maximum`.

        If the range would go beyond `maximum`, it is cut off there and the delay is drawn from what remains. So delays stay
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
    """Exception classes as a tuple; one class may be given without a tuple."""
    classes = tuple(value) if isinstance(value, tuple | list | set | frozenset) else (value,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise refused(option, "an exception class, or a tuple of them", each)
    return classes
