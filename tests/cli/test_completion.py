"""`tenure completion`, and what a shell completes."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from tenure import App
from tenure.cli import main, names

from .conftest import Tenure, run_process


@pytest.fixture
def app(url: str, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setenv("TENURE_URL", url)
    monkeypatch.setattr(names, "PATIENCE", 20.0)  # the machine may be busy
    app = App(url, log=False)

    @app.task(queue="mail")
    def send() -> None: ...

    @app.task(queue="maintenance")
    def sweep() -> None: ...

    app.enqueue(send.bind(), sweep.bind())
    app.worker().run(until_empty=True)
    app.close()
    return app


def completed(*words: str) -> list[str]:
    """What is offered for the last of these words."""
    found = BashComplete(main, {}, "tenure", "_TENURE_COMPLETE").get_completions([*words[:-1]], words[-1])
    return [item.value for item in found]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["jobs", "-q", "mai"], ["mail", "maintenance"]),
        (["jobs", "--queue", "mail"], ["mail"]),
        (["history", "-q", "x"], []),
        (["purge", ""], ["mail", "maintenance"]),
        (["pause", "maint"], ["maintenance"]),
        (["health", "-q", ""], ["mail", "maintenance"]),
        (["cancel", "--task", "s"], ["send", "sweep"]),
        (["watch", "-t", "sw"], ["sweep"]),
        (["enqueue", "se"], ["send"]),
        (["jobs", "--state", "b"], ["blocked", "broken"]),
        (["history", "--span", "1"], ["10m", "1h"]),
        (["hist"], ["history"]),
    ],
)
def test_names_are_completed_from_the_store(app: App, words: list[str], offered: list[str]) -> None:
    assert completed(*words) == offered


def test_the_store_may_be_named_on_the_line(
    app: App, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TENURE_URL", f"sqlite:///{tmp_path}/other.db")
    assert completed("jobs", "-q", "m") == []
    assert completed("jobs", "--url", url, "-q", "m") == ["mail", "maintenance"]


def test_a_store_that_does_not_answer_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        begun = time.monotonic()
        assert completed("jobs", "--url", f"redis://127.0.0.1:{deaf.getsockname()[1]}", "-q", "m") == []
        assert time.monotonic() - begun < 5
    assert capsys.readouterr() == ("", "")


def test_a_store_that_was_never_used_stays_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(names, "PATIENCE", 20.0)
    assert completed("jobs", "--url", f"sqlite:///{tmp_path}/new.db", "-q", "") == []
    assert completed("jobs", "--app", "nothing:app", "-q", "") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(tenure: Tenure, shell: str) -> None:
    script = tenure("completion", shell).stdout
    assert f"_TENURE_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n", "-c", script], check=True, timeout=20)


def test_other_shells_have_none(tenure: Tenure) -> None:
    refused = tenure("completion", "tcsh")
    assert refused.exit_code == 2
    assert "'tcsh' is not one of" in refused.output


def test_bash_completes_with_the_script(app: App, url: str, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None, "this test needs bash"
    program = tmp_path / "tenure"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c '
                       '"from tenure.cli import main; main(prog_name=\'tenure\')" "$@"\n')  # fmt: skip
    program.chmod(0o755)
    script = run_process("completion", "bash").stdout
    probe = f'{script}\nCOMP_WORDS=(tenure hist) COMP_CWORD=1\n_tenure_completion {program}\necho "${{COMPREPLY[@]}}"'
    ran = subprocess.run([bash, "-c", probe], capture_output=True, text=True, timeout=50, check=False)
    assert ran.stdout.split() == ["history"], ran.stderr
