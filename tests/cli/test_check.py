"""`tenure check`: each line that it marks is a job that really does not run with the new code."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import Result

from tenure import App
from tenure.cli.target import load_app
from tenure.core.job import JobRecord, State
from tenure.stores import open_store
from tenure.stores.values import Search

from .conftest import Tenure, run_process

HEAD = """
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from tenure import App, Context, Next, Wait

app = App({url!r}, unknown_for=0, {options})

"""

number = itertools.count()


class Place:
    """Code and stores in a folder."""

    def __init__(self, path: Path, tenure: Tenure) -> None:
        self.path = path
        self.tenure = tenure

    def url(self, name: str) -> str:
        return f"sqlite:///{self.path}/{name}.db"

    def target(self, code: str, store: str = "read", options: str = "") -> str:
        path = self.path / f"code{next(number)}.py"
        path.write_text(HEAD.format(url=self.url(store), options=options) + code)
        return f"{path}:app"

    def app(self, code: str, store: str, options: str = "") -> App:
        return load_app(self.target(code, store, options))

    def enqueue(self, code: str, enqueue: str) -> None:
        """Run the old code, and enqueue these on two stores: one for a worker to run, one to be read."""
        for store in ("run", "read"):
            app = self.app(code, store)
            names = {task.function.__name__: task for task in app.tasks.values()} | dict(app.internals.flows)
            exec(enqueue, {"app": app, **names})

    def run(self, code: str, options: str = "") -> list[JobRecord]:
        """Let a worker run what is there with this code. Returns the jobs as they are then."""

        async def run() -> list[JobRecord]:
            app = self.app(code, "run", options)
            store = open_store(self.url("run"))
            try:
                async with app.worker("*", poll=0.05):
                    async with asyncio.timeout(20):
                        while any(job.state in OPEN and not job.misses for job in await found(store)):
                            await asyncio.sleep(0.02)
                return await found(store)
            finally:
                await store.close()
                await app.aclose()

        return asyncio.run(run())

    def check(self, code: str, *options: str, app_options: str = "") -> Result:
        return self.tenure("check", self.target(code, "read", app_options), *options)


OPEN = (State.WAITING, State.RUNNING)


async def found(store: Any) -> list[JobRecord]:
    return list((await store.search(Search())).jobs)


@pytest.fixture
def place(tmp_path: Path, tenure: Tenure) -> Place:
    return Place(tmp_path, tenure)


class Case(NamedTuple):
    """Old code that has enqueued a job, and new code that does not run it."""

    old: str
    enqueue: str
    new: str
    error: str
    """The type of the error that a worker with the new code ends the job with."""

    line: str
    options: str = ""
    cure: str | None = None
    """Code that runs the job after all, as the advice says."""


RESIZE = "@app.task\ndef resize(path: str) -> None: ...\n"
WIDE = "def resize(path: str, width: int) -> None: ...\n"
FLOW = "parcel = app.flow('parcel')\n"

CASES = {
    "a parameter more": Case(
        RESIZE, "resize.enqueue('a.png')", f"@app.task\n{WIDE}", "PayloadError",
        r"✗ resize +1  cannot be read: parameter 'width' is missing \(first: \S+\)\. Give it a default, or raise the version and upcast\.",
        cure="@app.task\ndef resize(path: str, width: int = 1) -> None: ...\n",
    ),
    "a parameter less": Case(
        f"@app.task\n{WIDE}", "resize.enqueue('a.png', width=2)", RESIZE, "PayloadError",
        r"✗ resize +1  cannot be read: there is no parameter 'width' \(.*\)\. Take it again, or raise",
    ),
    "fewer positions": Case(
        f"@app.task\n{WIDE}", "resize.enqueue('a.png', 2)", RESIZE, "PayloadError",
        r"✗ resize +1  cannot be read: there are more arguments than parameters",
    ),
    "another annotation": Case(
        RESIZE, "resize.enqueue('a.png')", "@app.task\ndef resize(path: int) -> None: ...\n", "PayloadError",
        r"✗ resize +1  cannot be read: parameter 'path': it does not fit its annotation: .* Accept both, or raise",
        cure="@app.task(version=2)\ndef resize(path: int) -> None: ...\n"
        "@resize.upcast(1)\ndef _(path: str) -> dict[str, object]:\n    return {'path': len(path)}\n",
    ),
    "a field more in a dataclass": Case(
        "@dataclass\nclass Size:\n    width: int\n@app.task\ndef resize(size: Size) -> None: ...\n",
        "resize.enqueue(resize.function.__globals__['Size'](1))",
        "@dataclass\nclass Size:\n    width: int\n    height: int\n@app.task\ndef resize(size: Size) -> None: ...\n", "PayloadError",
        r"✗ resize +1  cannot be read: parameter 'size': it does not fit its annotation: .*height",
    ),
    "no such task": Case(
        "@app.task\ndef notify() -> None: ...\n", "notify.enqueue()", "@app.task(name='mail.notify')\ndef notify() -> None: ...\n",
        "UnknownTask", r"✗ notify +1  no such task; did you mean 'mail\.notify'\? \(first: \S+\)\. Add aliases=\[\"notify\"\]",
        cure="@app.task(name='mail.notify', aliases=['notify'])\ndef notify() -> None: ...\n",
    ),
    "a later version": Case(
        "@app.task(version=2)\ndef pay() -> None: ...\n@pay.upcast(1)\ndef _() -> dict[str, object]:\n    return {}\n",
        "pay.enqueue()", "@app.task\ndef pay() -> None: ...\n", "NewerPayload",
        r"✗ pay +1  have version 2, and this code knows version 1 \(.*\)\. Deploy the code of that version",
    ),
    "an upcaster that raises": Case(
        "@app.task\ndef pay(a: int) -> None: ...\n", "pay.enqueue(0)",
        "@app.task(version=2)\ndef pay(a: float) -> None: ...\n@pay.upcast(1)\ndef _(a: int) -> dict[str, object]:\n    return {'a': 1 / a}\n",
        "PayloadError", r"✗ pay +1  cannot be read: the upcaster from version 1 raised ZeroDivisionError: .* Mend the upcaster",
    ),
    "an upcaster that is gone": Case(
        "@app.task\ndef pay(a: int) -> None: ...\n", "pay.enqueue(0)",
        "@app.task(version=3)\ndef pay(a: int) -> None: ...\n@pay.upcast(2)\ndef _(a: int) -> dict[str, object]:\n    return {'a': a}\n",
        "PayloadError", r"✗ pay +1  cannot be read: the payload has version 1, and nothing leads from version 1 to 2: add @….upcast\(1\)",
    ),
    "raw now": Case(
        RESIZE, "resize.enqueue('a')", "@app.task(raw=True)\ndef resize(path: bytes) -> None: ...\n", "PayloadError",
        r"✗ resize +1  cannot be read: task 'resize' is raw and takes bytes, but the job has JSON",
    ),
    "too large now": Case(
        RESIZE, "resize.enqueue('a' * 2000)", RESIZE, "PayloadTooLarge",
        r"✗ resize +1  cannot be read: the payload has 2,0\d\d bytes and the limit is 1,024: .* Raise payload_limit", "payload_limit=1024",
    ),
    "a step less": Case(
        FLOW + "@parcel.step\ndef label(a: int) -> None: ...\n", "parcel.start(a=1)",
        FLOW + "@parcel.step\ndef stick(a: int) -> None: ...\n", "UnknownTask",
        r"✗ parcel\.label +1  the run is at a step that the flow has no longer \(first: .*\)\. Add aliases=\[\"label\"\]",
        cure=FLOW + "@parcel.step(aliases=['label'])\ndef stick(a: int) -> None: ...\n",
    ),
    "a flow less": Case(
        FLOW + "@parcel.step\ndef label(a: int) -> None: ...\n", "parcel.start(a=1)", RESIZE, "UnknownTask",
        r"✗ parcel\.label +1  no such flow: 'parcel'",
    ),
    "an attribute that the run has not": Case(
        FLOW + "@parcel.step\ndef label(a: int) -> None: ...\n", "parcel.start(a=1)",
        FLOW + "@parcel.step\ndef label(a: int, b: int) -> None: ...\n", "MissingAttribute",
        r"✗ parcel\.label +1  attribute 'b' is missing \(.*\)\. Give the parameter a default",
    ),
    "an attribute of another type": Case(
        FLOW + "@parcel.step\ndef label(a: int) -> None: ...\n", "parcel.start(a=1)",
        FLOW + "@parcel.step\ndef label(a: list[int]) -> None: ...\n", "PayloadError",
        r"✗ parcel\.label +1  cannot be read: attribute 'a': it does not fit its annotation",
    ),
    "a task that became a step": Case(
        "@app.task(name='parcel.label')\ndef label() -> None: ...\n", "label.enqueue()",
        FLOW + "@parcel.step\ndef label() -> None: ...\n", "PayloadError",
        r"✗ parcel\.label +1  cannot be read: the job of step 'parcel\.label' belongs to no run",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_marked_really_breaks_under_a_worker_with_the_new_code(place: Place, case: Case) -> None:
    place.enqueue(case.old, case.enqueue)
    broken = place.run(case.new, case.options)
    assert [(job.state, job.error and job.error.type) for job in broken] == [(State.BROKEN, case.error)]

    result = place.check(case.new, app_options=case.options)

    assert result.exit_code == 1, result.output
    assert "looked at 1 of 1 jobs" in result.stdout
    assert re.search(case.line, result.stdout), result.stdout
    if case.cure is not None:
        assert place.check(case.cure).exit_code == 0
    assert place.check(case.old).exit_code == 0


def test_what_is_fine_runs(place: Place) -> None:
    old = "@app.task\ndef charge(customer: str, amount: float) -> None: ...\n"
    new = (
        "@app.task(version=2)\ndef charge(customer: str, amount: Decimal) -> None: ...\n"
        "@charge.upcast(1)\ndef _(customer: str, amount: float) -> dict[str, object]:\n"
        "    return {'customer': customer, 'amount': Decimal(str(amount))}\n"
    )
    place.enqueue(old, "charge.enqueue_many([('a', 1.5)] * 3)")
    place.enqueue(new, "from decimal import Decimal; charge.enqueue('b', Decimal(1))")

    result = place.check(new)

    assert result.exit_code == 0, result.output
    assert re.search(r"^  charge +4  fine, 3 of them upcast from version 1$", result.stdout, re.MULTILINE), (
        result.stdout
    )
    assert {job.state for job in place.run(new)} == {State.SUCCEEDED}


def test_a_worker_that_would_not_start_is_told(place: Place) -> None:
    place.enqueue(RESIZE, "resize.enqueue('a')")
    gap = "@app.task(version=2)\ndef resize(path: str) -> None: ...\n"
    with pytest.raises(Exception, match="nothing reads the jobs of version 1"):
        place.run(gap)

    result = place.check(gap)

    assert result.exit_code == 1
    assert re.search(r"✗ worker .* does not start: task 'resize': it has version=2", result.stdout), result.stdout


def test_queues_that_no_worker_serves_are_named(place: Place) -> None:
    code = "@app.task(queue='reports')\ndef resize(path: str) -> None: ...\n"
    place.enqueue(code, "resize.enqueue('a')")

    assert place.check(code).exit_code == 0
    assert place.check(code, "--serves", "mail,rep*").exit_code == 0
    result = place.check(code, "--serves", "mail,!reports,*")

    assert result.exit_code == 1
    assert re.search(r"✗ queue reports +1  no worker of --serves serves it\. Add it to --queues", result.stdout)


def test_jobs_that_may_be_retried_are_read_if_wanted(place: Place) -> None:
    place.enqueue("@app.task\ndef old() -> None: ...\n", "old.enqueue()")
    place.run(RESIZE)
    target = place.target(RESIZE, "run")

    assert place.tenure("check", target).exit_code == 0
    result = place.tenure("check", target, "--failed")

    assert result.exit_code == 1
    assert "✗ old" in result.stdout


def test_a_schedule_whose_jobs_could_not_be_read_is_named(place: Place) -> None:
    place.enqueue(RESIZE, "from tenure import Every; app.create_schedule('nightly', resize.bind('a'), Every(3600))")

    assert place.check(RESIZE).exit_code == 0
    result = place.check(f"@app.task\n{WIDE}")

    assert result.exit_code == 1
    assert re.search(
        r"✗ schedule nightly .* its jobs of task 'resize': cannot be read: parameter 'width' is missing", result.stdout
    )


def test_a_lease_that_has_changed_is_a_note(place: Place) -> None:
    place.enqueue("@app.task(lease=60)\ndef resize() -> None: ...\n", "resize.enqueue()")

    result = place.check("@app.task(lease=30)\ndef resize() -> None: ...\n")

    assert result.exit_code == 0
    assert re.search(r"! resize +1  have a lease of 60 s, and the code says 30 s", result.stdout), result.stdout


def test_programs_get_every_finding(place: Place) -> None:
    place.enqueue(RESIZE, "resize.enqueue('a')")

    result = place.check(f"@app.task\n{WIDE}", "--json")

    assert result.exit_code == 1
    [finding] = (document := json.loads(result.stdout))["findings"]
    assert {**document, "findings": 1} == {
        "ok": False,
        "looked_at": 1,
        "jobs": 1,
        "runs": 0,
        "all": False,
        "findings": 1,
    }
    assert finding.keys() == {"name", "verdict", "text", "advice", "jobs", "first"}
    assert (finding["name"], finding["verdict"], finding["jobs"]) == ("resize", "bad", 1)


@pytest.mark.parametrize("everything", [False, True])
def test_a_job_behind_thousands_is_found_if_it_is_among_the_newest_or_all_are_read(
    place: Place, everything: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenure.cli.check import examining

    monkeypatch.setattr(examining, "FIRST", 20)
    monkeypatch.setattr(examining, "NEWEST", 30)
    monkeypatch.setattr(examining, "BATCH", 7)
    code = RESIZE + "@app.task\ndef old() -> None: ...\n"
    place.enqueue(code, "resize.enqueue_many([('a',)] * 40); old.enqueue(); resize.enqueue_many([('a',)] * 60)")

    result = place.check(RESIZE, *(["--all"] if everything else []))

    assert result.exit_code == (1 if everything else 0), result.stdout
    assert f"looked at {101 if everything else 50} of 101 jobs" in result.stdout

    place.enqueue(code, "old.enqueue()")
    assert place.check(RESIZE).exit_code == 1, "the newest are looked at too"


def test_what_cannot_be_answered_is_exit_code_2(place: Place, tmp_path: Path) -> None:
    target = place.target(RESIZE, "nobody")
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "bad.json").write_text("{}")

    for command in (
        ("check", target),
        ("check", f"{tmp_path}/broken.py:app"),
        ("check", f"{tmp_path}/none.py:app"),
        ("check", target, "--against", f"{tmp_path}/none.json"),
        ("check", target, "--against", f"{tmp_path}/bad.json"),
        ("check", target, "--record", f"{tmp_path}/none/tasks.json"),
        ("check", target, "--record", f"{tmp_path}/tasks.json", "--all"),
        ("check", target, "--serves", ","),
    ):
        result = place.tenure(*command)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), (command, result.output)


def test_hostile_names_stay_in_their_line(place: Place) -> None:
    place.enqueue(RESIZE, "app.remote('resize').enqueue(**{'\\x1b[31m\\n': 1})")

    result = place.check(RESIZE)

    assert result.exit_code == 1
    assert "\x1b" not in result.stdout
    assert result.stdout.count("\n") == 2


# Against recorded code.

AGAINST = {
    "removed": (RESIZE, "", "no such task"),
    "renamed": (RESIZE, "@app.task\ndef resizes(path: str) -> None: ...\n", "no such task; did you mean 'resizes'?"),
    "a parameter more": (RESIZE, f"@app.task\n{WIDE}", "parameter 'width' is missing in its jobs. Give it a default"),
    "a parameter less": (f"@app.task\n{WIDE}", RESIZE, "parameter 'width' is gone"),
    "a default less": (
        "@app.task\ndef resize(path: str = '') -> None: ...\n", RESIZE, "parameter 'path' has no default any more"),
    "another annotation": (RESIZE, "@app.task\ndef resize(path: int) -> None: ...\n", "parameter 'path' was str and is int"),
    "the fields of a class": (
        "@dataclass\nclass Size:\n    w: int\n@app.task\ndef resize(size: Size) -> None: ...\n",
        "@dataclass\nclass Size:\n    w: int\n    h: int\n@app.task\ndef resize(size: Size) -> None: ...\n", "parameter 'size' was "),
    "another order": (
        f"@app.task\n{WIDE}", "@app.task\ndef resize(width: int, path: str) -> None: ...\n", "'path' has another position"),
    "by name only": (RESIZE, "@app.task\ndef resize(*, path: str) -> None: ...\n", "'path' is passed in another way"),
    "a version without upcaster": (
        RESIZE, "@app.task(version=2)\ndef resize(path: str) -> None: ...\n", "nothing reads its jobs of version 1"),
    "an upcaster with other parameters": (
        RESIZE,
        "@app.task(version=2)\ndef resize(p: int) -> None: ...\n@resize.upcast(1)\ndef _(path: int) -> dict[str, object]:\n    return {}\n",
        "upcast(1): parameter 'path' was str and is int"),
    "a version back": (
        "@app.task(version=2)\ndef resize() -> None: ...\n@resize.upcast(1)\ndef _() -> dict[str, object]:\n    return {}\n",
        "@app.task\ndef resize() -> None: ...\n", "had version 2 and has version 1"),
    "raw": (RESIZE, "@app.task(raw=True)\ndef resize(path: bytes) -> None: ...\n", "took JSON and takes raw bytes"),
    "a step less": (
        FLOW + "@parcel.step\ndef label() -> None: ...\n", FLOW + "@parcel.step\ndef stick() -> None: ...\n",
        "a step that the flow has no longer"),
    "a flow less": (FLOW + "@parcel.step\ndef label() -> None: ...\n", "", "no such flow: 'parcel'"),
    "an attribute more": (
        FLOW + "@parcel.step\ndef label() -> None: ...\n", FLOW + "@parcel.step\ndef label(a: int) -> None: ...\n",
        "attribute 'a' is needed now"),
    "a queue that is not served": (RESIZE, RESIZE.replace("task", "task(queue='other')"), "no worker serves its queue 'default'"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line"), AGAINST.values(), ids=AGAINST.keys())
def test_changes_that_break_jobs_are_found_without_a_store(
    place: Place, tmp_path: Path, old: str, new: str, line: str
) -> None:
    file = str(tmp_path / "tasks.json")
    assert place.check(old, "--record", file).exit_code == 0

    result = place.check(new, "--against", file, "--serves", "other")

    assert result.exit_code == 1, result.output
    assert line in result.stdout
    assert place.check(old, "--against", file).exit_code == 0
    assert not (tmp_path / "read.db").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (RESIZE, RESIZE.replace("resize", "scale").replace("@app.task", "@app.task(aliases=['resize'])")),
        (RESIZE, "@app.task\ndef resize(path: str, width: int = 1) -> None: ...\n"),
        (RESIZE, "@app.task\ndef resize(path: str | None) -> None: ...\n"),
        (RESIZE, "@app.task\ndef resize(path: Any) -> None: ...\n"),
        (RESIZE.replace("str", "int"), RESIZE.replace("str", "float")),
        (RESIZE.replace("str", "Literal['a']"), RESIZE.replace("str", "Literal['a', 'b']")),
        (RESIZE, CASES["another annotation"].cure),
        (
            FLOW + "@parcel.step\ndef a(x: int, y: int) -> None: ...\n",
            FLOW + "@parcel.step\ndef a(y: int) -> None: ...\n",
        ),
    ],
)
def test_changes_that_break_nothing_are_fine(place: Place, tmp_path: Path, old: str, new: str) -> None:
    file = str(tmp_path / "tasks.json")
    place.check(old, "--record", file)

    result = place.check(new, "--against", file)

    assert result.exit_code == 0, result.output
    assert "✗" not in result.stdout


def test_settings_that_have_changed_are_notes(place: Place, tmp_path: Path) -> None:
    file = str(tmp_path / "tasks.json")
    place.check("@app.task(max_attempts=3, lease=60)\ndef a() -> None: ...\n", "--record", file)

    result = place.check("@app.task(max_attempts=5, queue='b')\ndef a() -> None: ...\n", "--against", file)

    assert result.exit_code == 0
    for line in ("max_attempts was 3 and is 5", "lease was 60.0 and is default", "queue was default and is b"):
        assert f"  {line};" in result.stdout


def test_a_record_can_be_compared_and_written_anew_in_one_command(place: Place, tmp_path: Path) -> None:
    file = str(tmp_path / "tasks.json")
    place.check(RESIZE, "--record", file)
    before = Path(file).read_text()

    assert place.check(f"@app.task\n{WIDE}", "--against", file, "--record", file).exit_code == 1
    assert Path(file).read_text() != before
    assert place.check(f"@app.task\n{WIDE}", "--against", file).exit_code == 0


def test_a_process_is_fast_and_answers_with_its_exit_code(place: Place, tmp_path: Path) -> None:
    file = str(tmp_path / "tasks.json")
    assert run_process("check", place.target(RESIZE), "--record", file).returncode == 0
    assert run_process("check", place.target(f"@app.task\n{WIDE}"), "--against", file).returncode == 1
