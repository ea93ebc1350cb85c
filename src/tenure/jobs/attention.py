"""`attention` finds what an operator should look at: queues, workers, tasks, schedules and facts that are not well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tenure.core.firing import lapsed
from tenure.core.measures import OTHERS, HistoryRow, HistorySearch, slot_of, sum_counts
from tenure.core.patterns import serves
from tenure.core.reasons.reason import moment, span
from tenure.core.schedule import SchedulePage, ScheduleRecord, ScheduleSearch, settings_of
from tenure.errors import InvalidSchedule
from tenure.stores.base import Store
from tenure.stores.values import Fact, Health, Order, QueueInfo, WorkerInfo

__all__ = [
    "QUEUES",
    "SLOW_AFTER",
    "Attention",
    "attention",
    "attention_of",
    "begins_of",
    "growth_of",
    "read_schedules",
    "recent_queues",
    "recent_tasks",
    "slots_of",
]

SLOW_AFTER = 300.0
"""Age in seconds of the oldest job in line from which on its queue needs attention."""

FAILURES, FAILURE_SHARE = 5, 0.05
"""Failed attempts of a task in the last 15 minutes, and their share of all attempts, above which it needs attention."""

OVERDUE_AFTER = 60.0
"""Seconds after its tick from which on a schedule that has not fired needs attention."""

EACH = 10
"""Entries that one rule makes at most; one more says how many others there are."""

QUEUES = 1000
"""Queues that `attention_of` reads at most, the first ones by name."""

SCHEDULES = 200
"""Schedules that `attention_of` reads at most: the first ones by name, and of those that are due the most overdue."""

RESOLUTION = 300
"""Seconds of the slots of the history that are read: coarse ones, because all queues and all tasks are read at once."""


class Attention(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that an operator should look at."""

    level: Health
    """`warn`, or `bad` if jobs may be lost or do not run."""

    kind: str
    """The rule that made it, such as `no_worker`; for programs."""

    sentence: str
    """What is wrong, without a full stop."""

    advice: str
    """What to do next, with the command."""

    queue: str | None = None
    """Where to look, like the next three."""

    task: str | None = None
    worker: str | None = None
    schedule: str | None = None


# Rules.


def attention(
    *,
    now: float,
    queues: Sequence[QueueInfo] = (),
    workers: Sequence[WorkerInfo] = (),
    history: Sequence[HistoryRow] = (),
    tasks: Sequence[HistoryRow] = (),
    schedules: Sequence[ScheduleRecord] = (),
    facts: Sequence[Fact] = (),
    slow_after: float = SLOW_AFTER,
) -> list[Attention]:
    """What needs attention, the bad first; equal ones stay in the order of the rules, then in that of their arguments.

    `now` is the time of the store. `history` has rows of queues and `tasks` has rows of tasks, as `recent_queues` and
    `recent_tasks` find them; older ones do not count. `slow_after`: age in seconds of the oldest job in line from which on its
    queue needs attention.
    """
    since, fleet = _window(now), Fleet(workers)
    rules = (
        _several(_unserved(queues, fleet), "queues with jobs in line have no live worker", "tenure queues"),
        _several(_troubled(workers), "workers are in trouble", "tenure workers"),
        _several(_overdue(schedules, now), "schedules have not fired", "tenure schedules"),
        _several(_failing([row for row in tasks if row.slot >= since]), "tasks fail", "tenure failed"),
        _several(_slow(queues, fleet, slow_after), "queues have jobs that wait long", "tenure queues"),
        _several(_paused(queues), "paused queues have jobs in line", "tenure queues"),
        _several(_missing(workers), "workers are missing", "tenure workers"),
        _several(_lost(queues, history, since), "queues have lost leases", "tenure stats"),
        _several(_broken(queues), "queues have broken jobs", "tenure broken"),
        _several(_lapsed(schedules), "schedules have lapsed", "tenure schedules"),
        _several(_unwell(facts), "facts about the store are not well", "tenure doctor"),
    )
    found = [each for rule in rules for each in rule]
    return sorted(found, key=lambda each: each.level is not Health.BAD)


def _several(found: Iterable[Attention], others: str, command: str) -> list[Attention]:
    """The first entries of a rule, and one for the rest."""
    entries = list(found)
    if len(entries) <= EACH:
        return entries
    first, rest = entries[:EACH], entries[EACH:]
    level = Health.BAD if any(each.level is Health.BAD for each in rest) else Health.WARN
    more = f"{len(rest):,} more {others}"
    return [*first, Attention(level=level, kind=rest[0].kind, sentence=more, advice=f"{command} lists them")]


def _unserved(queues: Sequence[QueueInfo], fleet: Fleet) -> Iterator[Attention]:
    for queue in queues:
        # An app that leases jobs by hand serves the queue too.
        if queue.waiting and not queue.paused and not fleet.live(queue.name):
            missing = sum(worker.missing for worker in fleet.serving(queue.name))
            silent = f"; {missing:,} missing {_plural('worker', missing)} did" if missing else ""
            yield Attention(
                level=Health.BAD,
                kind="no_worker",
                sentence=f"{queue.name}: {_jobs(queue.waiting)} in line, and no live worker serves the queue{silent}",
                advice=f"start one: tenure work module:app -q {queue.name}",
                queue=queue.name,
            )


def _slow(queues: Sequence[QueueInfo], fleet: Fleet, slow_after: float) -> Iterator[Attention]:
    for queue in queues:
        if queue.paused or queue.oldest is None or queue.oldest <= slow_after or not fleet.live(queue.name):
            continue
        busy, slots = slots_of(fleet.live(queue.name))
        yield Attention(
            level=Health.WARN,
            kind="slow",
            sentence=f"{queue.name}: the oldest job in line has waited {span(queue.oldest)}, {busy:,} of {slots:,} slots busy",
            advice=(
                "start more workers, or raise --concurrency"
                if busy >= slots
                else f"tenure jobs -q {queue.name} --state waiting lists them in order, tenure explain ID says why one waits"
            ),
            queue=queue.name,
        )


def _paused(queues: Sequence[QueueInfo]) -> Iterator[Attention]:
    for queue in queues:
        if queue.paused and queue.waiting:
            age = "" if queue.oldest is None else f", the oldest for {span(queue.oldest)}"
            yield Attention(
                level=Health.WARN,
                kind="paused",
                sentence=f"{queue.name}: paused, with {_jobs(queue.waiting)} in line{age}",
                advice=f"tenure resume {queue.name}",
                queue=queue.name,
            )


def _broken(queues: Sequence[QueueInfo]) -> Iterator[Attention]:
    for queue in queues:
        if queue.broken:
            yield Attention(
                level=Health.WARN,
                kind="broken",
                sentence=f"{queue.name}: no worker could read {_jobs(queue.broken)}",
                advice=f"tenure broken -q {queue.name} shows why; once that is mended, tenure broken retry -q {queue.name}",
                queue=queue.name,
            )


def _troubled(workers: Sequence[WorkerInfo]) -> Iterator[Attention]:
    for worker in workers:
        if worker.order is Order.QUIET and not worker.missing:
            yield Attention(
                level=Health.WARN,
                kind="worker_quiet",
                sentence=f"worker {worker.id} takes no jobs, because an operator has told it to be quiet",
                advice=f"tenure order go-on {worker.id}",
                worker=worker.id,
            )
        elif worker.trouble and not worker.missing:
            yield Attention(
                level=Health.BAD,
                kind="worker_trouble",
                sentence=f"worker {worker.id} takes no jobs: {worker.trouble}",
                advice="tenure workers shows what it runs; if it does not recover, restart it",
                worker=worker.id,
            )


def _missing(workers: Sequence[WorkerInfo]) -> Iterator[Attention]:
    for worker in workers:
        if worker.missing:
            holds = f", it held {_jobs(worker.held)}" if worker.held else ""
            yield Attention(
                level=Health.WARN,
                kind="worker_missing",
                sentence=f"worker {worker.id} has been silent for {span(worker.silent_for)}{holds}",
                advice=f"if it is dead, tenure retire {worker.id} gives its jobs to others at once",
                worker=worker.id,
            )


def _failing(rows: Sequence[HistoryRow]) -> Iterator[Attention]:
    by_task: dict[str, list[Mapping[str, float]]] = {}
    for row in rows:
        if row.task not in ("", OTHERS):
            by_task.setdefault(row.task, []).append(row.counts)
    found = []
    for task, each in by_task.items():
        counts = sum_counts(each)
        errors = {name.removeprefix("error:"): round(n) for name, n in counts.items() if name.startswith("error:")}
        # A task that returns `Retry` is retried without an error.
        failures = max(sum(errors.values()), round(counts.get("failed", 0) + counts.get("broken", 0)))
        attempts = round(sum(counts.get(end, 0) for end in ("succeeded", "failed", "retried", "broken")))
        if failures >= FAILURES and failures > FAILURE_SHARE * attempts:
            found.append((failures, attempts, task, errors))
    for failures, attempts, task, errors in sorted(found, key=lambda each: (-each[0], each[2])):
        common = sorted(errors.items(), key=lambda each: (-each[1], each[0]))[:1]
        cause = "".join(f", {'mostly ' if n < failures else ''}{error}" for error, n in common)
        yield Attention(
            level=Health.BAD if failures * 2 >= attempts else Health.WARN,
            kind="failing",
            sentence=f"{task}: {failures:,} of {attempts:,} attempts failed in the last 15 minutes{cause}",
            advice=f"tenure failed --task {task} shows the errors; once the cause is mended, tenure failed retry --task {task}",
            task=task,
        )


def _lost(queues: Sequence[QueueInfo], rows: Sequence[HistoryRow], since: float) -> Iterator[Attention]:
    # The totals at the end of the slot before are those with which the last 15 minutes begin.
    lost = growth_of("lost", queues, [row for row in rows if row.slot >= since - RESOLUTION], since)
    late: dict[str, float] = {}
    for row in rows:
        if row.slot >= since:
            late[row.queue] = late.get(row.queue, 0) + row.counts.get("stale", 0)
    for queue in queues:
        number, stale = lost.get(queue.name, 0), round(late.get(queue.name, 0))
        if number or stale:
            refused = f", {stale:,} late {_plural('result', stale)} refused" if stale else ""
            yield Attention(
                level=Health.WARN,
                kind="lost",
                sentence=f"{queue.name}: {number:,} {_plural('lease', number)} lost in the last 15 minutes{refused}",
                advice="their workers were killed or fell silent: see their logs, and memory in tenure workers",
                queue=queue.name,
            )


def _overdue(schedules: Sequence[ScheduleRecord], now: float) -> Iterator[Attention]:
    for record in schedules:
        if record.active and record.next is not None and now - record.next > OVERDUE_AFTER:
            yield Attention(
                level=Health.BAD,
                kind="schedule_overdue",
                sentence=f"schedule {record.name}: its tick of {moment(record.next)} has not fired for {span(now - record.next)}",
                advice=f"start a worker whose code knows it; tenure schedule show {record.name}",
                schedule=record.name,
            )


def _lapsed(schedules: Sequence[ScheduleRecord]) -> Iterator[Attention]:
    for record in schedules:
        if _has_lapsed(record):
            yield Attention(
                level=Health.WARN,
                kind="schedule_lapsed",
                sentence=f"schedule {record.name} has lapsed: no worker has declared it for an hour, so it does not fire",
                advice=f"start a worker whose code declares it, or tenure schedule delete {record.name}",
                schedule=record.name,
            )


def _has_lapsed(record: ScheduleRecord) -> bool:
    if record.active:
        return False
    try:
        return lapsed(record, settings_of(record))
    except InvalidSchedule:
        return False  # `tenure doctor` names those that cannot be read


def _unwell(facts: Sequence[Fact]) -> Iterator[Attention]:
    for fact in facts:
        if fact.health is not Health.OK:
            yield Attention(
                level=fact.health,
                kind="store",
                sentence=f"store: {fact.name}: {fact.value}",
                advice=fact.advice or "tenure doctor",
            )


# What the rules count.


class Fleet:
    """Which workers serve which queue. Workers with the same list of queues are looked at together."""

    def __init__(self, workers: Sequence[WorkerInfo]) -> None:
        self._by_queues: dict[tuple[str, ...], list[WorkerInfo]] = {}
        for worker in workers:
            self._by_queues.setdefault(worker.queues, []).append(worker)

    def serving(self, queue: str) -> list[WorkerInfo]:
        """Workers that serve the queue, also missing ones."""
        return [worker for queues, all_ in self._by_queues.items() if serves(queues, queue) for worker in all_]

    def live(self, queue: str) -> list[WorkerInfo]:
        """Workers that serve the queue and are not missing, and apps that lease jobs of it by hand."""
        return [worker for worker in self.serving(queue) if not worker.missing]


def slots_of(workers: Sequence[WorkerInfo]) -> tuple[int, int]:
    """How many jobs the live ones of these workers hold, and how many they run at most."""
    # An app that leases jobs by hand is registered too, but runs none.
    running = [worker for worker in workers if not worker.missing and (worker.lanes or worker.tasks)]
    busy = sum(min(worker.held, worker.concurrency) for worker in running)  # a worker leases some jobs ahead
    return busy, sum(worker.concurrency for worker in running)


def growth_of(total: str, queues: Sequence[QueueInfo], rows: Sequence[HistoryRow], since: float) -> dict[str, int]:
    """By queue, how much one of its totals has grown since a time at which a slot of these rows begins."""
    now = {queue.name: getattr(queue.totals, total) for queue in queues}
    begin = begins_of(total, rows, since)
    # A queue that was forgotten and made anew counts from 0 again.
    return {name: growth for name in now if name in begin and (growth := round(now[name] - begin[name])) > 0}


def begins_of(total: str, rows: Sequence[HistoryRow], since: float) -> dict[str, float]:
    """By queue, what one of its totals was at a time at which a slot of these rows begins.

    That is the total at the end of the slot before. If that is not known, it is the first total that is known, less what
    workers have counted until then.
    """
    found: dict[str, float] = {}
    counted: dict[str, float] = {}
    for row in sorted(rows, key=lambda row: row.slot):
        if row.slot >= since:
            counted[row.queue] = counted.get(row.queue, 0) + row.counts.get(total, 0)
        at_end = row.gauges.get(f"total_{total}")
        if at_end is not None and (row.slot < since or row.queue not in found):
            found[row.queue] = at_end - counted.get(row.queue, 0)
    return found


def _jobs(number: int) -> str:
    return f"{number:,} {_plural('job', number)}"


def _plural(word: str, number: int) -> str:
    return word if number == 1 else f"{word}s"


# Reading.


def _window(now: float) -> float:
    """Begin of the first slot that lies wholly in the last 15 minutes."""
    return slot_of(RESOLUTION, now) - 2 * RESOLUTION


def recent_queues(now: float, slots: int = 3) -> HistorySearch:
    """The rows of all queues in the last 15 minutes, or in this many slots of five, and in the slot before."""
    return HistorySearch(resolution=RESOLUTION, since=slot_of(RESOLUTION, now) - slots * RESOLUTION, rows="queues")


def recent_tasks(now: float) -> HistorySearch:
    """The rows of all tasks in the last 15 minutes."""
    return HistorySearch(resolution=RESOLUTION, since=_window(now), rows="tasks")


async def read_schedules(store: Store) -> SchedulePage:
    """The schedules that may need attention, and the time of the store: one call, or two if there are many schedules."""
    page = await store.schedules(ScheduleSearch(limit=SCHEDULES))
    if len(page.schedules) < SCHEDULES:
        return page
    due = await store.schedules(ScheduleSearch(due=True, limit=SCHEDULES))
    by_name = {each.name: each for each in (*page.schedules, *due.schedules)}
    return SchedulePage(list(by_name.values()), due.now)


async def attention_of(store: Store) -> list[Attention]:
    """What needs attention in a store. Makes at most seven calls, each of which reads a bounded number of rows."""
    page = await read_schedules(store)
    return attention(
        now=page.now,
        queues=await store.queues(limit=QUEUES),
        workers=await store.workers(),
        history=await store.history(recent_queues(page.now)),
        tasks=await store.history(recent_tasks(page.now)),
        schedules=page.schedules,
        facts=await store.examine(),
    )
