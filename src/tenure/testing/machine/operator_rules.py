"""`OperatorRules`: calls that search for jobs, and that write and read the audit."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tenure.core.job import State
from tenure.stores.values import Action, Search
from tenure.testing.machine.builders import Builders
from tenure.testing.machine.snapshots import audit, found_jobs
from tenure.testing.machine.strategies import QUEUES, TEXT, WORKERS

__all__ = ["OperatorRules"]

FILTERS: list[dict[str, Any]] = [
    {"queue": QUEUES[0]},
    {"queue": QUEUES[1]},
    {"task": "u"},
    {"error": "ValueError"},
    {"error": "Value"},
    {"error": "Lost"},
    {"text": "boom"},
    {"text": "Boom"},
    {"text": "Value"},
    {"text": "Traceback"},
    {"text": TEXT},
    {"worker": WORKERS[0]},
    {"worker": WORKERS[1]},
    {"brief": 1},
    {"look": 3},
    {"limit": 2},
]
ACTIONS = [
    Action(who="ann@db1", by="cli", what="retry", target="1", count=1),
    Action(who="Zoë", by="top", what="pause", target="a"),
    Action(who="", by="dashboard", what="delete", count=0, at=7.0),
]


class OperatorRules(Builders):
    """A machine that searches for jobs, and notes what operators have done."""

    @rule(state=st.sampled_from([None, *State]), more=st.sampled_from([{}, *FILTERS]))
    def look_for_jobs(self, state: State | None, more: dict[str, Any]) -> None:
        """Searches in one state with one filter, and with each other one besides."""
        parts: list[dict[str, Any]] = [{}]
        if state is State.WAITING:
            parts += [{"scheduled": True}, {"scheduled": False}]
        elif state is not None and state.final:
            parts += [{"before": self.clock.wall() - ago} for ago in (0.0, 1.0, 5.0, 30.0)]
        for each in (*parts, *FILTERS):
            self._search(Search(**{"state": state} | more | each))

    def _search(self, search: Search) -> None:
        expected = self.model.search(search)
        order = {job.id: self.model.sort_key(job, search) for job in expected}
        listed = {job.id: self.model.listed(job, search) for job in expected}
        for name, jobs in self.ask_each(lambda _, store: found_jobs(store, search)).items():
            shown = {job.id: (job.payload, job.result, job.error, job.headers) for job in jobs}
            assert shown == listed, f"{search} of {name}: {shown}, not {listed}"
            assert [order[job.id] for job in jobs] == list(order.values()), f"{search} of {name}: {list(shown)}"

    @rule(actions=st.lists(st.sampled_from(ACTIONS), max_size=3), limit=st.integers(1, 3))
    def note_actions(self, actions: list[Action], limit: int) -> None:
        self.model.note_actions(actions)
        assert self.ask(lambda store: store.note_actions(actions)) is None
        assert self.ask(lambda store: audit(store, limit)) == self.model.audit()
