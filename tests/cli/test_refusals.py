"""Bad input: one sentence on stderr, exit code 2, no traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .conftest import Tenure, run_process


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, for modules under names that no other test uses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    return tmp_path


def sentence(tenure: Tenure, *arguments: str, **environment: str) -> str:
    """What a command that is refused says."""
    result = tenure(*arguments, **environment)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("tenure: ")
    return result.stderr


def test_a_module_that_does_not_exist_brings_the_close_match(tenure: Tenure, here: Path) -> None:
    (here / "shopfront.py").write_text("")

    assert "there is no module 'shopfrnt': did you mean 'shopfront'?" in sentence(tenure, "work", "shopfrnt:app")


def test_a_submodule_that_does_not_exist_brings_the_close_match(tenure: Tenure, here: Path) -> None:
    (here / "bakery").mkdir()
    (here / "bakery" / "__init__.py").write_text("")
    (here / "bakery" / "ovens.py").write_text("")

    assert "there is no module 'bakery.oven': did you mean 'bakery.ovens'?" in sentence(
        tenure, "work", "bakery.oven:app"
    )


def test_a_module_is_not_taken_for_a_package(tenure: Tenure, here: Path) -> None:
    (here / "florist.py").write_text("")

    assert "there is no module 'florist.roses'" in sentence(tenure, "work", "florist.roses:app")


def test_an_attribute_that_does_not_exist_brings_the_app_that_does(tenure: Tenure, here: Path, program: str) -> None:
    path = program.removesuffix(":app")

    assert f"{path} has no attribute 'ap': did you mean 'app'?" in sentence(tenure, "work", f"{path}:ap")


def test_a_file_that_does_not_exist_brings_the_close_match(tenure: Tenure, here: Path, program: str) -> None:
    assert "there is no file progam.py: did you mean 'program.py'?" in sentence(tenure, "work", "progam.py:app")


def test_something_else_than_an_app_is_named(tenure: Tenure, program: str) -> None:
    assert "is of type AsyncTask, not an App" in sentence(tenure, "work", program.replace(":app", ":send"))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import nowhere_to_be_found", "line 1: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("x = 1\ny = 1 / 0", "line 2: ZeroDivisionError: division by zero"),
        ("x = (", "line 1: SyntaxError"),
        ("raise SystemExit(0)", "line 1: SystemExit: 0"),
        ("raise ValueError('two\\nlines \\x1b[31m')", r"line 1: ValueError: two\nlines \x1b[31m"),
    ],
)
def test_a_module_that_cannot_be_imported_says_where(tenure: Tenure, tmp_path: Path, code: str, why: str) -> None:
    (tmp_path / "broken_code.py").write_text(code)

    told = sentence(tenure, "work", f"{tmp_path}/broken_code.py:app")

    assert f"broken_code.py, {why}" in told


@pytest.mark.parametrize("target", [":app", "", "a b:app", "..x:app", "path/to/file:app"])
def test_what_can_be_no_module_is_refused(tenure: Tenure, target: str) -> None:
    assert "is not a module name: write module:app or path/to/file.py:app" in sentence(tenure, "work", target)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["jobs", "--url", "mysql://somewhere"], "names no store"),
        (["jobs", "--url", "mysql://me:secret@somewhere"], "•••"),
        (["jobs", "--url", "no url at all"], "names no store"),
        (["jobs"], "has never been used"),
        (["enqueue", "not a name"], "not a valid task name"),
        (["enqueue", "send", "-q", "über"], "not a valid queue name"),
        (["enqueue", "send", "--delay", "-1"], "delay must be at least 0"),
        (["enqueue", "send", "--kwargs", "[1]"], "--kwargs must be a JSON object"),
        (["enqueue", "send", "[" * 100 + "]" * 100], "nest"),
        (["work", "tenure.cli.demo.tasks:app", "-c", "0"], "concurrency must be an integer, at least 1, not 0"),
        (["work", "tenure.cli.demo.tasks:app", "--tasks", "quikc"], "did you mean 'quick'?"),
        (["quues"], "there is no command 'quues': did you mean 'queues'?"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(tenure: Tenure, arguments: list[str], why: str) -> None:
    assert why in sentence(tenure, *arguments)


@pytest.mark.parametrize("argument", ["text", "{", "NaN", "[" * 100_000])
def test_an_argument_that_is_no_json_is_refused(tenure: Tenure, argument: str) -> None:
    result = tenure("enqueue", "send", argument)

    assert result.exit_code == 2
    assert "is not JSON" in result.stderr


def test_a_newer_layout_is_refused_in_one_sentence(tenure: Tenure, tmp_path: Path) -> None:
    import apsw

    tenure("schema", "apply")
    apsw.Connection(str(tmp_path / "jobs.db")).execute("UPDATE tenure_meta SET value = 999 WHERE key = 'layout'")

    assert "upgrade tenure here" in sentence(tenure, "jobs")


def test_reading_from_a_store_that_is_not_there_makes_none(tenure: Tenure, tmp_path: Path) -> None:
    sentence(tenure, "queues")

    assert not (tmp_path / "jobs.db").exists()


def test_a_process_says_it_the_same_way(tmp_path: Path) -> None:
    refused = run_process("jobs", "--url", "mysql://somewhere")

    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("many", [[], ["-p", "2"]], ids=["alone", "supervised"])
def test_a_flow_whose_steps_do_not_fit_together_is_named_before_any_work(here: Path, many: list[str]) -> None:  # Q44
    (here / "orchard.py").write_text(
        "from tenure import App\n"
        "app = App('sqlite:///jobs.db')\n"
        "flow = app.flow('picking')\n"
        "flow.step(name='one', then='tow')(lambda: None)\n"
        "flow.step(name='two')(lambda: None)\n"
    )

    refused = run_process("work", "orchard:app", *many)

    assert refused.returncode == 2
    assert (
        "step 'one' of flow 'picking' has then='tow', and there is no such step; did you mean 'two'?" in refused.stderr
    )
    assert "Traceback" not in refused.stderr
