"""The stages of a completion, and `next_stage`, the pure function that leads from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

__all__ = ["Stage", "StageEvent", "next_stage"]


class Stage(Enum):
    """How far an attempt is on its way to an end in a transaction."""

    RUNNING = auto()
    """No block of `ctx.complete()` is open, and none has completed the job."""

    OPEN = auto()
    """The function is inside a block, and the settle has not been sent."""

    SETTLING = auto()
    """The block's own transaction is being settled and committed."""

    JOINED = auto()
    """The job was settled in a transaction that this process does not end; only the store knows whether it commits."""

    UNKNOWN = auto()
    """The store could not say whether the transaction was committed; it may still be under way."""

    FINAL = auto()
    """The transaction was committed: the job is complete."""


class StageEvent(Enum):
    """What happens to a completion."""

    ENTERED = auto()
    """A block was entered."""

    SETTLE = auto()
    """The block ended well; its own transaction is about to be settled and committed."""

    JOIN = auto()
    """The block ended well; the settle is about to be sent in the caller's transaction."""

    COMMITTED = auto()
    """The block's own transaction was committed."""

    ROLLED_BACK = auto()
    """The block could not be opened, or raised; or the settle failed or was refused. The job is as it was before the block."""

    PROCESS_ENDED = auto()
    """The child process that runs the function has ended, and with it an open block."""

    FOUND_COMMITTED = auto()
    """The store says that the transaction was committed."""

    FOUND_UNCOMMITTED = auto()
    """The store says that the transaction was not committed."""

    NOT_FOUND_OUT = auto()
    """The store did not answer in time."""


def next_stage(stage: Stage, event: StageEvent) -> Stage:
    """The stage after `event`; `RuntimeError` if the event cannot happen in this stage, which is an error in Tenure."""
    try:
        return _NEXT[stage, event]
    except KeyError:
        raise RuntimeError(f"a completion in stage {stage.name} cannot get the event {event.name}") from None


_NEXT: Mapping[tuple[Stage, StageEvent], Stage] = {
    (Stage.RUNNING, StageEvent.ENTERED): Stage.OPEN,
    (Stage.OPEN, StageEvent.SETTLE): Stage.SETTLING,
    (Stage.OPEN, StageEvent.JOIN): Stage.JOINED,
    (Stage.OPEN, StageEvent.ROLLED_BACK): Stage.RUNNING,
    (Stage.SETTLING, StageEvent.ROLLED_BACK): Stage.RUNNING,
    (Stage.JOINED, StageEvent.ROLLED_BACK): Stage.RUNNING,
    (Stage.SETTLING, StageEvent.COMMITTED): Stage.FINAL,
    (Stage.SETTLING, StageEvent.FOUND_COMMITTED): Stage.FINAL,
    (Stage.SETTLING, StageEvent.FOUND_UNCOMMITTED): Stage.RUNNING,
    (Stage.SETTLING, StageEvent.NOT_FOUND_OUT): Stage.UNKNOWN,
    (Stage.JOINED, StageEvent.FOUND_COMMITTED): Stage.FINAL,
    (Stage.JOINED, StageEvent.FOUND_UNCOMMITTED): Stage.RUNNING,
    (Stage.JOINED, StageEvent.NOT_FOUND_OUT): Stage.UNKNOWN,
    # A process may end at any time. What it was committing may have been committed.
    **{(stage, StageEvent.PROCESS_ENDED): stage for stage in Stage},
    (Stage.OPEN, StageEvent.PROCESS_ENDED): Stage.RUNNING,
    (Stage.SETTLING, StageEvent.PROCESS_ENDED): Stage.JOINED,
    # A thread that its worker has given up still sends its settle while the worker asks the store about it: the answer to
    # either may come second. A block that was opened meanwhile goes on, because its token decides.
    (Stage.RUNNING, StageEvent.ROLLED_BACK): Stage.RUNNING,
    (Stage.UNKNOWN, StageEvent.ROLLED_BACK): Stage.RUNNING,
    **{
        (stage, event): stage
        for stage in (Stage.RUNNING, Stage.OPEN, Stage.UNKNOWN, Stage.FINAL)
        for event in (StageEvent.FOUND_COMMITTED, StageEvent.FOUND_UNCOMMITTED, StageEvent.NOT_FOUND_OUT)
    },
    (Stage.RUNNING, StageEvent.FOUND_COMMITTED): Stage.FINAL,
    (Stage.RUNNING, StageEvent.NOT_FOUND_OUT): Stage.UNKNOWN,
    (Stage.UNKNOWN, StageEvent.FOUND_COMMITTED): Stage.FINAL,
    (Stage.UNKNOWN, StageEvent.FOUND_UNCOMMITTED): Stage.RUNNING,
}
