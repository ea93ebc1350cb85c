"""`tenure doctor`: the facts of a store, for people, for programs, and as an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis

from tenure.stores.redis.address import Address
from tenure.stores.sqlite import health
from tenure.stores.values import Fact, Health

from .conftest import Tenure, document, run_process


def test_a_sound_store_is_well(tenure: Tenure) -> None:
    result = tenure("doctor")

    assert result.exit_code == 0, result.output
    for fact in ("SQLite", "layout", "durability", "free space", "write latency"):
        assert fact in result.stdout


def test_programs_get_every_fact(tenure: Tenure, tmp_path: Path) -> None:
    (tmp_path / "jobs.db-bells").write_text("in the way")

    facts = {fact["name"]: fact for fact in document(tenure("doctor", "--json"))["facts"]}

    assert facts["journal"] == {"name": "journal", "value": "wal", "health": "ok", "advice": ""}
    assert facts["doorbell"]["health"] == "warn"
    assert "that folder" in facts["doorbell"]["advice"]
    assert str(tmp_path / "jobs.db") in facts["file"]["value"]


@pytest.mark.parametrize(("verdict", "code"), [(Health.WARN, 0), (Health.BAD, 1)])
def test_the_exit_code_says_whether_something_is_bad(
    tenure: Tenure, monkeypatch: pytest.MonkeyPatch, verdict: Health, code: int
) -> None:
    monkeypatch.setattr(health, "_space", lambda free: Fact("free space", "none\x1b[31m", verdict, "free some"))

    shown, as_json = tenure("doctor"), tenure("doctor", "--json")

    assert (shown.exit_code, as_json.exit_code) == (code, code)
    assert "free some" in shown.stdout
    assert "\x1b[31m" not in shown.stdout
    assert [fact for fact in json.loads(as_json.stdout)["facts"] if fact["health"] == verdict] != []


def test_a_store_that_cannot_be_opened_is_told_in_one_sentence(tmp_path: Path) -> None:
    result = run_process("doctor", "--url", f"sqlite:///{tmp_path}/nowhere/jobs.db")

    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "nowhere" in result.stderr


def test_an_app_is_examined_like_a_url(tenure: Tenure, program: str, tmp_path: Path) -> None:
    assert str(tmp_path / "jobs.db") in tenure("doctor", "--app", program, TENURE_URL="").stdout
    assert "gone when the process ends" in tenure("doctor", "--url", "memory://").stdout


def test_a_postgresql_tells_what_its_operators_must_know(tenure: Tenure, postgres_url: str) -> None:
    result = tenure("doctor", "--url", postgres_url)

    names = ("version", "layout", "bloat", "index bloat", "oldest transaction", "connections", "LISTEN and NOTIFY work")
    assert [name for name in names if name not in result.stdout] == []


def test_a_job_in_no_line_is_told_and_mended_when_asked(tenure: Tenure, redis_url: str) -> None:
    enqueued = document(tenure("enqueue", "send", "1", "--json", TENURE_URL=redis_url))
    namespace = Address.from_url(redis_url).namespace
    with redis.Redis.from_url(redis_url.partition("?")[0]) as client:
        client.delete(f"tenure:{{{namespace}}}:line:default")

    told = tenure("doctor", TENURE_URL=redis_url)
    assert told.exit_code == 1
    assert "1 jobs and index entries are half done" in " ".join(told.stdout.split())
    assert "tenure doctor --mend" in told.stdout

    mended = tenure("doctor", "--mend", "--json", TENURE_URL=redis_url)
    [records] = [fact for fact in document(mended)["facts"] if fact["name"] == "records"]
    assert records["value"] == "1 jobs and index entries were half done, and are repaired"

    assert "every job is where its record says" in tenure("doctor", TENURE_URL=redis_url).stdout
    listed = document(tenure("jobs", "--state", "waiting", "--json", TENURE_URL=redis_url))
    assert [job["id"] for job in listed["jobs"]] == [enqueued["id"]], listed


def test_a_store_with_transactions_has_nothing_to_mend(tenure: Tenure) -> None:
    assert tenure("doctor", "--mend").exit_code == 0
    assert "records" not in tenure("doctor", "--mend").stdout
