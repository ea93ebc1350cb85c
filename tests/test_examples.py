"""The examples run as they stand, and are shown as they stand: in the README, or in a page of the documentation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .bridges.queuert_tables import QueuertTables
from .documentation import PAGES

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
ID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

PRINTED: dict[str, str | re.Pattern[str]] = {
    "approval.py": "may ann spend 80?\npaid 80\n",
    "at_least_once.py": "succeeded sent to ann@example.org\n"
    "failed    'bob' is no address\n"
    "succeeded sent to eve@example.org\n"
    "broken    the entry is not a call of a task: JSON is malformed: invalid character (byte 0)\n"
    "attempts: 1 retried, 2 succeeded\n"
    "kept as it came: b\"<mail to='joe'/>\"\n"
    "bob failed again; in all 2 failed\n",
    "dashboard_django.py": "ann: 200\na stranger: 401\n",
    "first_job.py": "5\n",
    "guild_access.py": "7 1\n8 failed: user 8 asks for nothing\n",
    "hooked_jobs.py": "not the whole disk\n"
    "  loaded once, for all children\n"
    "  archive begins\n"
    "photos.zip\n"
    "  archive begins\n"
    "  archive failed with ChildDied, final=True\n"
    "  the worker leaves\n"
    "exit status 0; its process was killed, because its worker was asked to kill it\n",
    "hworker_reports.py": "report Monthly(month=3)\n"
    "report Monthly(month=13)\n"
    "report Yearly(year=2026)\n"
    "report Monthly(month=3)\n"
    "failed Retry\n"
    "failed ValueError\n"
    "succeeded None\n"
    "succeeded None\n",
    "image_fanout.py": "cat.png@100, cat.png@800, dog.png@100, dog.png@800\n",
    "killed_worker.py": "a peer holds [b'first', b'']\n"
    "and was killed; cancelled: 2\n"
    "delivered b'first'\n"
    "delivered b''\n"
    "left: 0\n",
    "logging_standard_library.py": re.compile(
        r"INFO shop: nothing runs yet \(job= task= attempt=\)\n"
        rf"INFO shop: an async def \(job={ID} task=on_the_loop attempt=1\)\n"
        rf"INFO shop: a plain def \(job={ID} task=in_a_thread attempt=1\)\n"
        rf"INFO shop: a child process, and the handlers of its worker \(job={ID} task=in_a_process attempt=1\)\n"
    ),
    "logging_structlog.py": re.compile(
        "".join(
            rf'\{{.*"attempt": 1,.* "event": "{event}", "job": "{ID}", .*"task": "{task}".*\}}\n'
            for task, event in [("count", "counting"), ("count", "done"), ("divide", "dividing"), ("divide", "failed")]
        )
    ),
    "order_flow.py": "c1 has paid 24 for 2 x lamp\n"
    "['reserve in stock: succeeded', 'charge in billing: succeeded', 'receipt in mail: succeeded']\n[True]\n",
    "orders.py": "order 1 is confirmed [(1, 'confirmed')]\n",
    "pydantic_models.py": "parameter 'order': it does not fit its annotation: lines.0.quantity: Input should be greater than or equal to 1\n"
    "Invoice(order=7, total=Decimal('19.80'))\n"
    "broken: parameter 'order': it does not fit its annotation: number: Input should be a valid integer\n"
    "failed: the result does not fit the annotation `-> __main__.Invoice`: total: Field required: return a value of that type, or correct the annotation\n",
    "queue_chain.py": "ann is now reader no. 3 and writer no. 3\n"
    "nothing to grant to bob\n"
    "done=True failed=True completed=checking failed_in=granting\n"
    "checking  check  succeeded\ngranting  grant  succeeded\ntelling   tell   succeeded\n",
    "queuert_packing.py": "succeeded {'$continue': 'ship', 'input': {'weight': 4}}\nsucceeded {'weight': 0}\n",
    "resque_bridge.py": "succeeded 7/main\nfailed 7 has no branch gone\npushed: succeeded\n",
    "schedules.py": "clean_up: At 03:00 every day, Europe/Paris time, active\n"
    "hourly-measure: Every hour, active\n"
    "paris: Every second, paused\n"
    "one job for each tick: True\n",
    "typed_chain.py": "ann asks for 800\n"
    "waits in approve: blocked\n"
    "ann travels for 650 [('ann', 650)]\n['plan', 'approve', 'book']\n",
    "upcasting.py": "9.5 EUR from ann\n3.20 USD from bob\n",
    "worqr_mail.py": "a unique task b'bob' has not finished: wait for it, or cancel it with worqr.cancel('mail', …)\n"
    "succeeded {'sent': 'ann@example.org'}\n"
    "failed no address\n"
    "cancelled: 1\n",
}
SHOWN = "\n".join(page.read_text() for page in PAGES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_where_nothing_was_prepared(
    example: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environment = dict(os.environ)
    if "REDIS_URL" in example.read_text():
        environment["REDIS_URL"] = f"{request.getfixturevalue('redis_server_url')}/6"
    if "QUEUERT_URL" in example.read_text():
        tables = QueuertTables(request.getfixturevalue("postgres_server_url"))
        request.addfinalizer(tables.remove)
        environment |= {"QUEUERT_URL": tables.url, "QUEUERT_SCHEMA": tables.schema}
    ended = subprocess.run(
        [sys.executable, str(example)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    printed = PRINTED.get(example.name, "")

    assert (ended.returncode, ended.stderr) == (0, "")
    if isinstance(printed, str):
        assert ended.stdout == printed
    else:
        assert printed.fullmatch(ended.stdout), ended.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_documentation_shows_it_as_it_is(example: Path) -> None:
    assert f"```python\n{example.read_text()}```" in SHOWN


def test_a_first_job_takes_at_most_eight_lines() -> None:
    lines = [line for line in (ROOT / "examples" / "first_job.py").read_text().splitlines() if line.strip()]

    assert len(lines) <= 8


def test_an_example_that_needs_a_package_says_so_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "structlog.py").write_text("raise ImportError")
    ended = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "logging_structlog.py")],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (1, "this example needs structlog: pip install structlog\n")
