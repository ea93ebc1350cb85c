"""A schedule as values: `Plan` is what users ask for, `ScheduleRecord` what a store holds, `Firing` what it fires."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tenure.core.job import NewJob
from tenure.core.ticks import next_tick
from tenure.core.when import When
from tenure.errors import InvalidSchedule

__all__ = [
    "CATCH_UP_MOST",
    "HISTORY_LENGTH",
    "CatchUp",
    "Changes",
    "Firing",
    "Overlap",
    "Plan",
    "SchedulePage",
    "SchedulePut",
    "ScheduleRecord",
    "ScheduleSearch",
    "Settings",
    "TickEnd",
    "TickRecord",
    "settings_of",
]

HISTORY_LENGTH = 20
"""How many ticks a schedule remembers, the latest ones."""

CATCH_UP_MOST = 100
"""How many missed ticks one firing may make up for."""

# What users ask for.


class Overlap(StrEnum):
    """What to do at a tick while the last job of the schedule is not final."""

    ALLOW = "allow"
    """Enqueue the next job all the same."""

    SKIP = "skip"
    """Enqueue nothing."""

    WAIT = "wait"
    """Enqueue a job that waits for the last one. If the last one has not begun yet, enqueue nothing."""

    REPLACE = "replace"
    """Cancel the last one, and enqueue the next."""


CatchUp: TypeAlias = int | Literal["latest", "none"]
"""Which of the ticks that were not fired in time are fired later: the newest, none, or up to this number of them."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a schedule enqueues, and when. Times are seconds since the epoch, durations are seconds."""

    job: NewJob
    """The job of every tick, but for its id, its tags and its `run_at`."""

    when: When
    overlap: Overlap = Overlap.ALLOW
    catch_up: CatchUp = "latest"
    jitter: float = 0.0
    """A job is due up to this number of seconds after its tick."""

    starts: float | None = None
    """No tick is earlier than this."""

    ends: float | None = None
    """No tick is later than this."""

    @property
    def times(self) -> tuple[When, float | None, float | None]:
        """What its ticks depend on."""
        return self.when, self.starts, self.ends

    def next_tick(self, after: float) -> float | None:
        return next_tick(self.when, after, starts=self.starts, ends=self.ends)


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator has changed of a declared plan. UNSET: as declared."""

    job: NewJob | UnsetType = UNSET
    when: When | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    catch_up: CatchUp | UnsetType = UNSET
    jitter: float | UnsetType = UNSET
    starts: float | UnsetType | None = UNSET
    ends: float | UnsetType | None = UNSET

    @property
    def names(self) -> list[str]:
        """Names of what was changed."""
        return [name for name in self.__struct_fields__ if getattr(self, name) is not UNSET]


NO_CHANGES = Changes()


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that users have said about a schedule. Stores keep it as JSON that they do not read."""

    plan: Plan
    """As declared in code, or as created at run time."""

    declared: bool = False
    """Whether the plan is declared in code; only workers whose code declares it fire it."""

    changes: Changes = NO_CHANGES
    """What an operator has changed of a declared plan. It outlives the next deploy."""

    paused: bool = False

    @property
    def effective(self) -> Plan:
        """The plan with its changes."""
        return replace(self.plan, **{name: getattr(self.changes, name) for name in self.changes.names})

    def encoded(self) -> str:
        return _encode(self).decode()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Settings).decode

# What a store holds.


class TickEnd(StrEnum):
    """What became of a tick."""

    ENQUEUED = "enqueued"
    TRIGGERED = "triggered"
    """Enqueued by `trigger`, outside of the ticks."""

    BACKFILLED = "backfilled"
    """Enqueued by `backfill`."""

    DUPLICATE = "duplicate"
    """Not enqueued, because another job owns the unique key."""

    SKIPPED = "skipped"
    """Not enqueued, because the last job is not final."""

    MISSED = "missed"
    """Not fired in time, and `catch_up` does not make up for it."""

    REFUSED = "refused"
    """Not enqueued, because a `before_enqueue` hook refused it."""


ENQUEUES = frozenset({TickEnd.ENQUEUED, TickEnd.TRIGGERED, TickEnd.BACKFILLED})


class TickRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry in the history of a schedule."""

    tick: float
    end: TickEnd
    at: float = 0.0
    """When it was fired; set by the store."""

    job_id: str | None = None
    """The job that was enqueued; the job that was in the way of a skipped tick; the owner of the unique key."""

    replaced: str | None = None
    """The job that was cancelled for it."""

    until: float | None = None
    """Of missed ticks: no tick from `tick` until before this was fired."""

    @property
    def enqueued(self) -> bool:
        """Whether a job was enqueued for it."""
        return self.end in ENQUEUES


class ScheduleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as a store returns it. Times are seconds since the epoch by the store's clock."""

    name: str
    settings: str
    """`Settings` as JSON, which the store does not read."""

    version: int
    """Number of writes to the schedule, from 1. Every put and every firing must name the current one."""

    next: float | None = None
    """The tick to fire next; None once there is none."""

    active: bool = True
    """Whether it is due when `next` has come."""

    tick: float | None = None
    """The newest tick that was decided."""

    last: str | None = None
    """Id of the last job, or run, that it enqueued."""

    seen_at: float = 0.0
    """When it was created, or its declaration was last confirmed."""

    history: tuple[TickRecord, ...] = ()
    """The latest `HISTORY_LENGTH` ticks, oldest first."""


def settings_of(record: ScheduleRecord) -> Settings:
    """The settings of a schedule. Raises `InvalidSchedule` if this version of Tenure, or this machine, cannot read them."""
    try:
        return _decode(record.settings)
    except msgspec.MsgspecError as error:
        raise InvalidSchedule(
            f"schedule {record.name!r} cannot be read here: {error}. A newer Tenure may have written it: update this "
            f"program, or delete it with `tenure schedule delete {record.name}`"
        ) from None


# What is asked of a store.


class SchedulePut(msgspec.Struct, frozen=True, kw_only=True):
    """Creates, replaces or deletes one schedule, if it is still as the caller has read it."""

    name: str
    if_version: int
    """The version that it must have; 0: it must not exist."""

    settings: str | None = None
    """`Settings` as JSON; None deletes the schedule."""

    next: float | None = None
    active: bool = True
    seen: bool = False
    """Whether to set `seen_at` to now, as a creation always does."""


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal to fire ticks of one schedule, computed from one version of it."""

    name: str
    version: int
    jobs: tuple[tuple[float, NewJob], ...] = ()
    """Ticks and their jobs, oldest first; at most one unless `overlap` is "allow"."""

    overlap: Overlap = Overlap.ALLOW
    end: TickEnd = TickEnd.ENQUEUED
    """What the history says of a tick whose job was enqueued."""

    entries: tuple[TickRecord, ...] = ()
    """Ticks that enqueue nothing, for the history, ahead of those of `jobs`."""

    tick: float | None = None
    """The newest tick that is decided with this."""

    next: float | None = None
    """The tick to fire next."""


class ScheduleSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Which schedules to read: those of `names`, or those that are due, or else all."""

    names: tuple[str, ...] | None = None
    """Read these, in this order; those that do not exist are left out."""

    due: bool = False
    """Read the active ones whose `next` has come, the soonest first."""

    skip: int = 0
    """Of those that are due, leave out this number."""

    after: str = ""
    """Of all, read those whose name comes after this one, by name."""

    limit: int = 100


class SchedulePage(msgspec.Struct, frozen=True):
    """The answer to a `ScheduleSearch`."""

    schedules: list[ScheduleRecord]
    now: float
    """The time of the store."""

    due_in: float | None = None
    """Seconds until the soonest active schedule is due, negative if one is; None if there is none or `due` was not asked."""
