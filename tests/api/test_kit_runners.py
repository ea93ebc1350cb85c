"""The test kit under pytest, pytest -n, unittest, Django's TestCase, and async tests of asyncio and anyio."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SHOP = """
from tenure import App
app = App("sqlite:///never-used.db", log=False)

@app.task
def charge(card: str) -> str:
    return f"{card} paid"

@app.task
async def send(order: int) -> int:
    return order
"""


def run(folder: Path, *command: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Write files, and run Python with these arguments beside them. Pytest loads no plugin that it is not given."""
    write(folder, **files)
    return start(folder, *command, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def write(folder: Path, **files: str) -> None:
    for name, text in {"shop": SHOP, **files}.items():
        (folder / f"{name}.py").write_text(text)


def start(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**env, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def pytest_run(folder: Path, *options: str, settings: str = 'tenure_app = "shop:app"', **files: str) -> tuple[int, str]:
    (folder / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{settings}\n")
    ended = run(folder, "-m", "pytest", "-q", "-p", "tenure.testing.plugin", *options, **files)
    return ended.returncode, ended.stdout + ended.stderr


MARKED = """
import pytest
from shop import app, charge

@pytest.mark.tenure(store="sqlite", at="2027-03-28T01:30+01:00")
def test_marked(jobs):
    charge.enqueue("visa")
    assert jobs.path is not None and f"{jobs.now:%H:%M}" == "00:30"
    assert [ran.outcome for ran in jobs.run_until_idle()] == ["succeeded"]

@pytest.mark.parametrize("number", range(40))
def test_alone(jobs, number):
    charge.enqueue(f"visa {number}")
    jobs.assert_enqueued(charge, card=f"visa {number}")
    assert len(jobs.run_until_idle()) == 1
"""


def test_pytest_finds_the_app_by_its_setting(tmp_path: Path) -> None:
    code, said = pytest_run(tmp_path, "--strict-markers", test_marked=MARKED)

    assert (code, "41 passed" in said) == (0, True), said


UNUSED = """
import sys

loaded = {name for name in sys.modules if name.startswith("tenure")}

def test_nothing():
    assert loaded == {"tenure", "tenure.testing", "tenure.testing.plugin"}
"""


def test_pytest_finds_the_plugin_by_its_entry_point(tmp_path: Path) -> None:
    """In every project where Tenure is installed; it imports nothing else of it before a test uses the fixture."""
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntenure_app = "shop:app"\n')
    write(tmp_path, test_before=UNUSED, test_marked=MARKED)

    ended = start(tmp_path, "-m", "pytest", "--strict-markers", "--strict-config")

    assert (ended.returncode, "42 passed" in ended.stdout) == (0, True), ended.stdout + ended.stderr
    assert re.search(r"^plugins:.*\btenure-\d", ended.stdout, re.MULTILINE), ended.stdout


@pytest.mark.parametrize("processes", ["2", pytest.param("4", marks=pytest.mark.long)])
def test_processes_of_xdist_do_not_meet(tmp_path: Path, processes: str) -> None:
    code, said = pytest_run(tmp_path, "-p", "xdist", "-n", processes, test_marked=MARKED)

    assert (code, "41 passed" in said) == (0, True), said


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", "the fixture jobs does not know the app"),
        ('tenure_app = "shop:charge"', "charge in shop is no App, but <Task charge>"),
        ('tenure_app = "shopp:app"', "there is no module 'shopp' on sys.path"),
    ],
)
def test_an_app_that_is_not_found_is_explained(tmp_path: Path, settings: str, expected: str) -> None:
    code, said = pytest_run(tmp_path, settings=settings, test_marked=MARKED.replace("from shop import app, charge", ""))

    assert (code, expected in said) == (1, True), said


def test_the_examples_of_the_documentation_pass(tmp_path: Path) -> None:
    examples = {name: (ROOT / "examples" / f"{name}.py").read_text() for name in ("test_shop", "shop", "approval")}
    code, said = pytest_run(tmp_path, "-p", "pytest_asyncio.plugin", settings='asyncio_mode = "auto"', **examples)

    assert (code, "6 passed" in said) == (0, True), said


ASYNC = """
import pytest
from shop import app, charge, send

@MARK
async def test_async(jobs):
    plain, awaited = await charge.aenqueue("visa"), await send.using(delay=60).aenqueue(1)
    jobs.assert_enqueued(send, order=1, delay=60)
    assert len(await jobs.arun_until_idle(skip=True)) == 2
    assert (await plain.aresult(), await awaited.aresult()) == ("visa paid", 1)
"""


@pytest.mark.parametrize(
    ("plugin", "mark"), [("pytest_asyncio.plugin", "pytest.mark.asyncio"), ("anyio.pytest_plugin", "pytest.mark.anyio")]
)
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_async_tests_use_the_twins(tmp_path: Path, plugin: str, mark: str, store: str) -> None:
    code, said = pytest_run(
        tmp_path, "-p", plugin, test_async=ASYNC.replace("MARK", f'pytest.mark.tenure(store="{store}")\n@{mark}'),
        conftest='import pytest\n@pytest.fixture\ndef anyio_backend():\n    return "asyncio"\n',
    )  # fmt: skip

    assert (code, "1 passed" in said) == (0, True), said


UNITTEST = """
import unittest
from shop import app, charge, send
from tenure.testing import kit

class Blocking(unittest.TestCase):
    def setUp(self):
        self.jobs = self.enterContext(kit(app))

    def test_charge(self):
        charge.enqueue("visa")
        self.jobs.assert_enqueued(charge, card="visa")
        self.assertEqual([ran.outcome for ran in self.jobs.run_until_idle()], ["succeeded"])

class Awaited(unittest.IsolatedAsyncioTestCase):
    async def test_send(self):
        jobs = await self.enterAsyncContext(kit(app))
        await send.aenqueue(1)
        self.assertEqual([ran.outcome for ran in await jobs.arun_until_idle()], ["succeeded"])
"""


def test_unittest_enters_the_kit(tmp_path: Path) -> None:
    ended = run(tmp_path, "-W", "error", "-m", "unittest", "test_unit", test_unit=UNITTEST)

    assert (ended.returncode, "Ran 2 tests" in ended.stderr) == (0, True), ended.stderr


DJANGO = """
import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
    USE_TZ=True,
)
django.setup()

from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test import TestCase
from django.test.runner import DiscoverRunner
from tenure import App
from tenure.testing import kit

app = App("postgresql://never/used", log=False)

@app.task
def rename(key: int, name: str) -> int:
    Group.objects.filter(pk=key).update(name=name)
    return Group.objects.count()

class Renames(TestCase):
    def setUp(self):
        self.jobs = self.enterContext(kit(app))

    def test_a_job_sees_the_rows_of_the_transaction_of_the_test(self):
        group = Group.objects.create(name="before")
        with transaction.atomic():
            job = rename.using(connection=connection).enqueue(group.pk, "after")
        self.jobs.run_until_idle()
        group.refresh_from_db()
        self.assertEqual((group.name, job.result()), ("after", 1))

    def test_the_next_test_finds_it_rolled_back(self):
        self.assertEqual((Group.objects.count(), self.jobs.enqueued()), (0, []))

if __name__ == "__main__":
    import sys
    sys.exit(DiscoverRunner(verbosity=1).run_tests(["test_django"]))
"""


def test_jobs_run_inside_the_transaction_of_djangos_test_case(tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        "test_django.py",
        test_django=DJANGO.replace("settings.configure(", "settings.configured or settings.configure("),
    )

    assert (ended.returncode, "Ran 2 tests" in ended.stderr) == (0, True), ended.stderr


def test_the_plugin_imports_nothing_of_tenure_until_a_fixture_is_used(tmp_path: Path) -> None:
    code = (
        "import sys, tenure.testing.plugin\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('tenure', 'msgspec', 'apsw')))"
    )
    ended = run(tmp_path, "-c", code)

    assert ended.stdout == "['tenure', 'tenure.testing', 'tenure.testing.plugin']\n", ended.stderr
