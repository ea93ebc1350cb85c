"""The parts of a supervisor that can be had one at a time; whole ones, with real processes, are in tests/cli/test_work_processes.py."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

import tenure
from tenure.worker.stopping import ExitStatus
from tenure.worker.supervision.process import describe_exit
from tenure.worker.supervision.process_slot import HEALTHY, RESTART, restart_delay
from tenure.worker.supervision.sources import SourceWatcher, imported_files, stamp
from tenure.worker.supervision.tether import JsonLines, Tether


@pytest.mark.parametrize(
    ("exit_code", "age", "deaths", "registered", "pause", "deaths_after"),
    [
        (ExitStatus.RECYCLED, 0.1, 5, True, 0.0, 0),
        (ExitStatus.RECYCLED, 0.1, 5, False, 0.0, 0),
        (-signal.SIGKILL, HEALTHY, 5, True, 0.0, 0),
        (-signal.SIGKILL, 1.0, 0, True, 0.0, 1),
        (-signal.SIGKILL, 1.0, 1, True, 0.5, 2),
        (-signal.SIGKILL, 1.0, 2, True, 1.0, 3),
        (1, 1.0, 0, False, 0.5, 1),
        (1, 1.0, 1, False, 1.0, 2),
        (1, 1.0, 100, False, 30.0, 101),
        (0, 1.0, 0, True, 0.0, 1),
        (0, 1.0, 1, True, 0.5, 2),
    ],
)
def test_a_process_that_keeps_dying_is_replaced_later_and_later(
    exit_code: int, age: float, deaths: int, registered: bool, pause: float, deaths_after: int
) -> None:
    found, counted = restart_delay(exit_code, age, deaths, registered=registered)

    assert counted == deaths_after
    assert found == pytest.approx(pause, rel=RESTART.jitter)


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [(0, "exit code 0"), (13, "exit code 13"), (-9, "killed by SIGKILL"), (-40, "killed by signal 40")],
)
def test_what_ended_a_process_is_told_in_words(exit_code: int, words: str) -> None:
    assert describe_exit(exit_code) == words


def test_facts_come_whole_however_they_are_cut() -> None:
    sent = JsonLines.line(id="a", url="sqlite:///x\ny") + JsonLines.line(registered=True)
    lines = JsonLines()

    heard = [fact for byte in sent for fact in lines.feed(bytes([byte]))]

    assert heard == [{"id": "a", "url": "sqlite:///x\ny"}, {"registered": True}]


def test_a_supervisor_that_does_not_listen_holds_nobody_up_and_hears_no_half_lines() -> None:
    ours, theirs = socket.socketpair()
    tether = Tether(theirs.detach())
    with ours:
        tether.send(id="a")
        tether.send(files=["x" * 1_000_000])  # more than fits
        for _ in range(1000):
            tether.send(id="b")
        ours.setblocking(False)
        heard = ours.recv(10_000_000)

    assert JsonLines().feed(heard) == [{"id": "a"}]


class TestSources:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        file = tmp_path / "a.py"
        file.write_text("1")
        return file

    def test_a_file_that_was_written_is_told_once_when_it_is_left_alone(self, file: Path) -> None:
        sources = SourceWatcher()
        sources.add({name: stamp(name) for name in (str(file), __file__)})
        looks = [sources.changed()]
        file.write_text("22")
        looks.append(sources.changed())
        file.write_text("333")
        looks += [sources.changed(), sources.changed(), sources.changed()]

        assert looks == [None, None, None, str(file), None]

    def test_the_same_length_and_another_time_is_a_change(self, file: Path) -> None:
        sources = SourceWatcher()
        sources.add({str(file): stamp(str(file))})
        os.utime(file, ns=(1, 1))

        assert [sources.changed(), sources.changed()] == [None, str(file)]

    def test_a_file_that_an_editor_replaces_may_be_gone_for_a_while(self, file: Path) -> None:
        sources = SourceWatcher()
        sources.add({str(file): stamp(str(file))})
        file.unlink()
        gone = sources.changed()
        file.write_text("another")

        assert [gone, sources.changed(), sources.changed()] == [None, None, str(file)]

    def test_what_is_known_is_not_looked_at_anew(self, file: Path) -> None:
        sources = SourceWatcher()
        sources.add({str(file): stamp(str(file))})
        file.write_text("22")
        sources.add({str(file): stamp(str(file))})

        assert [sources.changed(), sources.changed()] == [None, str(file)]

    def test_the_files_of_a_process_are_its_own_and_not_those_of_python(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "lonely.py").write_text("")
        monkeypatch.syspath_prepend(tmp_path)
        import lonely  # type: ignore[import-not-found]

        files = imported_files()

        assert os.path.realpath(lonely.__file__) in files
        assert __file__ in files
        assert not {os.path.realpath(module.__file__ or "") for module in (os, pytest, socket, tenure)} & set(files)
        del sys.modules["lonely"]
