"""Every command on a SQLite file, as people and as programs see it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tenure import App
from tenure.cli import COMMANDS, main

from .conftest import Tenure, document, run_process


def enqueued(tenure: Tenure, *arguments: str) -> str:
    result = tenure("enqueue", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--help"])

    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 3


def test_a_remote_producer_needs_only_the_store(tenure: Tenure) -> None:
    job = enqueued(
        tenure, "send", "42", '"x"', "--kwargs", '{"copies": 2}', "-q", "mail", "--priority", "-1", "--tag", "a"
    )

    shown = document(tenure("job", job, "--json"))

    assert (shown["task"], shown["queue"], shown["state"], shown["priority"], shown["tags"]) == ("send", "mail", "waiting", -1, ["a"])  # fmt: skip
    assert shown["payload"] == {"args": [42, "x"], "kwargs": {"copies": 2}}


def test_a_delayed_job_is_shown_as_scheduled(tenure: Tenure) -> None:
    job = enqueued(tenure, "send", "--delay", "3600")

    assert document(tenure("job", job, "--json"))["label"] == "scheduled"
    assert "due in 60m" in tenure("jobs").stdout


def test_a_delay_beyond_the_calendar_is_shown(tenure: Tenure) -> None:
    job = enqueued(tenure, "send", "--delay", "1e15")

    assert document(tenure("job", job, "--json"))["run_at"].startswith("9999-12-31")
    assert "9999-12-3" in tenure("job", job).stdout
    assert "scheduled" in tenure("jobs").stdout


def test_a_duplicate_is_told_and_gives_the_id_of_the_holder(tenure: Tenure) -> None:
    first = enqueued(tenure, "send", "--unique", "user:42")

    again = tenure("enqueue", "send", "--unique", "user:42")
    as_json = document(tenure("enqueue", "send", "--unique", "user:42", "--json"))

    assert again.stdout.strip() == first
    assert "already" in again.stderr
    assert as_json == {"id": first, "state": "waiting", "duplicate": True}


def test_with_the_code_the_task_says_its_queue_and_the_arguments_are_checked(tenure: Tenure, program: str) -> None:
    job = enqueued(tenure, "send", "42", "--app", program)
    misfit = tenure("enqueue", "send", '"forty-two"', "--app", program)
    slip = tenure("enqueue", "sent", "42", "--app", program)

    assert document(tenure("job", job, "--json"))["queue"] == "mail"
    assert (misfit.exit_code, misfit.stderr.count("\n")) == (2, 1)
    assert (slip.exit_code, "did you mean 'send'?" in slip.stderr) == (2, True)


def test_arguments_of_the_task_are_written_as_json_and_converted_by_the_worker(tenure: Tenure, program: str) -> None:
    job = enqueued(tenure, "remind", '"2026-11-15T12:00:00Z"', "--app", program)

    worked = tenure("work", program, "--until-empty")

    assert worked.exit_code == 0, worked.output
    assert document(tenure("job", job, "--json"))["result"] == 2026


def test_jobs_are_filtered_and_paged(tenure: Tenure) -> None:
    ids = [enqueued(tenure, "send", str(n), "-q", "mail", "--tag", f"n{n}") for n in range(3)]
    other = enqueued(tenure, "report", "-q", "slow")

    page = document(tenure("jobs", "--queue", "mail", "--limit", "2", "--json"))
    rest = document(tenure("jobs", "--queue", "mail", "--limit", "2", "--cursor", page["cursor"], "--json"))

    assert [job["id"] for job in page["jobs"] + rest["jobs"]] == ids[::-1]
    assert [job["id"] for job in document(tenure("jobs", "--task", "report", "--json"))["jobs"]] == [other]
    assert [job["id"] for job in document(tenure("jobs", "--tag", "n1", "--json"))["jobs"]] == [ids[1]]
    assert document(tenure("jobs", "--state", "failed", "--json"))["jobs"] == []
    assert "--cursor" in tenure("jobs", "--limit", "1").stderr


def test_one_job_is_shown_whole(tenure: Tenure, program: str) -> None:
    job = enqueued(tenure, "refuse", '"not today"', "--app", program)
    tenure("work", program, "--until-empty")

    shown = tenure("job", job).stdout

    assert job in shown
    assert "failed" in shown
    assert "Fail: not today" in shown
    assert document(tenure("job", job, "--json"))["error"]["message"] == "not today"


def test_cancel_retry_trigger_and_delete_say_what_they_did(tenure: Tenure) -> None:
    job = enqueued(tenure, "send", "--delay", "3600")

    assert tenure("trigger", job).stdout == "put in line: 1 job\n"
    assert tenure("cancel", job).stdout == "cancelled: 1 job\n"
    assert document(tenure("job", job, "--json"))["state"] == "cancelled"
    assert tenure("retry", job).stdout == "put back: 1 job\n"
    assert document(tenure("job", job, "--json"))["state"] == "waiting"
    assert tenure("delete", job).stdout == "deleted: 1 job\n"
    assert tenure("job", job).exit_code == 2


def test_release_puts_running_jobs_back_and_says_what_does_not_run(tenure: Tenure, url: str) -> None:  # W14
    first, second = enqueued(tenure, "send"), enqueued(tenure, "send")
    app = App(url)
    assert [held.job.id for held in app.lease("default", limit=2)] == [first, second]

    assert tenure("release", first).stdout == "released: 1 job\n"
    assert document(tenure("job", first, "--json"))["attempt"] == 0
    again = tenure("release", first, second, "--json")

    assert (again.exit_code, json.loads(again.stdout)) == (2, {"released": 1})
    assert again.stderr == f"tenure: job {first}: it is not running\n"
    assert document(tenure("job", second, "--json"))["state"] == "waiting"
    app.close()


@pytest.mark.parametrize("action", ["cancel", "retry", "trigger", "delete"])
def test_what_cannot_be_done_to_one_job_is_told_and_done_to_the_others(tenure: Tenure, action: str) -> None:
    first, second = enqueued(tenure, "send", "--delay", "3600"), enqueued(tenure, "send", "--delay", "3600")
    if action == "retry":
        tenure("cancel", first, second)

    result = tenure(action, first, "no-such-job", second)

    assert result.exit_code == 2
    assert result.stdout.endswith(": 2 jobs\n")
    assert result.stderr.count("\n") == 1
    assert "no-such-job" in result.stderr


def test_a_finished_job_is_not_cancelled(tenure: Tenure) -> None:
    job = enqueued(tenure, "send")
    tenure("cancel", job)

    again = tenure("cancel", job)

    assert (again.exit_code, again.stdout) == (2, "")
    assert "final already" in again.stderr


def test_all_queues_are_paused_and_resumed_once_that_is_confirmed(tenure: Tenure, url: str) -> None:
    for queue in ("mail", "post", "slow"):
        tenure("enqueue", "send", "--queue", queue)
    tenure("pause", "slow")

    refused = CliRunner().invoke(main, ["pause", "--all", "--url", url], input="n\n")
    assert (refused.exit_code, "Pause 2 queues (2 jobs in line; 0 running ones continue)? [y/N]" in refused.stderr) == (
        1,
        True,
    )
    assert [each["paused"] for each in document(tenure("queues", "--json"))["queues"]] == [False, False, True]
    assert tenure("pause", "--all", "--yes").stdout == "paused 2 queues\n"
    assert tenure("pause", "--all").stderr == "tenure: every queue is paused already\n"

    confirmed = CliRunner().invoke(main, ["resume", "--all", "--url", url], input="y\n")
    assert (confirmed.exit_code, confirmed.stdout) == (0, "resumed 3 queues\n")
    assert "Resume 3 queues (3 jobs in line)? [y/N]" in confirmed.stderr
    assert tenure("resume", "--all").stderr == "tenure: no queue is paused\n"


@pytest.mark.parametrize("arguments", [[], ["mail", "--all"]])
@pytest.mark.parametrize("command", ["pause", "resume"])
def test_a_queue_is_named_or_all_are(tenure: Tenure, command: str, arguments: list[str]) -> None:
    tenure("enqueue", "send", "--queue", "mail")

    answer = tenure(command, *arguments)

    assert (answer.exit_code, answer.stderr) == (2, "tenure: name either a queue or --all\n")


def test_a_queue_is_paused_and_resumed(tenure: Tenure, program: str) -> None:
    enqueued(tenure, "send", "42", "--app", program)

    assert tenure("pause", "mail").stdout == "paused mail\n"
    assert tenure("pause", "mail").stdout == "mail is already paused\n"
    assert "paused" in tenure("queues").stdout
    tenure("work", program, "--until-empty")
    assert document(tenure("queues", "--json"))["queues"][0]["waiting"] == 1
    assert tenure("resume", "mail").stdout == "resumed mail\n"
    assert tenure("resume", "mail").stdout == "mail is not paused\n"
    tenure("work", program, "--until-empty")
    assert document(tenure("queues", "--json"))["queues"][0]["succeeded"] == 1


def test_a_queue_that_has_never_been_may_be_a_slip(tenure: Tenure) -> None:
    enqueued(tenure, "send", "-q", "mail")

    assert "queue mial has never had a job" in tenure("pause", "mial").stderr


def test_purge_asks_first(tenure: Tenure) -> None:
    for _ in range(3):
        enqueued(tenure, "send", "-q", "mail")

    assert tenure("purge", "mail").exit_code == 1
    assert document(tenure("queues", "--json"))["queues"][0]["waiting"] == 3
    assert tenure("purge", "mail", "--yes").stdout == "purged 3 jobs of mail\n"
    assert document(tenure("queues", "--json"))["queues"][0]["waiting"] == 0


def test_stats_count_what_has_happened(tenure: Tenure, program: str) -> None:  # T20
    enqueued(tenure, "send", "1", "--app", program)
    enqueued(tenure, "refuse", '"no"', "--app", program)
    tenure("work", program, "--until-empty")

    stats = document(tenure("stats", "--json"))

    assert stats["totals"]["processed"] == 2
    assert (stats["queues"]["mail"]["succeeded"], stats["queues"]["default"]["failed"]) == (1, 1)
    assert "mail" in tenure("stats").stdout


def test_the_layout_is_shown_and_applied(tenure: Tenure) -> None:
    assert document(tenure("schema", "--json"))["found"] is None
    assert tenure("schema").stdout.startswith("the store: empty")

    applied = document(tenure("schema", "apply", "--json"))

    assert applied["found"] == applied["known"]
    assert document(tenure("schema", "--json")) == applied


def test_options_come_from_the_environment_too(tenure: Tenure, url: str, program: str) -> None:
    enqueued(tenure, "send", "1", "--app", program)
    enqueued(tenure, "refuse", '"no"', "--app", program)

    assert len(document(tenure("jobs", "--json", TENURE_JOBS_QUEUE="mail"))["jobs"]) == 1
    assert len(document(tenure("jobs", "--json", TENURE_URL="sqlite:///elsewhere.db", TENURE_APP=program))["jobs"]) == 2
    assert len(document(tenure("jobs", "--json", "--url", url, TENURE_URL="sqlite:///elsewhere.db"))["jobs"]) == 2


def test_help_comes_at_once_because_nothing_heavy_is_imported_for_it() -> None:
    code = "import sys; from tenure.cli import main; main(['--help'], standalone_mode=False); print(*sys.modules)"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert "schema" in shown
    heavy = {"rich", "apsw", "redis", "uvloop", "asyncio", "tenure.app", "tenure.worker.worker"}
    assert not heavy & set(shown.splitlines()[-1].split())


def test_a_job_shows_what_its_failed_attempt_wrote(tenure: Tenure, program: str, tmp_path: Path) -> None:
    with (tmp_path / "program.py").open("a") as source:
        source.write(
            "@app.task(isolation='process', output=1000, retry=None)\n"
            "def writes() -> None:\n"
            "    print('first line\\n\\x1b[31mlast line')\n"
            "    raise ValueError('after all that')\n"
        )
    job_id = enqueued(tenure, "writes")
    ran = run_process("work", program, "--until-empty")
    assert ran.returncode == 0, ran.stderr

    assert document(tenure("job", job_id, "--json"))["error"]["output"] == "first line\n\x1b[31mlast line\n"
    shown = tenure("job", job_id).stdout
    assert "first line" in shown
    assert "\x1b" not in shown


def test_a_job_shows_what_its_successful_attempt_wrote(tenure: Tenure, program: str, tmp_path: Path) -> None:
    with (tmp_path / "program.py").open("a") as source:
        source.write(
            "@app.task(isolation='process', output=1000)\n"
            "def writes() -> None:\n"
            "    print('first line\\n\\x1b[31mlast line')\n"
        )
    job_id = enqueued(tenure, "writes")
    ran = run_process("work", program, "--until-empty")
    assert ran.returncode == 0, ran.stderr

    [attempt] = document(tenure("job", job_id, "--json"))["attempts"]
    assert (attempt["outcome"], attempt["error"]) == ("succeeded", None)
    assert attempt["output"] == "first line\n\x1b[31mlast line\n"
    shown = tenure("job", job_id).stdout
    [timeline] = [line for line in shown.splitlines() if "attempt 1: succeeded" in line]
    assert "wrote: \\x1b[31mlast line" in timeline
    assert "first line" in shown
    assert "\x1b" not in shown
