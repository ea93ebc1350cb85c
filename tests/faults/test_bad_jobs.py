"""Jobs that cannot be read, that nobody knows, and that end in the worst of ways: their own failure, nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure import State
from tests.inspection import rows, run

from .cluster import Cluster
from .conftest import on_one, on_sqlite
from .processes import Processes

INSERT = (
    "INSERT INTO tenure_jobs (id, task, queue, state, payload, priority, seq, created_at, max_losses) "
    "VALUES (?1, ?2, 'default', 'waiting', {payload}, 0, -1, 0, 3)"
)
COUNT = "UPDATE tenure_queues SET waiting = waiting + 1 WHERE name = 'default'"

UNREADABLE = {
    "no-json": "'{'",
    "empty": "''",
    "another-shape": "'[1, 2]'",
    "wrong-type": """'{"args": ["no number"]}'""",
    "too-many": """'{"args": [1, 2, 3]}'""",
    "unknown-name": """'{"kwargs": {"nmuber": 1}}'""",
    "nan": """'{"args": [NaN]}'""",
    "no-utf-8": "CAST(x'fffe7b' AS TEXT)",
    "bytes": "x'fffe7b'",
    "number": "42",
    "nul": """'{"args": ["' || char(0) || '"]}'""",
    "deep": """'{"args": [' || replace(hex(zeroblob(5000)), '00', '[') || ']}'""",
    "huge": """'{"args": ["' || replace(hex(zeroblob(1000000)), '00', 'xy') || '"]}'""",
}
"""Payloads that anybody with a hand on the file may have left there, by the job that has them."""


def insert(cluster: Cluster, id_: str, task: str, payload: str) -> None:
    """Put a job into the file past the library."""
    run(cluster.path, INSERT.format(payload=payload), id_, task)
    run(cluster.path, COUNT)


@on_sqlite
@pytest.mark.parametrize(
    "ids",
    [sorted(UNREADABLE.keys() - {"no-utf-8", "number"}), ["no-utf-8"], ["number"]],
    ids=["text", "no-utf-8", "number"],
)
def test_jobs_that_cannot_be_read_are_broken_and_their_bytes_kept(
    cluster: Cluster, ids: list[str]
) -> None:  # F18, I17, H14
    [before] = cluster.enqueue("quick", 1)
    for id_ in ids:
        insert(cluster, id_, "quick", UNREADABLE[id_])
    written = rows(cluster.path, "SELECT id, hex(payload), typeof(payload) FROM tenure_jobs")
    [after] = cluster.enqueue("quick", 2)
    cluster.worker()

    assert after.result(timeout=10) == 2
    records = cluster.wait_for_end()

    assert {id_: records[id_].state for id_ in ids} == dict.fromkeys(ids, State.BROKEN)
    assert all((error := records[id_].error) and error.message for id_ in ids), "each with a reason"
    assert records[before.id].state == "succeeded"
    assert set(written) <= set(rows(cluster.path, "SELECT id, hex(payload), typeof(payload) FROM tenure_jobs"))
    assert cluster.app.job(ids[0]).state is State.BROKEN


NAMES = [
    "nobody.knows.me",
    "..",
    "os.system",
    "",
    "x" * 5000,
    "a\nb",
    "\x1b[2J",
    "%s%n",
    "'; DROP TABLE tenure_jobs; --",
]


@on_sqlite
def test_jobs_of_unknown_tasks_wait_for_somebody_who_knows_them(cluster: Cluster) -> None:  # F18, I22, T22
    cluster.enqueue("quick", 1)
    for number, name in enumerate(NAMES):
        insert(cluster, str(number), name, "'{}'")
    [after] = cluster.enqueue("quick", 2)
    worker = cluster.worker("-vv")

    assert after.result(timeout=10) == 2
    found = rows(cluster.path, "SELECT task, state, attempt, misses, run_at, error FROM tenure_jobs WHERE seq = -1")
    assert {task for task, *_ in found} == set(NAMES)
    assert {(state, attempt, misses) for _, state, attempt, misses, *_ in found} == {("waiting", 0, 1)}
    assert all(run_at for *_, run_at, _ in found), "each is delayed"
    assert all("UnknownTask" in error for *_, error in found)
    logged = worker.log.read_bytes()
    assert b"\x1b" not in logged
    assert b"a\nb" not in logged, "one job never makes two log lines"


@on_sqlite
def test_a_listing_shows_jobs_whose_names_nobody_could_have_given(cluster: Cluster) -> None:  # F18, I17
    cluster.enqueue("quick", 1)
    for number, name in enumerate(NAMES):
        insert(cluster, str(number), name, "'{}'")

    assert {job.task for job in cluster.app.jobs(state="waiting")} == {*NAMES, "quick"}


@on_sqlite
def test_a_job_that_nobody_knows_for_an_hour_is_broken(cluster: Cluster) -> None:  # F18, T22
    cluster.enqueue("quick", 1)
    insert(cluster, "unknown", "nobody.knows.me", "'{}'")
    run(cluster.path, "UPDATE tenure_jobs SET misses = 100 WHERE id = 'unknown'")
    cluster.worker()

    records = cluster.wait_for_end()

    assert records["unknown"].state == "broken"
    assert (error := records["unknown"].error)
    assert "no task named 'nobody.knows.me' is registered here" in error.message


ENDS = {
    "system_exit": "SystemExit",
    "keyboard_interrupt": "KeyboardInterrupt",
    "cancelled": "CancelledError",
    "generator_exit": "GeneratorExit",
    "recursion": "RecursionError",
    "memory": "MemoryError",
    "base_exception": "Rude",
    "group": "ExceptionGroup",
    "unprintable": "Unprintable",
    "long_message": "ValueError",
    "surrogates": "ValueError",
    "timeout": "TimeoutError",
    "odd_result": "InvalidResult",
    "huge_result": "PayloadTooLarge",
    "nan_result": "InvalidResult",
    "circular_result": "InvalidResult",
    "lying_result": "InvalidResult",
}


@on_one
@pytest.mark.parametrize("kind", ["async", "thread"])
def test_whatever_a_job_raises_or_returns_is_its_own_failure(cluster: Cluster, kind: str) -> None:  # F19, F20, H8, I17
    bad = {name: cluster.enqueue(f"{kind}.{name}")[0] for name in ENDS}
    [after] = cluster.enqueue("quick", 7)
    worker = cluster.worker("-c", "3")

    assert after.result(timeout=30) == 7
    records = cluster.wait_for_end()

    assert {name: records[job.id].state for name, job in bad.items()} == dict.fromkeys(ENDS, "failed")
    errors = {name: error for name, job in bad.items() if (error := records[job.id].error)}
    assert {name: error.type for name, error in errors.items()} == ENDS
    assert all(len(error.message) < 5_000 and len(error.traceback or "") < 20_000 for error in errors.values())
    assert "cut" in errors["long_message"].message
    assert "in recursion" in (errors["recursion"].traceback or "")
    assert not worker.ended
    assert {records[job.id].losses for job in bad.values()} == {0}
    assert cluster.violations() == []


def test_a_job_that_cancels_the_task_it_runs_in_costs_no_slot(cluster: Cluster) -> None:  # F20, I17
    bad = cluster.enqueue("async.cancels_itself", number=3)
    [after] = cluster.enqueue("quick", 7)
    cluster.worker("-c", "2")

    assert after.result(timeout=10) == 7
    records = cluster.wait_for_end()
    assert {records[job.id].state for job in bad} == {"failed"}


def test_an_app_that_cannot_be_imported_is_told_in_one_sentence(processes: Processes, tmp_path: Path) -> None:  # F18
    (tmp_path / "program.py").write_text("import nowhere_to_be_found\n")
    worker = processes.work(f"{tmp_path}/program.py:app")

    assert worker.wait() == 2
    [sentence] = worker.log.read_text().splitlines()
    assert "No module named 'nowhere_to_be_found'" in sentence
