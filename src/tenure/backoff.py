"""How long to wait before the next attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from tenure.checks import seconds
from tenure.errors import InvalidOption

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A retry policy: which exceptions are retried, and after how long.

    The delay after attempt n is `min(initial * multiplier ** (n - 1), maximum)`, moved by up to ± `jitter` of itself.
    """

    initial: float | timedelta = 10.0
    """Seconds before the second attempt."""

    maximum: float | timedelta = 300.0
    """No delay is longer than this."""

    multiplier: float = 2.0
    """Growth from one delay to the next; 1 keeps them all the same."""

    jitter: float = 0.1
    """Share of the delay by which it is moved at random, so that jobs that failed together do not return together; 0 for none."""

    on: tuple[type[BaseException], ...] = (Exception,)
    """Exceptions that are retried; any other fails the job at once."""

    never: tuple[type[BaseException], ...] = ()
    """Exceptions that fail the job at once even though `on` covers them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", seconds(self.initial, "initial"))
        object.__setattr__(self, "maximum", seconds(self.maximum, "maximum"))
        if self.multiplier < 1:
            raise InvalidOption(f"multiplier must be at least 1, got {self.multiplier}")
        if not 0 <= self.jitter <= 1:
            raise InvalidOption(f"jitter must be between 0 and 1, got {self.jitter}")

    def covers(self, exception: BaseException) -> bool:
        """Whether this exception is worth another attempt.

        What is no `Exception` (SystemExit, KeyboardInterrupt, a cancellation of the job's own making) is treated as one.
        """
        if isinstance(exception, self.never):
            return False
        return isinstance(exception, self.on) or (not isinstance(exception, Exception) and Exception in self.on)

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
        """Seconds to wait after this attempt, moved at random by up to ± `jitter`."""
        delay = self.delay(attempt)
        return delay * (1 + self.jitter * (2 * random.random() - 1)) if self.jitter else delay  # noqa: S311
