"""`manage.py tenure`, `manage.py migrate` and the checks, in real processes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from .conftest import PATIENCE, Site

databases = pytest.mark.parametrize("site", [pytest.param("sqlite", marks=pytest.mark.long), "postgres"], indirect=True)
sqlite = pytest.mark.parametrize("site", ["sqlite"], indirect=True)

ENQUEUE = """
import django
django.setup()
from tests.django.project.shop import tasks
print(tasks.{call}.id)
"""


def enqueue(site: Site, call: str) -> str:
    return site.run("-c", ENQUEUE.format(call=call)).strip()


@databases
def test_a_task_whose_worker_is_killed_runs_again_and_an_isolated_one_in_a_child(site: Site, tmp_path: Path) -> None:
    site.environment["DJANGO_TEST_OPTIONS"] = json.dumps({"APP": {"lease": 1.5}})
    assert "Tables of Tenure" in site.manage("migrate", "--run-syncdb")
    id_ = enqueue(site, f"die_once.enqueue({str(tmp_path / 'died')!r})")

    with site.worker("-q", "default") as killed:
        killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL
    isolated = enqueue(site, "alone.enqueue()")
    with site.worker("-q", "default,mail", "-c", "2") as worker, site.app() as app:
        answer = app.job(id_).result(timeout=PATIENCE)
        record = app.job(id_)
        child, attempt, orders = app.job(isolated).result(timeout=PATIENCE)
        worker.terminate()

    assert (tmp_path / "died").read_text() == str(killed.pid)
    assert (answer, record._record.attempt) == (worker.pid, 2)  # type: ignore[union-attr]
    assert (attempt, orders) == (1, 0)
    assert child != worker.pid


@pytest.mark.long
@sqlite
def test_a_supervisor_finds_the_project_from_any_folder(site: Site, tmp_path: Path) -> None:
    site.manage("migrate", "--run-syncdb", "--verbosity", "0")
    id_ = enqueue(site, f"die_once.enqueue({str(tmp_path / 'died')!r})")

    with site.worker("-p", "2", cwd=tmp_path) as supervisor, site.app() as app:
        answer = app.job(id_).result(
            timeout=PATIENCE
        )  # its lease has half a minute left, but the supervisor saw it die
        supervisor.terminate()

    assert answer not in {supervisor.pid, int((tmp_path / "died").read_text())}


@sqlite
def test_every_command_is_passed_on(site: Site) -> None:
    site.manage("migrate", "--run-syncdb", "--verbosity", "0")
    id_ = enqueue(site, "add.enqueue(1)")

    assert (
        json.loads(site.manage("tenure", "jobs", "--json", "--settings=tests.django.project.settings"))["jobs"][0]["id"]
        == id_
    )
    assert id_ in site.manage("tenure", "--alias", "now", "explain", id_)
    assert "TASKS has no TenureBackend 'nobody'" in site.manage("tenure", "--alias", "nobody", "jobs", status=1)
    assert "manage.py tenure" in site.manage("tenure", "--help")
