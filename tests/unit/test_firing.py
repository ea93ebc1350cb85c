"""What declarations, changes, pauses and time make of a schedule."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenure.core.firing import (
    FORGOTTEN_AFTER,
    LAPSED_AFTER,
    backfilling,
    clock_repair,
    creation,
    declaration,
    due_firing,
    job_at,
    lapsed,
    preview,
    triggering,
    update,
    upkeep,
)
from tenure.core.job import NewJob, RunStep, Writes
from tenure.core.origin import origin_of, user_tags
from tenure.core.schedule import (
    CatchUp,
    Changes,
    Firing,
    Overlap,
    Plan,
    SchedulePut,
    ScheduleRecord,
    Settings,
    TickEnd,
    TickRecord,
    settings_of,
)
from tenure.core.when import At, Cron, Every, When
from tenure.errors import InvalidSchedule

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
NOON = datetime(2026, 1, 15, 12, tzinfo=UTC).timestamp()
JOB = NewJob(id="", task="t", queue="q", payload=b'{"a":[1]}', tags=("mine",))
EVERY_HOUR = Cron("@hourly")


def a_plan(**changes: Any) -> Plan:
    return Plan(**{"job": JOB, "when": EVERY_HOUR} | changes)


def a_record(plan: Plan | None = None, *, settings: Settings | None = None, **changes: Any) -> ScheduleRecord:
    """A schedule of version 3 whose next tick is noon."""
    settings = settings or Settings(plan=plan or a_plan(), declared=True)
    usual: dict[str, Any] = {"name": "s", "settings": settings.encoded(), "version": 3, "next": NOON, "seen_at": NOON}
    return ScheduleRecord(**usual | changes)


def fire(record: ScheduleRecord, now: float) -> Firing:
    return due_firing(record, settings_of(record), now)


def fired(record: ScheduleRecord, now: float) -> list[float]:
    """The ticks that have jobs, in hours after noon."""
    return [(tick - NOON) / HOUR for tick, _ in fire(record, now).jobs]


def carried_out(record: ScheduleRecord, firing: Firing, now: float) -> ScheduleRecord:
    """The schedule as a store has it after a firing that enqueues all of its jobs."""
    jobs = (TickRecord(tick, TickEnd.ENQUEUED, now, job.id) for tick, job in firing.jobs)
    history = (*record.history, *firing.entries, *jobs)[-20:]
    return replace(record, version=record.version + 1, next=firing.next, tick=firing.tick, history=history)


# Due ticks.


@pytest.mark.parametrize(
    ("catch_up", "late", "ticks", "missed"),
    [
        ("latest", 0, [0], None),
        ("latest", MINUTE, [0], None),
        ("latest", 59 * MINUTE, [0], None),
        ("latest", HOUR, [1], (0, 1)),
        ("latest", 7 * DAY, [168], (0, 168)),
        ("none", 0, [0], None),
        ("none", MINUTE, [0], None),
        ("none", MINUTE + 1, [], (0, 61 / 3600)),
        ("none", HOUR, [1], (0, 1)),
        ("none", 7 * DAY, [168], (0, 168)),
        ("none", 7 * DAY - 90, [], (0, 168 - 90 / 3600)),
        (1, 2 * HOUR, [2], (0, 2)),
        (3, 0, [0], None),
        (3, 2 * HOUR, [0, 1, 2], None),
        (3, 3 * HOUR, [1, 2, 3], (0, 1)),
        (3, 7 * DAY, [166, 167, 168], (0, 166)),
    ],
)
def test_catch_up_says_which_ticks_are_fired_late(
    catch_up: CatchUp, late: float, ticks: list[float], missed: tuple[float, float] | None
) -> None:
    record, now = a_record(a_plan(catch_up=catch_up)), NOON + late
    firing = fire(record, now)

    assert fired(record, now) == ticks
    entries = [(each.end, (each.tick - NOON) / HOUR, ((each.until or 0) - NOON) / HOUR) for each in firing.entries]
    assert entries == ([] if missed is None else [(TickEnd.MISSED, *missed)])
    assert firing.next == NOON + (late // HOUR + 1) * HOUR
    assert firing.tick == NOON + max(ticks, default=0) * HOUR


@pytest.mark.parametrize(("catch_up", "jobs"), [("latest", 1), ("none", 1), (100, 100)])
@pytest.mark.parametrize("when", [Every(1), Cron("* * * * * *", "Europe/Paris")])
def test_a_schedule_of_each_second_is_no_flood_after_an_outage(when: When, catch_up: CatchUp, jobs: int) -> None:
    now = NOON + 365 * DAY + 0.5
    firing = fire(a_record(a_plan(when=when, catch_up=catch_up)), now)

    assert [tick for tick, _ in firing.jobs] == [now - 0.5 - number for number in reversed(range(jobs))]
    assert [(each.tick, each.until) for each in firing.entries] == [(NOON, firing.jobs[0][0])]
    assert firing.next == now + 0.5


def test_the_last_tick_leaves_no_next_one() -> None:
    firing = fire(a_record(a_plan(when=At(datetime.fromtimestamp(NOON, UTC)))), NOON + 5)
    assert ([tick for tick, _ in firing.jobs], firing.tick, firing.next) == ([NOON], NOON, None)


def test_no_tick_after_the_end_is_caught_up() -> None:
    record = a_record(a_plan(ends=NOON + 90 * MINUTE, catch_up=10))
    assert fired(record, NOON + DAY) == [0, 1]
    assert fire(record, NOON + DAY).next is None


@pytest.mark.parametrize(
    ("overlap", "jobs", "skipped"),
    [
        (Overlap.ALLOW, [0, 1, 2], []),
        (Overlap.SKIP, [0], [1, 2]),
        (Overlap.WAIT, [0], [1, 2]),
        (Overlap.REPLACE, [2], [0, 1]),
    ],
)
def test_of_several_due_ticks_overlap_keeps_one(overlap: Overlap, jobs: list[float], skipped: list[float]) -> None:
    record = a_record(a_plan(overlap=overlap, catch_up=3))
    firing = fire(record, NOON + 2 * HOUR)

    assert firing.overlap is overlap
    assert fired(record, NOON + 2 * HOUR) == jobs
    assert [(each.tick, each.end) for each in firing.entries] == [
        (NOON + each * HOUR, TickEnd.SKIPPED) for each in skipped
    ]
    assert (firing.tick, firing.next) == (NOON + 2 * HOUR, NOON + 3 * HOUR)


def test_what_an_operator_has_changed_is_fired() -> None:
    other = replace(JOB, task="other")
    changes = Changes(job=other, overlap=Overlap.SKIP, catch_up=2, when=Cron("30 * * * *"))
    settings = Settings(plan=a_plan(), declared=True, changes=changes)
    firing = fire(a_record(settings=settings, next=NOON + 1800), NOON + 2 * HOUR)
    assert [job.task for _, job in firing.jobs] == ["other"]
    assert (firing.overlap, firing.next) == (Overlap.SKIP, NOON + 2.5 * HOUR)


@given(
    st.lists(st.floats(0, 10 * HOUR), min_size=1, max_size=8),
    st.sampled_from(["latest", "none", 1, 2, 7]),
    st.sampled_from([Every(1000), EVERY_HOUR, Cron("*/7 * * * *")]),
)
def test_each_tick_is_decided_once(delays: list[float], catch_up: CatchUp, when: When) -> None:
    """A worker looks now and then: every tick is fired or is in a missed range, never both, never twice."""
    plan = a_plan(when=when, catch_up=catch_up)
    record, now = a_record(plan, next=plan.next_tick(NOON)), NOON
    jobs: list[float] = []
    for delay in delays:
        now += delay
        if record.next is not None and record.next <= now:
            firing = fire(record, now)
            assert all(max(jobs, default=0) < each.tick < (each.until or 0) for each in firing.entries)
            assert all(tick > max(jobs, default=0) for tick, _ in firing.jobs)
            jobs += [tick for tick, _ in firing.jobs]
            record = carried_out(record, firing, now)
        assert record.next is not None
        assert record.next > now
    assert len(jobs) == len(set(jobs))


# A clock that is set back.


def test_a_schedule_whose_clock_is_right_needs_no_repair() -> None:
    record = a_record(tick=NOON - HOUR)
    assert clock_repair(record, settings_of(record), NOON - 1) is None
    assert clock_repair(record, settings_of(record), NOON - HOUR) is None


def test_a_schedule_that_was_created_while_the_clock_was_ahead_goes_on_too() -> None:
    put = clock_repair(a_record(), settings_of(a_record()), NOON - DAY)
    assert put is not None
    assert put.next is not None
    assert NOON - DAY < put.next < NOON


def test_after_a_clock_is_set_back_the_schedule_goes_on_from_there() -> None:
    record = a_record(tick=NOON - HOUR)
    put = clock_repair(record, settings_of(record), NOON - 7 * DAY)
    assert put == SchedulePut(
        name="s", if_version=3, settings=record.settings, next=NOON - 7 * DAY + HOUR, active=True, seen=False
    )


@pytest.mark.parametrize("changes", [{"active": False}, {"next": None}])
def test_one_that_is_not_to_fire_is_not_repaired(changes: dict[str, Any]) -> None:
    record = a_record(tick=NOON - HOUR, **changes)
    assert clock_repair(record, settings_of(record), NOON - DAY) is None


def test_a_tick_that_was_fired_ahead_is_not_fired_again() -> None:
    record = a_record()
    for hour in range(2):  # the clock goes wrong at noon, and is an hour ahead
        record = carried_out(record, fire(record, NOON + hour * HOUR), NOON)
    jobs: list[float] = []
    for step in range(1, 4 * 4):
        now = NOON + step * HOUR / 4
        if put := clock_repair(record, settings_of(record), now):
            record = replace(record, next=put.next, version=record.version + 1)
        if record.next is not None and record.next <= now:
            firing = fire(record, now)
            jobs += [(tick - NOON) / HOUR for tick, _ in firing.jobs]
            record = carried_out(record, firing, now)
    assert jobs == [2, 3]


# Declarations.


def test_a_new_schedule_fires_first_after_now() -> None:
    put = creation("s", a_plan(), NOON, declared=True)
    assert (put.name, put.if_version, put.next, put.active) == ("s", 0, NOON + HOUR, True)
    assert put.settings == Settings(plan=a_plan(), declared=True).encoded()
    assert creation("s", a_plan(starts=NOON + DAY), NOON).next == NOON + DAY
    assert creation("s", a_plan(ends=NOON), NOON).next is None


def test_the_same_declaration_changes_nothing() -> None:
    assert declaration(a_record(), a_plan(), NOON + DAY) is None
    assert declaration(a_record(next=None), a_plan(), NOON + DAY) is None


PLANS = [
    a_plan(when=Every(60), starts=1.5, ends=1e10, jitter=30, overlap=Overlap.WAIT, catch_up=7),
    a_plan(when=At(datetime(2030, 1, 1, tzinfo=UTC)), catch_up="none"),
    a_plan(
        job=replace(JOB, payload=b"\x00\xff", raw=True, step=RunStep(run_id="", flow="f", writes=Writes({"a": "1"})))
    ),
]


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_comes_back_from_a_store_as_it_was(plan: Plan) -> None:
    assert settings_of(a_record(plan)).plan == plan
    assert declaration(a_record(plan), plan, NOON) is None


@pytest.mark.parametrize("changes", [{"when": Cron("30 * * * *")}, {"starts": NOON + 20.0}, {"ends": NOON + DAY}])
def test_other_times_start_from_now(changes: dict[str, Any]) -> None:
    plan = a_plan(**changes)
    put = declaration(a_record(), plan, NOON + 90)
    assert put is not None
    assert put.next == plan.next_tick(NOON + 90)
    assert put.next is not None
    assert put.next > NOON + 90


@pytest.mark.parametrize(
    "changes", [{"job": replace(JOB, payload=b"{}")}, {"overlap": Overlap.SKIP}, {"catch_up": 5}, {"jitter": 9.0}]
)
def test_anything_else_keeps_the_next_tick(changes: dict[str, Any]) -> None:
    plan = a_plan(**changes)
    put = declaration(a_record(), plan, NOON + DAY)
    assert put == SchedulePut(
        name="s", if_version=3, settings=Settings(plan=plan, declared=True).encoded(), next=NOON, seen=True
    )


def test_what_an_operator_has_changed_survives_a_deploy() -> None:
    changes = Changes(when=Every(60), overlap=Overlap.SKIP, ends=None)
    before = Settings(plan=a_plan(ends=NOON), declared=True, changes=changes, paused=True)
    deployed = a_plan(when=Every(90), catch_up=5)

    put = declaration(a_record(settings=before, active=False), deployed, NOON + DAY)
    assert put is not None
    assert (put.next, put.active) == (NOON, False)
    assert put.settings == replace(before, plan=deployed).encoded()
    assert replace(before, plan=deployed).effective == a_plan(when=Every(60), overlap=Overlap.SKIP, catch_up=5)


def test_a_declaration_that_had_lapsed_comes_back_and_catches_up() -> None:
    record = a_record(active=False)
    assert lapsed(record, settings_of(record))
    put = declaration(record, a_plan(), NOON + 3 * DAY)
    assert put is not None
    assert (put.next, put.active, put.seen) == (NOON, True, True)
    assert fired(replace(record, next=put.next), NOON + 3 * DAY) == [72]


def test_a_declaration_leaves_a_paused_schedule_paused() -> None:
    record = a_record(settings=Settings(plan=a_plan(), declared=True, paused=True), active=False)
    assert declaration(record, a_plan(), NOON + DAY) is None
    put = declaration(record, a_plan(jitter=1.0), NOON + DAY)
    assert put is not None
    assert put.active is False


def test_a_schedule_of_run_time_is_not_overwritten_by_a_declaration() -> None:
    record = a_record(settings=Settings(plan=a_plan()))
    with pytest.raises(InvalidSchedule, match="'s' is declared in code, and one of this name was created at run time"):
        declaration(record, a_plan(), NOON)


@pytest.mark.parametrize(
    "settings",
    [
        "",
        "nonsense",
        "{}",
        '{"plan":{"job":{"id":"","task":"t","queue":"q"},"when":{"type":"moon"}}}',
        '{"plan":{"job":{"id":"","task":"t","queue":"q"},"when":{"type":"cron","text":"* * * * *","timezone":"Mars/X"}}}',
        '{"plan":{"job":{"id":"","task":"t","queue":"q"},"when":{"type":"every","interval":60},"overlap":"queue"}}',
    ],
)
def test_settings_that_cannot_be_read_here_say_so(settings: str) -> None:
    record = ScheduleRecord(name="s", settings=settings, version=1)
    with pytest.raises(InvalidSchedule, match=r"schedule 's' cannot be read here: .*`tenure schedule delete s`"):
        settings_of(record)


def test_fields_of_a_newer_version_are_passed_over() -> None:
    text = Settings(plan=a_plan()).encoded().replace('{"plan":', '{"shiny":1,"plan":')
    assert settings_of(ScheduleRecord(name="s", settings=text, version=1)).plan == a_plan()


# Pauses.


def test_a_pause_keeps_the_next_tick_and_its_end_starts_from_now() -> None:
    running, paused = Settings(plan=a_plan()), Settings(plan=a_plan(), paused=True)
    put = update(a_record(), running, paused, NOON - 5)
    assert (put.next, put.active) == (NOON, False)
    put = update(a_record(active=False), paused, running, NOON + DAY)
    assert (put.next, put.active) == (NOON + DAY + HOUR, True)


# What time makes of it.


DECLARED, RUN_TIME = Settings(plan=a_plan(), declared=True), Settings(plan=a_plan())
PAUSED = replace(DECLARED, paused=True)


@pytest.mark.parametrize(
    ("settings", "changes", "later", "becomes"),
    [
        (DECLARED, {}, LAPSED_AFTER, None),
        (DECLARED, {}, LAPSED_AFTER + 1, "lapsed"),
        (DECLARED, {"active": False}, FORGOTTEN_AFTER, None),
        (DECLARED, {"active": False}, FORGOTTEN_AFTER + 1, "deleted"),
        (DECLARED, {"next": None}, FORGOTTEN_AFTER, None),
        (DECLARED, {"next": None}, FORGOTTEN_AFTER + 1, "deleted"),
        (RUN_TIME, {}, 1e9, None),
        (RUN_TIME, {"next": None}, FORGOTTEN_AFTER, None),
        (RUN_TIME, {"next": None}, FORGOTTEN_AFTER + 1, "deleted"),
        (replace(RUN_TIME, paused=True), {"active": False}, 1e9, None),
        (replace(RUN_TIME, paused=True), {"active": False, "next": None}, 1e9, None),
        (PAUSED, {"active": False}, 1e9, None),
    ],
)
def test_time_makes_a_schedule_lapse_and_deletes_it_at_last(
    settings: Settings, changes: dict[str, Any], later: float, becomes: str | None
) -> None:
    record = a_record(settings=settings, **changes)
    put = upkeep(record, settings, NOON + later)
    if becomes is None:
        assert put is None
    elif becomes == "deleted":
        assert put == SchedulePut(name="s", if_version=3)
    else:
        assert put == SchedulePut(name="s", if_version=3, settings=record.settings, next=NOON, active=False)


def test_a_schedule_that_is_done_is_kept_for_a_month_after_its_last_tick() -> None:
    history = (TickRecord(NOON + 1, TickEnd.ENQUEUED, at=NOON + FORGOTTEN_AFTER),)
    record = a_record(settings=RUN_TIME, next=None, history=history)
    assert upkeep(record, RUN_TIME, NOON + 2 * FORGOTTEN_AFTER) is None
    assert upkeep(record, RUN_TIME, NOON + 2 * FORGOTTEN_AFTER + 1) is not None


# The job of a tick.


def test_a_tick_has_one_job_wherever_it_is_computed() -> None:
    """The id must not change between versions: two of them may fire the same schedule."""
    job = job_at("s", a_plan(), NOON)
    assert job == job_at("s", a_plan(), NOON)
    assert job.id == "019bc186-de00-7f1c-a5bb-73155b232a95"
    assert len({job_at(name, a_plan(), tick).id for name in ("s", "t") for tick in (NOON, NOON + 0.5, NOON + 1)}) == 6


@given(st.text(min_size=1), st.floats(-1e9, 1e11))
def test_the_id_of_a_job_is_a_uuid_of_version_7(name: str, tick: float) -> None:
    text = job_at(name, a_plan(), tick).id
    parsed = uuid.UUID(text)
    assert (parsed.version, parsed.variant, str(parsed)) == (7, uuid.RFC_4122, text)
    assert parsed.int >> 80 == max(int(tick * 1000), 0)


def test_a_job_says_where_it_comes_from() -> None:
    job = job_at("a:b", a_plan(), NOON + 0.1)
    assert origin_of(job.tags) == ("a:b", NOON + 0.1)
    assert user_tags(job.tags) == ("mine",)
    assert replace(job, id="", tags=JOB.tags) == JOB


def test_the_first_step_of_a_run_has_the_id_of_the_run() -> None:
    job = job_at("s", PLANS[2], NOON)
    assert job.step is not None
    assert (job.step.run_id, job.step.flow, job.step.writes) == (job.id, "f", Writes({"a": "1"}))


def test_without_jitter_a_job_is_due_when_it_is_fired() -> None:
    assert job_at("s", a_plan(), NOON).run_at is None


@given(st.floats(0.001, 1e6), st.floats(0, 1e10))
def test_jitter_delays_a_job_within_its_bound(jitter: float, tick: float) -> None:
    plan = a_plan(jitter=jitter)
    run_at = job_at("s", plan, tick).run_at
    assert run_at is not None
    assert tick <= run_at <= tick + jitter
    assert run_at == job_at("s", plan, tick).run_at


def test_jitter_spreads_schedules_and_ticks() -> None:
    plan = a_plan(jitter=100.0)
    delays = sorted((job_at(f"s{number}", plan, NOON).run_at or 0) - NOON for number in range(200))
    assert delays[0] < 10
    assert delays[-1] > 90
    assert 40 < delays[100] < 60


def test_a_preview_shows_what_will_be_fired() -> None:
    plan = a_plan(jitter=100.0)
    shown = preview("s", plan, NOON, 3)
    assert [tick for tick, _ in shown] == [NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR]
    assert [due for _, due in shown] == [job_at("s", plan, tick).run_at for tick, _ in shown]
    assert preview("s", a_plan(ends=NOON + HOUR), NOON, 3) == [(NOON + HOUR, NOON + HOUR)]


# By hand.


def test_a_trigger_fires_now_and_leaves_the_ticks() -> None:
    record = a_record(a_plan(jitter=100.0, overlap=Overlap.SKIP), tick=NOON - HOUR)
    firing = triggering(record, settings_of(record), NOON - 7, "the-id")
    [(tick, job)] = firing.jobs
    assert (tick, job.id, job.run_at, job.task) == (NOON - 7, "the-id", None, "t")
    assert (firing.end, firing.overlap) == (TickEnd.TRIGGERED, Overlap.SKIP)
    assert (firing.version, firing.tick, firing.next) == (3, NOON - HOUR, NOON)


def test_a_backfill_leaves_the_ticks() -> None:
    record = a_record(a_plan(overlap=Overlap.SKIP), tick=NOON - HOUR)
    jobs = [(tick, job_at("s", a_plan(), tick)) for tick in (NOON - DAY, NOON - DAY + HOUR)]
    firing = backfilling(record, jobs)
    assert (firing.jobs, firing.end, firing.overlap) == (tuple(jobs), TickEnd.BACKFILLED, Overlap.ALLOW)
    assert (firing.version, firing.tick, firing.next) == (3, NOON - HOUR, NOON)
