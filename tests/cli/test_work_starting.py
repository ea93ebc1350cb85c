"""How `tenure work` begins: in the background, with a pidfile, and not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.processes import eventually

from .conftest import Tenure, document, run_process
from .service import alive, children

SIGNALLED = """
import os, signal, sys

class Signalled:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["AT_IMPORT_OF"]:
            for signum in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT):
                os.kill(os.getpid(), signum)

sys.meta_path.insert(0, Signalled())
"""


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("moment", ["click", "tenure.app", "tenure.worker.worker"])
def test_signals_that_come_while_it_starts_do_not_end_it(
    tenure: Tenure, program: str, tmp_path: Path, processes: str, moment: str
) -> None:
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "sitecustomize.py").write_text(SIGNALLED)
    tenure("enqueue", "send", "1", "--app", program)

    ended = run_process(
        "work", program, "-p", processes, "--until-empty", PYTHONPATH=f"{tmp_path}/early", AT_IMPORT_OF=moment
    )

    assert ended.returncode == 0, ended.stderr
    assert processes == "2" or "takes jobs again: SIGCONT" in ended.stderr
    assert [job["state"] for job in document(tenure("jobs", "--app", program, "--json"))["jobs"]] == ["succeeded"]


class TestGivingUp:
    """Processes that cannot start: one sentence, and an exit code that is not 0."""

    @pytest.mark.parametrize(
        ("code", "exit_code", "why"),
        [
            ("import os; os._exit(3)", 1, "exit code 3"),
            ("raise ValueError('no')", 2, "program.py, line 1: ValueError: no"),
            ("from tenure import App; app = App('memory://')", 2, "memory:// works in one process only"),
        ],
    )
    def test_all_die_at_their_start(self, tmp_path: Path, code: str, exit_code: int, why: str) -> None:
        (tmp_path / "program.py").write_text(code)

        ended = run_process("work", f"{tmp_path}/program.py:app", "-p", "2", "--log-level", "error")

        assert ended.returncode == exit_code
        assert ended.stderr.count("\n") == 1, ended.stderr
        assert ended.stderr.startswith("tenure: gave up: all 2 worker processes ended before they were at work: ")
        assert why in ended.stderr

    def test_what_no_process_could_do_is_refused_before_there_is_any(self, program: str) -> None:
        ended = run_process("work", program, "-p", "2", "-c", "0")

        assert (ended.returncode, ended.stderr) == (2, "tenure: concurrency must be an integer, at least 1, not 0\n")

    def test_one_that_fails_to_start_is_tried_again_and_one_that_finds_nothing_left_is_not(
        self, tenure: Tenure, program: str, tmp_path: Path
    ) -> None:
        tenure("enqueue", "send", "1", "--app", program)
        path = Path(program.removesuffix(":app"))
        unlucky = (
            f"import os\ntry: os.mkdir({str(tmp_path / 'first')!r})\nexcept FileExistsError: pass\nelse: os._exit(3)\n"
        )
        path.write_text(unlucky + path.read_text())

        ended = run_process("work", program, "-p", "2", "--until-empty")

        assert ended.returncode == 0, ended.stderr
        assert "(exit code 3), another starts in 0." in ended.stderr
        assert ended.stderr.count("another starts") == 1


class Background:
    """`tenure work --background`, its words in a file."""

    def __init__(self, folder: Path, program: str) -> None:
        self.pidfile = folder / "tenure.pid"
        self.log = folder / "log"
        self._target = program

    def start(self, *options: str, target: str | None = None) -> int:
        """Start it; the exit code, once it goes on in the background or has failed to."""
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "tenure", "work", target or self._target, "--background"]
            return subprocess.run(
                [*command, "--pidfile", str(self.pidfile), *options], stdout=log, stderr=log, timeout=50, check=False
            ).returncode

    @property
    def pid(self) -> int:
        return int(self.pidfile.read_text())

    def end(self) -> None:
        """Leave nothing behind."""
        if self.pidfile.exists() and alive(self.pid):
            os.kill(self.pid, signal.SIGKILL)


@pytest.fixture
def background(tmp_path: Path, program: str) -> Iterator[Background]:
    background = Background(tmp_path, program)
    yield background
    background.end()


def test_it_goes_on_in_the_background_until_told(tenure: Tenure, background: Background, program: str) -> None:  # R15
    job = tenure("enqueue", "send", "1", "--app", program).stdout.strip()

    assert background.start("-p", "2") == 0

    pid = background.pid
    assert f"process {pid} continues in the background" in background.log.read_text()
    assert os.getsid(pid) != os.getsid(0)
    assert len(children(pid)) == 2
    assert os.readlink(f"/proc/{pid}/fd/0") == os.devnull
    assert os.readlink(f"/proc/{pid}/fd/2") == str(background.log)
    eventually(lambda: document(tenure("job", job, "--json"))["state"] == "succeeded", "the end of the job")
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not background.pidfile.exists(), "the end")
    eventually(lambda: not alive(pid), "the end")


def test_what_cannot_start_does_not_go_on_in_the_background(background: Background) -> None:
    assert background.start(target="nowhere.py:app") == 2

    assert "there is no file nowhere.py" in background.log.read_text()
    assert not background.pidfile.exists()


def test_a_pidfile_stands_for_one_process_while_it_lives(background: Background) -> None:  # R15
    assert background.start() == 0
    first, workers = background.pid, children(background.pid)
    refused = background.start()

    assert (refused, background.pid) == (2, first)
    assert (
        f"process {first} is already running, according to the pidfile {background.pidfile}"
        in background.log.read_text()
    )

    os.kill(first, signal.SIGKILL)
    eventually(lambda: not any(map(alive, {first, *workers})), "the end of the first one")
    assert background.pid == first, "left behind"
    assert background.start() == 0
    assert background.pid != first
    os.kill(background.pid, signal.SIGTERM)
    eventually(lambda: not background.pidfile.exists(), "the end")


def test_a_worker_alone_has_a_pidfile_too(tenure: Tenure, program: str, tmp_path: Path) -> None:
    path = Path(program.removesuffix(":app"))
    path.write_text(path.read_text() + "\n@app.task\ndef read(path: str) -> str: return open(path).read()\n")
    (tmp_path / "tenure.pid").write_text("1\n")  # of a process that lives, and is another one
    job = tenure("enqueue", "read", f'"{tmp_path}/tenure.pid"', "--app", program).stdout.strip()

    ended = run_process("work", program, "--until-empty", "--pidfile", f"{tmp_path}/tenure.pid")

    assert ended.returncode == 0, ended.stderr
    assert int(document(tenure("job", job, "--json"))["result"]) > 1
    assert not (tmp_path / "tenure.pid").exists()


@pytest.mark.parametrize("link", ["symbolic", "dangling", "hard"])
def test_a_pidfile_that_is_a_link_is_refused(program: str, tmp_path: Path, link: str) -> None:
    target, path = tmp_path / "precious", tmp_path / "tenure.pid"
    if link != "dangling":
        target.write_text("kept")
    (path.hardlink_to if link == "hard" else path.symlink_to)(target)

    ended = run_process("work", program, "--until-empty", "--pidfile", str(path))

    assert ended.returncode == 2
    assert f"the pidfile {path} is " in ended.stderr
    assert "remove it" in ended.stderr
    assert target.exists() is (link != "dangling")
    assert link == "dangling" or target.read_text() == "kept"


def test_a_pidfile_that_cannot_be_written_is_refused(program: str, tmp_path: Path) -> None:
    ended = run_process("work", program, "--until-empty", "--pidfile", f"{tmp_path}/nowhere/tenure.pid")

    assert ended.returncode == 2
    assert "cannot be written: No such file or directory" in ended.stderr
