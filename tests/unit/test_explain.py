"""Why a job does not run, as tables of cases: no store, no clock."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from tenure.core.inbox import UNREAD
from tenure.core.job import ErrorInfo, JobRecord, State
from tenure.core.lifecycle import EXPIRED, Policy, blocker_failed, lost
from tenure.core.reasons import (
    AttemptsUsedUp,
    AwaitsCompletion,
    BlockedBy,
    Blocker,
    Broken,
    Expired,
    Failed,
    Finished,
    HandedOver,
    Held,
    HolderMissing,
    InLine,
    LossesUsedUp,
    NotFound,
    NoWorker,
    Orphaned,
    Paused,
    Reason,
    Scheduled,
    Suspect,
    TaskUnknown,
    WorkersInTrouble,
    moment,
    span,
)
from tenure.explain import AHEAD, Case, reasons
from tenure.stores.values import QueueInfo, WorkerInfo

NOW = 1_700_000_000.0
BOOM = ErrorInfo("ValueError", "boom\nand more")
OWN = ErrorInfo("Lost", "the key")
BLOCKED = blocker_failed("b", "failed")
POLICY = Policy(max_attempts=3)
IN_LINE = InLine(0, 0, False, ("w",))


def a_job(state: State = State.WAITING, **fields: Any) -> JobRecord:
    return JobRecord("j", "t", "q", state, b"{}", **fields)


def a_worker(id_: str = "w", **fields: Any) -> WorkerInfo:
    told = {"queues": ("*",), "tasks": ("t",), "lanes": ("loop",), **fields}
    return WorkerInfo(id=id_, host="h", pid=1, concurrency=1, **told)


def why(job: JobRecord, *workers: WorkerInfo, **fields: Any) -> list[Reason]:
    given = {"queue": QueueInfo(name="q"), "ahead": 0, **fields}
    return list(reasons(Case(job=job, now=NOW, workers=workers, **given)))


@pytest.mark.parametrize(
    ("job", "workers", "fields", "told"),
    [
        (a_job(), [a_worker()], {}, [IN_LINE]),
        (a_job(priority=-3), [a_worker()], {"ahead": 7}, [InLine(7, -3, False, ("w",))]),
        (a_job(), [a_worker()], {"ahead": None}, [InLine(AHEAD, 0, True, ("w",))]),
        (a_job(), [a_worker()], {"queue": QueueInfo(name="q", paused=True)}, [Paused("q"), IN_LINE]),
        (a_job(), [a_worker()], {"queue": None}, [IN_LINE]),
        (a_job(run_at=NOW + 60), [a_worker()], {}, [Scheduled("j", NOW + 60, 60, 0, None)]),
        (a_job(run_at=NOW + 9, attempt=2, error=BOOM), [a_worker()], {}, [Scheduled("j", NOW + 9, 9, 2, BOOM)]),
        (a_job(run_at=NOW - 1), [a_worker()], {}, [IN_LINE]),
        (a_job(), [], {}, [NoWorker("q", ()), InLine(0, 0, False, ())]),
        (a_job(), [a_worker(queues=("*", "!q"))], {}, [NoWorker("q", ()), InLine(0, 0, False, ())]),
        (a_job(), [a_worker(silent_for=60)], {}, [NoWorker("q", ("w",)), InLine(0, 0, False, ())]),
        # who leases by hand is registered, and runs no task
        (a_job(), [a_worker(tasks=(), lanes=())], {}, [NoWorker("q", ()), InLine(0, 0, False, ())]),
        (a_job(), [a_worker(tasks=("u",))], {}, [TaskUnknown("t", "q", ("w",)), InLine(0, 0, False, ())]),
        (a_job(), [a_worker(tasks=("u",)), a_worker("v")], {}, [InLine(0, 0, False, ("v",), ("w",))]),
        (
            a_job(),
            [a_worker(tasks=("u",)), a_worker("v", queues=("r",))],
            {},
            [TaskUnknown("t", "q", ("w",)), InLine(0, 0, False, ())],
        ),
        (a_job(), [a_worker(trouble="it is paused")], {}, [WorkersInTrouble({"w": "it is paused"}), IN_LINE]),
        (a_job(), [a_worker(trouble="it is paused"), a_worker("v")], {}, [InLine(0, 0, False, ("w", "v"))]),
        (a_job(losses=2), [a_worker()], {}, [Suspect(2, 3), IN_LINE]),
        (a_job(expires_at=NOW), [a_worker()], {}, [Expired("j", NOW, cancelled=False), IN_LINE]),
        (a_job(expires_at=NOW + 1), [a_worker()], {}, [IN_LINE]),
        (a_job(expires_at=NOW, attempt=1), [a_worker()], {}, [IN_LINE]),
    ],
)
def test_why_a_waiting_job_does_not_run(
    job: JobRecord, workers: list[WorkerInfo], fields: dict[str, Any], told: list[Reason]
) -> None:
    assert why(job, *workers, **fields) == told


def test_every_worker_can_read_an_entry_of_an_inbox_again() -> None:
    assert why(msgspec.structs.replace(a_job(), task=UNREAD), a_worker()) == [IN_LINE]


def test_why_a_blocked_job_does_not_run() -> None:
    blocker = Blocker("a", "t", "q", State.RUNNING)

    assert why(a_job(State.BLOCKED, blocked_by=3), blockers=(blocker,)) == [BlockedBy((blocker,), 2)]
    assert why(a_job(State.BLOCKED, blocked_by=1)) == [AwaitsCompletion("j")]


@pytest.mark.parametrize(
    ("left", "workers", "told"),
    [
        (20.0, [a_worker()], Held("w", NOW - 5, 20.0)),
        (20.0, [a_worker(silent_for=11)], HolderMissing("w", 20.0, 11)),
        (20.0, [], HolderMissing("w", 20.0, None)),
        (-4.0, [a_worker(silent_for=60)], Orphaned("q", "w", 4.0, ())),
        (-4.0, [a_worker("v")], Orphaned("q", "w", 4.0, ("v",))),
        (-4.0, [a_worker("v", queues=("r",))], Orphaned("q", "w", 4.0, ())),
    ],
)
def test_who_has_a_running_job(left: float, workers: list[WorkerInfo], told: Reason) -> None:
    job = a_job(State.RUNNING, worker="w", started_at=NOW - 5, lease_left=left)

    assert why(job, *workers) == [told]


@pytest.mark.parametrize(
    ("job", "policy", "told"),
    [
        (a_job(State.SUCCEEDED, ended_at=NOW), None, Finished("j", State.SUCCEEDED, NOW)),
        (a_job(State.SUCCEEDED, run_id="r", successor="k"), None, HandedOver("r", "k")),
        (a_job(State.CANCELLED, ended_at=NOW), None, Finished("j", State.CANCELLED, NOW)),
        (a_job(State.CANCELLED, expires_at=NOW, error=EXPIRED), None, Expired("j", NOW, cancelled=True)),
        (a_job(State.BROKEN, error=BOOM), None, Broken("j", BOOM)),
        (a_job(State.FAILED, losses=3, error=lost(3)), POLICY, LossesUsedUp("j", 3, 3, lost(3))),
        (a_job(State.FAILED, attempt=3, error=BOOM), POLICY, AttemptsUsedUp("j", 3, 3, BOOM)),
        (a_job(State.FAILED, attempt=4, losses=1, error=BOOM), POLICY, AttemptsUsedUp("j", 3, 3, BOOM)),
        (a_job(State.FAILED, attempt=2, error=BOOM, max_attempts=2), None, AttemptsUsedUp("j", 2, 2, BOOM)),
        (a_job(State.FAILED, attempt=1, error=BOOM), POLICY, Failed("j", 1, BOOM)),
        (a_job(State.FAILED, attempt=3, error=BOOM), None, Failed("j", 3, BOOM)),
        # a name of the user's own, that Tenure has too
        (a_job(State.FAILED, attempt=1, error=OWN), POLICY, Failed("j", 1, OWN)),
        (a_job(State.FAILED, error=BLOCKED), POLICY, Failed("j", 0, BLOCKED)),
    ],
)
def test_why_a_finished_job_does_not_run(job: JobRecord, policy: Policy | None, told: Reason) -> None:
    assert why(job, policy=policy) == [told]


BLOCKERS = (Blocker("a", "t", "q", State.RUNNING), Blocker("b", "t", "q", State.FAILED))


@pytest.mark.parametrize(
    ("reason", "sentence", "advice"),
    [
        (Paused("mail"), "queue mail is paused", "tenure resume mail"),
        (Scheduled("j", NOW, 90, 0, None), "it is due at 2023-11-14 22:13:20 UTC, in 90 s", "tenure trigger j"),
        (Scheduled("j", NOW, 90, 2, BOOM), "after attempt 2 (ValueError: boom)", "tenure trigger j"),
        (BlockedBy(BLOCKERS[:1], 0), "it waits for a (t, running)", "tenure explain a"),
        (BlockedBy(BLOCKERS, 7), "a (t, running), b (t, failed) and 7 more", "tenure retry b"),
        (AwaitsCompletion("j"), "waits to be completed", "tenure complete j"),
        (NoWorker("mail", ()), "no live worker serves queue mail", "tenure work module:app -q mail"),
        (NoWorker("mail", ("v", "w")), "queue mail (missing: v, w)", "start one"),
        (TaskUnknown("t", "q", ("w",)), "one worker, and none of them knows task t: w", "aliases="),
        (WorkersInTrouble({"w": "it is paused"}), "w says 'it is paused'", "start another"),
        (Suspect(2, 3), "lost 2 of 3 times", "isolation"),
        (Suspect(2, 0), "lost 2 times", "isolation"),
        (InLine(0, 5, False, ("w",)), "the first in line at priority 5", "tenure workers"),
        (InLine(1, 0, False, ()), "behind 1 other", ""),
        (InLine(100, 0, True, ()), "behind more than 100 others", ""),
        (Held("w", NOW, 12.34), "worker w runs it, since 2023-11-14 22:13:20 UTC; its lease has 12 s left", ""),
        (HolderMissing("w", 12, None), "worker w, which holds it, is not registered", "tenure retire w"),
        (HolderMissing("w", 12, 7200), "has been silent for 2 h", "tenure retire w"),
        (Orphaned("q", "w", 5, ()), "expired 5.0 s ago, and no live worker serves queue q", "-q q"),
        (Orphaned("q", "w", 5, ("v",)), "v should recover the job", "tenure retire w"),
        (Finished("j", State.SUCCEEDED, NOW), "it succeeded at 2023-11-14", "tenure retry j"),
        (Finished("j", State.CANCELLED, NOW), "it was cancelled at 2023-11-14", "tenure retry j"),
        (HandedOver("r", "k"), "handed over to step k", "tenure explain r"),
        (Expired("j", NOW, cancelled=False), "cancels it", ""),
        (Expired("j", NOW, cancelled=True), "it had to start before 2023-11-14", "tenure retry j"),
        (AttemptsUsedUp("j", 1, 1, BOOM), "its only attempt failed (ValueError: boom)", "retry j"),
        (AttemptsUsedUp("j", 3, 3, BOOM), "its 3 attempts are used up, the last one failed (ValueError: boom)", "retry j"),
        (LossesUsedUp("j", 3, 3, None), "lost 3 times, and 3 is its limit", "tenure retry j"),
        (Failed("j", 2, BOOM), "it failed in attempt 2 (ValueError: boom)", "tenure retry j"),
        (Failed("j", 0, ErrorInfo("Gone", "")), "it failed (Gone)", "tenure retry j"),
        (Broken("j", None), "it is broken", "its payload is unchanged"),
        (NotFound("j", ()), "job j never existed", "inbox"),
        (NotFound("j", ("mail",)), "job j never existed", "no live worker serves mail"),
    ],
)  # fmt: skip
def test_each_reason_is_one_sentence_and_says_what_to_do(reason: Reason, sentence: str, advice: str) -> None:
    assert sentence in reason.sentence
    assert advice in reason.advice
    assert "\n" not in reason.sentence + reason.advice


def test_each_reason_says_its_kind_and_its_facts_in_json() -> None:
    assert msgspec.to_builtins(TaskUnknown("t", "q", ("w",))) == {
        "kind": "task_unknown", "task": "t", "queue": "q", "workers": ("w",)
    }  # fmt: skip
    kinds = {cast("str", each.__struct_config__.tag) for each in Reason.__subclasses__()}
    assert len(kinds) == len(Reason.__subclasses__())


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.04, "0.0 s"), (9.5, "9.5 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (48 * 3600, "2 days")],
)
def test_how_long_something_takes_is_told_in_a_unit_that_fits(seconds: float, told: str) -> None:
    assert span(seconds) == told


def test_an_instant_beyond_the_calendar_is_told() -> None:
    assert moment(1e15) == "9999-12-31 00:00:00 UTC"
