"""`OVERLAPS`, `catch_up_words` and `obstacle_words` say in words what a schedule does, and what it did not do."""

from __future__ import annotations

from collections.abc import Mapping

from tenure.core.schedule import CatchUp, Overlap, TickEnd

__all__ = ["OVERLAPS", "catch_up_words", "obstacle_words"]

OVERLAPS: Mapping[Overlap, str] = {
    Overlap.ALLOW: "enqueues the next job although the last one is not final",
    Overlap.SKIP: "enqueues nothing while the last job is not final",
    Overlap.WAIT: "the next job waits for the last one; none if that has not begun",
    Overlap.REPLACE: "cancels the last job if it is not final",
}
"""What each overlap does at a tick."""


def catch_up_words(catch_up: CatchUp) -> str:
    """What becomes of ticks that were not fired in time."""
    match catch_up:
        case "latest":
            return "latest: of ticks that were not fired in time, the newest is fired"
        case "none":
            return "none: a tick that is more than 60 s late is not fired"
    return f"{catch_up}: of ticks that were not fired in time, the newest {catch_up} are fired"


def obstacle_words(end: TickEnd, job: str, overlap: Overlap) -> str:
    """Why a tick enqueued nothing. `job` names the job or run that was in the way."""
    match end:
        case TickEnd.SKIPPED:
            return f"{job} is not final and its overlap is {overlap}"
        case TickEnd.DUPLICATE:
            return f"{job} has its unique key"
        case TickEnd.REFUSED:
            return "a before_enqueue hook refused it"
    return f"its tick is {end}"
