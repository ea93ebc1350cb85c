"""`ScheduleRules`: calls that read, write and fire schedules."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tenure.core.job import NewJob
from tenure.core.schedule import Firing, Overlap, ScheduleSearch, TickEnd
from tenure.testing.machine.builders import Builders
from tenure.testing.machine.strategies import SCHEDULES, FiringSpec, JobSpec, PutSpec, firing_specs, put_specs

__all__ = ["ScheduleRules"]

NAMES = (*SCHEDULES, "none")


class ScheduleRules(Builders):
    """A machine that calls the operations on schedules."""

    def __init__(self) -> None:
        super().__init__()
        self.firings: list[Firing] = []
        """The last firings, which may be made again."""

    @initialize()
    def schedules_begin(self) -> None:
        self.put_schedules([_creation(name) for name in SCHEDULES])

    @rule(specs=st.lists(put_specs, min_size=1, max_size=3))
    def put_schedules(self, specs: list[PutSpec]) -> None:
        puts = [self.put_of(spec) for spec in specs]
        expected = [self.model.put_schedule(put) for put in puts]
        assert self.ask(lambda store: store.put_schedules(puts)) == expected

    @rule(names=st.lists(st.sampled_from(NAMES), max_size=3))
    def confirm_schedules(self, names: list[str]) -> None:
        expected = [self.model.confirm_schedule(name) for name in names]
        assert self.ask(lambda store: store.confirm_schedules(names)) == expected

    @rule(specs=st.lists(firing_specs, max_size=2))
    def fire(self, specs: list[FiringSpec]) -> None:
        if specs:  # else the last firings are repeated
            self.firings = [self.firing_of(spec) for spec in specs]
        self._fire()

    def fire_one(self, spec: JobSpec, overlap: Overlap) -> NewJob:
        """Fire one job of a schedule, which is created if need be, ahead of other jobs of its queue."""
        [name, *_] = SCHEDULES
        if self.model.schedule(name) is None:
            self.put_schedules([_creation(name)])
        spec = spec._replace(options=[*spec.options, {"priority": -2}])
        self.firings = [self.firing_of(FiringSpec(name, 0, [spec], None, 0, overlap, TickEnd.ENQUEUED, 5.0))]
        self._fire()
        [(_, job)] = self.firings[0].jobs
        return job

    def _fire(self) -> None:
        expected = [self.model.fire(firing) for firing in self.firings]
        answer = self.ask(lambda store: store.fire(self.firings))
        assert answer == expected, f"{answer}, not {expected}"

    @rule(
        names=st.lists(st.sampled_from(NAMES), max_size=3),
        after=st.sampled_from(["", *SCHEDULES]),
        skip=st.integers(0, 1),
        limit=st.integers(0, 2),
    )
    def look_at_schedules(self, names: list[str], after: str, skip: int, limit: int) -> None:
        for search in (
            ScheduleSearch(names=tuple(names)),
            ScheduleSearch(after=after, limit=limit),
            ScheduleSearch(due=True, skip=skip, limit=limit),
        ):
            self.read_schedules(search)


def _creation(name: str) -> PutSpec:
    return PutSpec(name, 0, "{}", 5.0, active=True, seen=False)
