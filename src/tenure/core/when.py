"""`Cron`, `Every` and `At`: the three ways to say when a schedule fires."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TypeAlias
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError
from msgspec.structs import force_setattr

from tenure.core.checks import instant, seconds, shown
from tenure.errors import InvalidOption, InvalidSchedule

__all__ = ["At", "Cron", "Every", "When", "words"]

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

LONGEST_TEXT = 200
"""Characters of a cron text, at most."""

SHORTEST = 1.0
"""Seconds between two ticks of `Every`, at least."""


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """Fires when the clock of a time zone matches a cron text.

    Raises `InvalidSchedule` if the text is no cron, if no day matches it, or if the time zone is not known.
    """

    text: str
    """Five fields (minute, hour, day of month, month, day of week), or six with seconds in front.

    Names (`MON`, `JAN`), lists, ranges, steps, `L`, `LW`, `#` and `@daily` and the like are understood.
    """

    timezone: str = "UTC"
    """Name of the time zone, such as `Europe/Paris`."""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidSchedule(f"Cron takes a text such as '0 3 * * *', not {shown(self.text)}")
        text = " ".join(self.text.split())
        force_setattr(self, "text", text)
        _check_cron(text)
        if not isinstance(self.timezone, str):
            raise InvalidSchedule(
                f"Cron takes the name of a time zone, such as 'Europe/Paris', not {shown(self.timezone)}"
            )
        zone_of(self.timezone)

    @property
    def fields(self) -> str:
        """The text with five or six fields, whether or not it was given as an alias such as `@daily`."""
        return ALIASES.get(self.text.lower(), self.text)

    @property
    def fixed(self) -> bool:
        """Whether it names times of the day, so that each comes once a day whatever the clock is set to.

        Otherwise a `*` or `/` in its hour or minute says how often it fires, and it follows the time that elapses.
        """
        minute, hour = self.fields.split()[-5:-3]
        return not any(sign in field for field in (minute, hour) for sign in "*/")

    def __str__(self) -> str:
        return self.text if self.timezone == "UTC" else f"{self.text} ({self.timezone})"


class Every(msgspec.Struct, frozen=True, tag="every"):
    """Fires at each multiple of a duration since 1970, or since the `starts` of the schedule.

    A restart moves nothing, because the multiples do not depend on when a program started. Raises `InvalidSchedule` if
    the duration is below one second.
    """

    interval: float | timedelta
    """Seconds between two ticks."""

    def __post_init__(self) -> None:
        try:
            force_setattr(self, "interval", seconds(self.interval, "Every", least=SHORTEST))
        except InvalidOption as error:
            raise InvalidSchedule(str(error)) from None

    @property
    def seconds(self) -> float:
        assert not isinstance(self.interval, timedelta), "converted when it was made"
        return self.interval

    def __str__(self) -> str:
        return f"every {_duration_words(self.seconds)}"


class At(msgspec.Struct, frozen=True, tag="at"):
    """Fires once, at this instant. Raises `InvalidSchedule` if the datetime has no time zone."""

    instant: datetime

    def __post_init__(self) -> None:
        try:
            instant(self.instant, "At")
        except InvalidOption as error:
            raise InvalidSchedule(str(error)) from None
        # With a fixed offset, as it comes back from a store. Times that a clock shows twice are not equal in other zones.
        offset = self.instant.utcoffset()
        assert offset is not None
        force_setattr(self, "instant", self.instant.replace(tzinfo=timezone(offset), fold=0))

    def __str__(self) -> str:
        return f"at {self.instant.isoformat(' ', 'seconds')}"


When: TypeAlias = Cron | Every | At
"""When a schedule fires."""


def words(when: When) -> str:
    """The same as a sentence for people."""
    if not isinstance(when, Cron):
        text = str(when)
        return f"{text[0].upper()}{text[1:]}" + ("" if isinstance(when, Every) else ", once")
    sentence = str(CronSim(when.fields, datetime(2000, 1, 1)).explain())  # noqa: DTZ001  (a local time of any zone)
    return f"{sentence}, {when.timezone} time"


@lru_cache(maxsize=1000)
def zone_of(name: str) -> ZoneInfo:
    """The time zone of this name. Raises `InvalidSchedule` if it is not known."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidSchedule(
            f"there is no time zone {name!r:.80}: use a name of the IANA database, such as 'Europe/Paris'"
        ) from None


@lru_cache(maxsize=1000)
def _check_cron(text: str) -> None:
    """Raise `InvalidSchedule` if this is no cron text, or matches no day in fifty years."""
    if len(text) > LONGEST_TEXT:
        raise InvalidSchedule(f"a cron text has at most {LONGEST_TEXT} characters, got {len(text)}")
    if text.startswith("@") and text.lower() not in ALIASES:
        raise InvalidSchedule(f"{text!r:.80} is no cron text: of those with an @ there are {', '.join(ALIASES)}")
    fields = ALIASES.get(text.lower(), text)
    try:
        cron = CronSim(fields, datetime(2000, 1, 1))  # noqa: DTZ001
    except (CronSimError, ValueError, AssertionError) as error:
        raise InvalidSchedule(
            f"{text!r:.80} is no cron text: {str(error).lower() or 'a field is wrong'}. "
            "Write minute, hour, day of month, month and day of week, such as '0 3 * * *'"
        ) from None
    if next(cron, None) is None:
        raise InvalidSchedule(f"{text!r:.80} matches no day, so the schedule would never fire")


def _duration_words(duration: float) -> str:
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if duration >= length and duration % length == 0:
            count = int(duration // length)
            return name if count == 1 else f"{count} {name}s"
    return "second" if duration == 1 else f"{duration:g} seconds"
