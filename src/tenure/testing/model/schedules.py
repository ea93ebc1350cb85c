"""`Schedules`: how schedules of the model are read, written and fired."""

from __future__ import annotations

from msgspec.structs import replace

from tenure.core.job import BlockerPolicy, NewJob
from tenure.core.schedule import (
    HISTORY_LENGTH,
    Firing,
    Overlap,
    SchedulePut,
    ScheduleRecord,
    ScheduleSearch,
    TickEnd,
    TickRecord,
)
from tenure.testing.model.data import Schedule
from tenure.testing.model.lifecycle import Lifecycle

__all__ = ["Schedules"]


class Schedules(Lifecycle):
    """Data whose schedules can be read, written and fired."""

    def schedule(self, name: str) -> Schedule | None:
        return next((each for each in self.schedules if each.name == name), None)

    def version(self, name: str) -> int:
        """The version of a schedule; 0 if it does not exist."""
        schedule = self.schedule(name)
        return 0 if schedule is None else schedule.version

    def find_schedules(self, wanted: ScheduleSearch) -> tuple[list[ScheduleRecord], float | None]:
        """The schedules of a search, and the seconds until the soonest is due."""
        if wanted.names is not None:
            named = [self.schedule(name) for name in wanted.names]
            return [each.record for each in named if each is not None], None
        if not wanted.due:
            by_name = sorted((each.record for each in self.schedules), key=lambda each: each.name)
            return [each for each in by_name if each.name > wanted.after][: wanted.limit], None
        active = [each.record for each in self.schedules if each.active and each.next is not None]
        soonest_first = sorted(active, key=lambda each: (each.next, each.name))
        due_in = [each.next - self.now for each in soonest_first if each.next is not None]
        due = [each for each in soonest_first if each.next is not None and each.next <= self.now]
        return due[wanted.skip :][: wanted.limit], due_in[0] if due_in else None

    def put_schedule(self, put: SchedulePut) -> bool:
        if put.if_version != self.version(put.name):
            return False
        schedule = self.schedule(put.name) or Schedule(put.name, self.now)
        self.schedules = [each for each in self.schedules if each is not schedule]
        if put.settings is not None:
            self.schedules.append(schedule)
            schedule.version += 1
            schedule.settings = put.settings
            schedule.next = put.next
            schedule.active = put.active
            if put.seen:
                schedule.seen_at = self.now
        return True

    def confirm_schedule(self, name: str) -> bool:
        schedule = self.schedule(name)
        if schedule is not None:
            schedule.seen_at = self.now
        return schedule is not None

    def fire(self, firing: Firing) -> tuple[TickRecord, ...] | None:
        schedule = self.schedule(firing.name)
        if schedule is None or schedule.version != firing.version:
            return None
        schedule.version += 1
        schedule.tick = firing.tick
        schedule.next = firing.next
        schedule.history += [replace(entry, at=self.now) for entry in firing.entries]
        fired = []
        for tick, new in firing.jobs:
            entry = replace(self._fire_tick(schedule.last, firing, tick, new), at=self.now)
            if entry.end is firing.end:
                schedule.last = entry.job_id
            fired.append(entry)
        schedule.history = [*schedule.history, *fired][-HISTORY_LENGTH:]
        return tuple(fired)

    def _fire_tick(self, last: str | None, firing: Firing, tick: float, new: NewJob) -> TickRecord:
        replaced = None
        if last is not None and (current := self.resolve(last)) and not current.state.final:
            begun = current.id != last or current.fence > 0
            match firing.overlap:
                case Overlap.SKIP:
                    return TickRecord(tick, TickEnd.SKIPPED, job_id=last)
                case Overlap.WAIT if not begun:
                    return TickRecord(tick, TickEnd.SKIPPED, job_id=last)
                case Overlap.WAIT:
                    new = replace(new, after=(last,), if_blocker_fails=BlockerPolicy.PROCEED)
                case Overlap.REPLACE:
                    replaced = current.id
                    self.cancel(replaced)
        [(job_id, _, duplicate)] = self.add([new])
        return TickRecord(tick, TickEnd.DUPLICATE if duplicate else firing.end, job_id=job_id, replaced=replaced)
