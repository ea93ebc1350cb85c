"""What `tenure work` says of the code that it runs: its tasks, modules that an app includes, and imports that fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .conftest import Tenure, document, run_process


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> Path:
    """A package whose tasks are in modules that its app includes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tmp_path / "shop_that_includes"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        f"from tenure import App\napp = App({url!r})\napp.include('shop_that_includes.mail', 'shop_that_includes.bills')\n"
    )
    (folder / "mail.py").write_text(
        "from shop_that_includes import app\n\n@app.task\nasync def send(to: str) -> str:\n    return to\n"
    )
    (folder / "bills.py").write_text(
        "from shop_that_includes import app\n\n@app.task(isolation='process')\ndef bill(cents: int) -> int:\n    return cents\n"
    )
    return folder


@pytest.mark.parametrize("many", [[], ["-p", "2"]], ids=["alone", "supervised"])
def test_modules_that_an_app_includes_are_imported_when_a_worker_starts(
    tenure: Tenure, package: Path, many: list[str]
) -> None:
    jobs = [tenure("enqueue", task, value).stdout.strip() for task, value in (("send", '"you"'), ("bill", "5"))]

    worked = run_process("work", "shop_that_includes:app", "--until-empty", *many, cwd=package.parent)

    assert worked.returncode == 0, worked.stderr
    assert [document(tenure("job", job, "--json"))["result"] for job in jobs] == ["you", 5]
    assert "queues *, tasks bill, send, 1 at a time" in worked.stderr


def test_commands_that_name_an_app_know_them_too(package: Path) -> None:
    enqueue = ["enqueue", "--app", "shop_that_includes:app"]
    assert run_process(*enqueue, "send", '"you"', cwd=package.parent).returncode == 0
    refused = run_process(*enqueue, "bill", '"five"', cwd=package.parent)
    assert refused.returncode == 2
    assert "cents" in refused.stderr


def test_one_that_is_not_there_brings_the_close_match(package: Path) -> None:
    (package / "__init__.py").write_text(
        "from tenure import App\napp = App()\napp.include('shop_that_includes.mial')\n"
    )
    refused = run_process("work", "shop_that_includes:app", cwd=package.parent)
    assert refused.returncode == 2
    assert "there is no module 'shop_that_includes.mial': did you mean 'shop_that_includes.mail'?" in refused.stderr


@pytest.mark.parametrize("many", [[], ["-p", "2"]], ids=["alone", "supervised"])
def test_a_worker_that_knows_no_task_says_so_once(tmp_path: Path, url: str, many: list[str]) -> None:
    (tmp_path / "program.py").write_text(f"from tenure import App\napp = App({url!r})\n")

    worked = run_process("work", f"{tmp_path}/program.py:app", "--until-empty", *many)

    assert worked.returncode == 0
    assert worked.stderr.count("no task is registered, so no job can run") == 1
    assert "app.include()" in worked.stderr
    assert "tasks none" in worked.stderr


def test_many_tasks_are_shortened(tmp_path: Path, url: str) -> None:
    (tmp_path / "program.py").write_text(
        f"from tenure import App\napp = App({url!r})\nfor n in range(30): app.task(name=f't{{n:02}}')(lambda: None)\n"
    )
    worked = run_process("work", f"{tmp_path}/program.py:app", "--until-empty", "-v", "-q", "mail,bills")
    [line] = [each for each in worked.stderr.splitlines() if "INFO" in each and "tasks" in each]
    assert line.endswith("queues mail, bills, tasks t00, t01, t02, t03, t04, t05, t06, t07, t08, t09 and 20 more")


LIBRARY = "import json\njson.loads('no')\n"


@pytest.mark.parametrize("many", [[], ["-p", "2"]], ids=["alone", "supervised"])
def test_an_import_that_fails_shows_the_user_s_own_line(tmp_path: Path, many: list[str]) -> None:
    (tmp_path / "program.py").write_text(LIBRARY)

    refused = run_process("work", f"{tmp_path}/program.py:app", *many)

    assert refused.returncode == 2
    assert f"{tmp_path}/program.py, line 2: JSONDecodeError: " in refused.stderr
    assert "(the line is: json.loads('no'))" in refused.stderr
    assert "; -v shows the traceback" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("many", [[], ["-p", "2"]], ids=["alone", "supervised"])
def test_with_v_it_shows_the_traceback_and_the_sentence(tmp_path: Path, many: list[str]) -> None:
    (tmp_path / "program.py").write_text(LIBRARY)

    refused = run_process("work", f"{tmp_path}/program.py:app", "-v", *many)

    assert refused.returncode == 2
    assert "Traceback (most recent call last):\n" in refused.stderr
    assert "/json/decoder.py" in refused.stderr
    assert "importlib" not in refused.stderr
    assert "tenure/cli" not in refused.stderr
    assert "program.py, line 2: JSONDecodeError: " in refused.stderr
