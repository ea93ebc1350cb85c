"""What needs attention, as tables of cases: no store, no clock."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import App, Every
from tenure.core.firing import creation
from tenure.core.job import NewJob
from tenure.core.measures import HistoryRow, HistoryWrite
from tenure.core.schedule import Plan, ScheduleRecord, Settings
from tenure.jobs.attention import EACH, Attention, Fleet, attention, growth_of, slots_of
from tenure.stores.values import Fact, Health, Order, QueueInfo, Totals, WorkerInfo

NOW = 1_700_000_100.0
SLOT = 1_700_000_100.0 // 300 * 300
PLAN = Plan(job=NewJob(id="j", task="t", queue="q", payload=b"{}"), when=Every(60))


def a_queue(name: str = "mail", **fields: Any) -> QueueInfo:
    return QueueInfo(name=name, **fields)


def a_worker(id_: str = "w", **fields: Any) -> WorkerInfo:
    told = {"queues": ("*",), "tasks": ("t",), "lanes": ("loop",), "concurrency": 8, **fields}
    return WorkerInfo(id=id_, host="h", pid=1, **told)


def a_schedule(name: str = "nightly", **fields: Any) -> ScheduleRecord:
    told = {"settings": Settings(plan=PLAN, declared=True).encoded(), "version": 1, "next": NOW + 60, **fields}
    return ScheduleRecord(name=name, **told)


def a_row(task: str = "send", ago: int = 0, queue: str = "mail", **counts: float) -> HistoryRow:
    named = {name.replace("error_", "error:"): count for name, count in counts.items()}
    return HistoryRow(SLOT - 300 * ago, queue, task, named)


def totals(ago: int, lost: int, *, counted: int = 0, stale: int = 0) -> HistoryRow:
    return HistoryRow(SLOT - 300 * ago, "mail", "", {"lost": counted, "stale": stale}, {"total_lost": lost})


def found(**given: Any) -> list[Attention]:
    return attention(now=NOW, **given)


def sentences(**given: Any) -> list[str]:
    return [f"{each.level}: {each.sentence}" for each in found(**given)]


# Queues.


@pytest.mark.parametrize(
    ("queue", "workers", "said"),
    [
        (a_queue(waiting=55), [], "bad: mail: 55 jobs in line, and no live worker serves the queue"),
        (a_queue(waiting=1), [a_worker(queues=("mail.*",))], "bad: mail: 1 job in line, and no live worker serves the queue"),
        (a_queue(waiting=1), [a_worker(queues=("*", "!mail"))], "bad: mail: 1 job in line, and no live worker serves the queue"),
        (a_queue(), [], None),
        (a_queue(scheduled=9, blocked=9, running=9, failed=9), [], None),
        (a_queue(waiting=55), [a_worker(queues=("ma*",))], None),
        (a_queue(waiting=55), [a_worker(tasks=(), lanes=())], None),  # an app that leases by hand serves it too
        (a_queue(waiting=55, oldest=300.0), [a_worker()], None),
        (a_queue(waiting=5, oldest=301.0), [a_worker(held=8)], "warn: mail: the oldest job in line has waited 5 min, 8 of 8 slots busy"),
        (a_queue(waiting=5, oldest=301.0), [a_worker(held=99)], "warn: mail: the oldest job in line has waited 5 min, 8 of 8 slots busy"),
        (a_queue(waiting=5, oldest=301.0), [a_worker(held=2)], "warn: mail: the oldest job in line has waited 5 min, 2 of 8 slots busy"),
        (a_queue(waiting=5, oldest=9e3), [], "bad: mail: 5 jobs in line, and no live worker serves the queue"),
        (a_queue(waiting=5, oldest=9e3, paused=True), [], "warn: mail: paused, with 5 jobs in line, the oldest for 2 h"),
        (a_queue(waiting=5, paused=True), [a_worker()], "warn: mail: paused, with 5 jobs in line"),
        (a_queue(paused=True, scheduled=5), [a_worker()], None),
        (a_queue(broken=3), [a_worker()], "warn: mail: no worker could read 3 jobs"),
    ],
)  # fmt: skip
def test_a_queue(queue: QueueInfo, workers: list[WorkerInfo], said: str | None) -> None:
    assert sentences(queues=[queue], workers=workers) == ([] if said is None else [said])


def test_missing_workers_of_a_queue_are_counted() -> None:
    first, _ = found(queues=[a_queue(waiting=1)], workers=[a_worker(silent_for=60)])

    assert first.sentence == "mail: 1 job in line, and no live worker serves the queue; 1 missing worker did"


@pytest.mark.parametrize(
    ("held", "advice"),
    [(8, "start more workers, or raise --concurrency"), (2, "tenure jobs -q mail --state waiting lists them in order")],
)
def test_the_advice_for_a_slow_queue_depends_on_its_slots(held: int, advice: str) -> None:
    [only] = found(queues=[a_queue(waiting=1, oldest=999.0)], workers=[a_worker(held=held)])

    assert only.advice.startswith(advice)
    assert (only.kind, only.queue, only.task, only.worker) == ("slow", "mail", None, None)


# Workers.


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        (a_worker(), None),
        (a_worker(silent_for=9.9), None),
        (a_worker(silent_for=60, held=3), "warn: worker w has been silent for 60 s, it held 3 jobs"),
        (a_worker(silent_for=60, missing_after=90.0), None),
        (a_worker(trouble="it is paused"), "bad: worker w takes no jobs: it is paused"),
        (a_worker(trouble="it is paused", silent_for=60), "warn: worker w has been silent for 60 s"),
    ],
)
def test_a_worker(worker: WorkerInfo, said: str | None) -> None:
    assert sentences(workers=[worker]) == ([] if said is None else [said])


def test_slots_are_those_of_live_workers_that_run_jobs() -> None:
    by_hand = a_worker(tasks=(), lanes=(), held=5)
    workers = [a_worker(held=3), a_worker(held=12), a_worker(silent_for=60, held=8), by_hand, a_worker(queues=("x",))]

    assert slots_of(workers) == (11, 24)
    assert slots_of(Fleet(workers).live("mail")) == (11, 16)


# Tasks.


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([a_row(succeeded=90, failed=5, error_E=5)], "warn: send: 5 of 95 attempts failed in the last 15 minutes, E"),
        ([a_row(succeeded=90, failed=4, error_E=4)], None),  # too few
        ([a_row(succeeded=95, failed=5, error_E=5)], None),  # 5 % is not more than 5 %
        ([a_row(failed=1, retried=4, error_E=3, error_F=2)], "bad: send: 5 of 5 attempts failed in the last 15 minutes, mostly E"),
        ([a_row(succeeded=10, retried=10)], None),  # returned `Retry`
        ([a_row(succeeded=20, broken=6)], "warn: send: 6 of 26 attempts failed in the last 15 minutes"),
        ([a_row(failed=3), a_row(failed=3, ago=2)], "bad: send: 6 of 6 attempts failed in the last 15 minutes"),
        ([a_row(failed=3), a_row(failed=3, queue="other")], "bad: send: 6 of 6 attempts failed in the last 15 minutes"),
        ([a_row(failed=3), a_row(failed=9, ago=3)], None),  # too long ago
        ([a_row(task="…", queue="…", failed=9)], None),
        ([], None),
    ],
)  # fmt: skip
def test_a_task(rows: list[HistoryRow], said: str | None) -> None:
    assert sentences(tasks=rows) == ([] if said is None else [said])


# Leases.


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], None),
        ([totals(3, lost=4), totals(1, lost=7)], "warn: mail: 3 leases lost in the last 15 minutes"),
        ([totals(3, lost=6)], "warn: mail: 1 lease lost in the last 15 minutes"),
        ([totals(4, lost=0), totals(1, lost=7)], None),  # they were lost before
        ([totals(3, lost=9)], None),  # the queue was forgotten and made anew
        ([totals(3, lost=7, stale=5), totals(0, lost=7, stale=2)], "warn: mail: 0 leases lost in the last 15 minutes, 2 late results refused"),
    ],
)  # fmt: skip
def test_lost_leases(rows: list[HistoryRow], said: str | None) -> None:
    assert sentences(queues=[a_queue(totals=Totals(lost=7))], history=rows) == ([] if said is None else [said])


@pytest.mark.parametrize(
    ("rows", "grown"),
    [
        ([totals(3, lost=2), totals(1, lost=6)], {"mail": 5}),
        ([totals(4, lost=1), totals(3, lost=2)], {"mail": 5}),
        ([totals(1, lost=6)], {"mail": 1}),
        ([totals(2, lost=3, counted=1), totals(1, lost=6)], {"mail": 5}),  # before the first total, workers count
        ([HistoryRow(SLOT - 600, "mail", "", {"lost": 1}), totals(1, lost=6)], {"mail": 2}),
        ([totals(3, lost=7)], {}),
        ([], {}),
    ],
)
def test_growth_is_exact_where_the_total_before_is_known(rows: list[HistoryRow], grown: dict[str, int]) -> None:
    queues = [a_queue(totals=Totals(lost=7)), a_queue("other", totals=Totals(lost=7))]

    assert growth_of("lost", queues, rows, since=SLOT - 600) == grown


# Schedules and facts.


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (a_schedule(), None),
        (a_schedule(next=NOW - 60), None),
        (a_schedule(next=NOW - 90), "bad: schedule nightly: its tick of 2023-11-14 22:13:30 UTC has not fired for 90 s"),
        (a_schedule(next=None), None),
        (a_schedule(next=NOW - 90, active=False), "warn: schedule nightly has lapsed: no worker has declared it for an hour, so it does not fire"),
        (a_schedule(active=False, settings=Settings(plan=PLAN, declared=True, paused=True).encoded()), None),
        (a_schedule(active=False, settings='{"from": "a newer version"}'), None),
    ],
)  # fmt: skip
def test_a_schedule(schedule: ScheduleRecord, said: str | None) -> None:
    assert sentences(schedules=[schedule]) == ([] if said is None else [said])


def test_facts_that_are_not_ok() -> None:
    facts = [Fact("a", "fine"), Fact("b", "so so", Health.WARN, "do this"), Fact("c", "dire", Health.BAD, "do that")]

    assert [(each.level, each.sentence, each.advice) for each in found(facts=facts)] == [
        ("bad", "store: c: dire", "do that"),
        ("warn", "store: b: so so", "do this"),
    ]


# All together.


def test_the_bad_comes_first_and_equal_ones_keep_their_order() -> None:
    given: dict[str, Any] = {
        "queues": [a_queue("b", waiting=1), a_queue("a", waiting=1), a_queue("c", paused=True, waiting=1)],
        "workers": [a_worker(queues=("x",), trouble="it is paused"), a_worker("gone", queues=(), silent_for=60)],
        "facts": [Fact("disk", "full", Health.BAD, "free some")],
    }

    kinds = [(each.kind, each.queue or each.worker) for each in found(**given)]

    assert kinds == [
        ("no_worker", "b"),
        ("no_worker", "a"),
        ("worker_trouble", "w"),
        ("store", None),
        ("paused", "c"),
        ("worker_missing", "gone"),
    ]
    assert found(**given) == found(**given)


def test_a_rule_names_the_first_and_counts_the_rest() -> None:
    many = found(queues=[a_queue(f"q{number}", waiting=1) for number in range(500)])

    assert len(many) == EACH + 1
    assert many[-1].sentence == "490 more queues with jobs in line have no live worker"
    assert many[-1].advice == "tenure queues lists them"


def test_everything_has_advice() -> None:
    everything = found(
        queues=[
            a_queue(waiting=1),
            a_queue("p", paused=True, waiting=1, broken=1),
            a_queue("s", waiting=1, oldest=999.0),
            a_queue("mail2", totals=Totals(lost=1)),
        ],
        workers=[a_worker(queues=("s",), trouble="x"), a_worker(silent_for=60)],
        history=[HistoryRow(SLOT, "mail2", "", {"stale": 1}, {"total_lost": 0})],
        tasks=[a_row(failed=9)],
        schedules=[a_schedule(next=NOW - 999), a_schedule(active=False)],
        facts=[Fact("disk", "full", Health.BAD)],
    )

    assert len({each.kind for each in everything}) == 11
    assert all(each.advice and not each.sentence.endswith(".") for each in everything)


async def test_an_app_reads_it_from_its_store() -> None:
    app = App("memory://")
    store = app.internals.session.store
    for queue in ("mail", "post"):
        await app.remote("send", queue=queue).aenqueue(1)
    await app.apause("post")
    await store.put_schedules([creation("nightly", PLAN, 0.0)])
    await store.record_history([HistoryWrite("mail", "send", {"failed": 9, "error:ValueError": 9})])

    kinds = [(each.kind, each.queue or each.task or each.schedule) for each in await app.aattention()]

    assert kinds == [("no_worker", "mail"), ("schedule_overdue", "nightly"), ("failing", "send"), ("paused", "post")]


def test_a_worker_that_is_quiet_by_an_order_needs_attention_but_is_not_in_trouble() -> None:
    [quiet] = found(workers=[a_worker("w", order=Order.QUIET, trouble="it is paused")])

    assert (quiet.level, quiet.kind, quiet.worker) == (Health.WARN, "worker_quiet", "w")
    assert quiet.advice == "tenure order go-on w"


def test_the_age_that_counts_as_slow_can_be_given() -> None:
    queues, workers = [a_queue(waiting=1, oldest=90.0)], [a_worker("w")]

    assert found(queues=queues, workers=workers) == []
    [slow] = found(queues=queues, workers=workers, slow_after=60.0)
    assert (slow.kind, slow.queue) == ("slow", "mail")
