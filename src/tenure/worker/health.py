"""`WorkerHealth`: whether a worker makes progress, and `respond`, which reports it over HTTP.

A worker is healthy if its loop has settled and leased within the last seconds. The heartbeat of its keeper says nothing
about that.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from time import monotonic

from tenure.observe.http import Answer, json_answer, text_answer
from tenure.worker.outage import Outage

__all__ = ["WorkerHealth", "respond"]

STUCK_POLLS, STUCK_SECONDS = 3, 2.0
"""The loop is stuck if its last round trip is older than `STUCK_POLLS` times its `poll` interval plus `STUCK_SECONDS` seconds."""

ERROR_SHOWN = 200
"""Characters of the store's error message that are shown at most."""


class WorkerHealth:
    """Progress of a worker's loop. The loop writes it; the keeper reads it, on its own thread."""

    def __init__(self, outage: Outage, poll: float) -> None:
        self.paused = False
        """Whether the worker is paused."""

        self.stopping = False
        self._outage = outage
        self._recent = STUCK_POLLS * poll + STUCK_SECONDS
        self._round_done_at = monotonic()

    def round_done(self) -> None:
        """Record that the loop has completed a round trip, or had no reason to make one."""
        self._round_done_at = monotonic()

    def trouble(self, *, registered: bool, blocked_by: str | None) -> str:
        """What keeps the worker from leasing jobs, as a phrase for people; empty if it can.

        `blocked_by` names the job that blocks the event loop now; None if none does.
        """
        if self.stopping:
            return "it is stopping"
        if self.paused:
            return "it is paused"
        stuck_for, down_for = monotonic() - self._round_done_at, self._outage.down_for
        stuck = stuck_for > self._recent
        if stuck and blocked_by is not None:
            return f"{blocked_by} has blocked the event loop for {stuck_for:.0f} s"
        # Also when the loop makes rounds because it has nothing to ask: its slots are full, or there is no queue.
        if down_for is not None and (stuck or down_for > self._recent):
            return f"the store has been down for {down_for:.0f} s: {self._outage.last_error[:ERROR_SHOWN]}"
        if stuck:
            return f"its loop has made no progress for {stuck_for:.0f} s"
        return "" if registered else "it is not registered"


def respond(report: Callable[[], dict[str, object]], metrics: Callable[[], str]) -> Callable[[str], Answer]:
    """Answers requests: `/metrics` with metrics, any other path with the report, whose status is 503 if it has a trouble."""

    def answer(path: str) -> Answer:
        if path.partition("?")[0] == "/metrics":
            return text_answer(metrics())
        said = report()
        return json_answer(said, HTTPStatus.SERVICE_UNAVAILABLE if said["trouble"] else HTTPStatus.OK)

    return answer
