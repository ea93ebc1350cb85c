"""`Comparison` makes the same call on all stores and compares their answers and snapshots with the model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from tenure.core.schedule import ScheduleSearch
from tenure.errors import BlockerNotFound, HasDependents, UniqueConflict
from tenure.stores.base import Store
from tenure.stores.values import Change, Consequence, EdgeInfo
from tenure.testing.clock import ManualClock
from tenure.testing.machine.snapshots import close_view, difference, found, snapshot
from tenure.testing.machine.strategies import FLOWS, LOOKUP, VALUES
from tenure.testing.model import Model

__all__ = ["Comparison", "Party"]

T = TypeVar("T")

DUE = ScheduleSearch(due=True)


@dataclass
class Party:
    """A store under test."""

    make: Callable[[], Store]
    """Makes one more store object on the same data."""

    put_in: Callable[[str, bytes], None]
    """Puts an entry in the inbox of a queue that exists, as another program would."""

    close: Callable[[], None] = lambda: None
    """Cleans up at the end."""


class Comparison(RuleBasedStateMachine):
    """The stores under test, and the model that knows the answers."""

    def open(self) -> Mapping[str, Party]:
        """Make the stores, empty. All of them use `self.clock`."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(wall=1_000_000.0)
        self.model = Model(self.clock)
        self.parties = self.open()
        self.runner = asyncio.Runner()
        self.consequences: dict[str, list[Consequence]] = {}
        """The consequences that each store has reported since the last comparison, by store name."""

        self.stores = {name: self.opened(name, party) for name, party in self.parties.items()}
        self.ids: list[str] = []
        """Ids of all jobs that were made, whether stored or not."""

        self.run_ids: list[str] = []
        self.there: set[str] = set()
        """Ids of the jobs that existed before the current call."""

        self.looks = 0
        self.seen: dict[Any, Any] = {}
        """What the model showed when each run, lookup or job was last compared closely."""

    def opened(self, name: str, party: Party) -> Store:
        store = party.make()
        store.on_consequences = self.consequences.setdefault(name, []).extend
        return store

    def teardown(self) -> None:
        for store in self.stores.values():
            self.run(store.close())
        self.runner.close()
        for party in self.parties.values():
            party.close()

    def run(self, call: Awaitable[T]) -> T:
        async def wait() -> T:
            return await call

        return self.runner.run(wait())

    def ask(self, question: Callable[[Store], Awaitable[T]], shown: Callable[[T], Any] = lambda answer: answer) -> Any:
        """Make a call on every store; all must answer alike. Returns the answer as `shown` gives it, or "refused"."""
        answers = {}
        for name, store in self.stores.items():
            answers[name] = self.run(_answer(question(store), shown))
        first, *others = answers.items()
        for other in others:
            assert first[1] == other[1], f"{first[0]} answers {first[1]}, {other[0]} answers {other[1]}"
        return first[1]

    def ask_each(self, question: Callable[[str, Store], Awaitable[T]]) -> dict[str, T]:
        """Make a call on every store with its own arguments, because leases differ.

        Returns the answers by store name.
        """
        return {name: self.run(question(name, store)) for name, store in self.stores.items()}

    # Invariants after each call.

    @invariant()
    def every_store_shows_what_the_model_shows(self) -> None:
        expected = self.model.snapshot()
        for name, store in self.stores.items():
            shown = self.run(snapshot(store, self.ids))
            for part, value in expected.items():
                assert shown[part] == value, f"{part} of {name}: {difference(shown[part], value)}"

    @invariant()
    def every_store_reports_what_the_model_reports(self) -> None:
        expected = self._comparable(self.model.consequences)
        for name, reported in self.consequences.items():
            assert self._comparable(reported) == expected, f"{name}: {self._comparable(reported)}, not {expected}"
            reported.clear()
        self.model.consequences.clear()
        self.there = {job.id for job in self.model.jobs}

    def _comparable(self, reported: Sequence[Consequence]) -> list[tuple[str, ...]]:
        """The consequences in a fixed order. A store may report a job of the same call as unblocked or not: left out."""
        return sorted(
            (each.change, each.job_id, each.task, each.queue)
            for each in reported
            if each.change is not Change.UNBLOCKED or each.job_id in self.there
        )

    @invariant()
    def runs_are_the_same_at_a_closer_look(self) -> None:
        """Compare what has changed, and one other run or lookup in turn: to compare all each time takes too long."""
        for run_id in self._look_at(self.run_ids, self.model.close_view):
            expected = self.model.close_view(run_id)
            for name, store in self.stores.items():
                assert self.run(close_view(store, run_id)) == expected, f"run {run_id} of {name}"
        lookups = [(flow, LOOKUP, value) for flow in FLOWS for value in VALUES]
        for lookup in self._look_at(lookups, lambda each: self.model.found(*each)):
            for name, store in self.stores.items():
                assert self.run(found(store, *lookup)) == self.model.found(*lookup), f"{lookup} in {name}"

    @invariant()
    def jobs_wait_for_the_same(self) -> None:
        def view(each: tuple[str, str]) -> tuple[list[str], list[EdgeInfo]]:
            return self.model.blockers(each[1]), self.model.edges(each[1])

        waiting = [("edges", job.id) for job in self.model.jobs if job.new.after]
        for each in self._look_at(waiting, view):
            for name, store in self.stores.items():
                shown = self.run(store.blockers(each[1])), self.run(store.edges(each[1]))
                assert shown == view(each), f"edges of {each[1]} of {name}: {shown}, not {view(each)}"

    @invariant()
    def the_same_schedules_are_due(self) -> None:
        for search in self._look_at([DUE], self.model.find_schedules):
            self.read_schedules(search)

    def read_schedules(self, search: ScheduleSearch) -> None:
        """Read schedules of every store, and compare them and the time with those of the model."""
        found, due_in = self.model.find_schedules(search)
        for name, page in self.ask_each(lambda _, store: store.schedules(search)).items():
            assert page.schedules == found, f"schedules of {name}: {page.schedules}, not {found}"
            times = _rounded(page.now), _rounded(page.due_in)
            assert times == (_rounded(self.clock.wall()), _rounded(due_in)), f"{search} of {name}: {times}"

    def _look_at(self, things: Sequence[T], view: Callable[[T], Any]) -> list[T]:
        views = {thing: view(thing) for thing in things}
        chosen = [thing for thing in things if self.seen.get(thing) != views[thing]]
        self.seen |= views
        self.looks += 1
        turn, over = divmod(self.looks, 4)
        if things and not over and things[turn % len(things)] not in chosen:
            chosen.append(things[turn % len(things)])
        return chosen


async def _answer(question: Awaitable[T], shown: Callable[[T], Any]) -> Any:
    try:
        return shown(await question)
    except (UniqueConflict, BlockerNotFound, HasDependents):
        # A store may choose which of several reasons it names.
        return "refused"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)
