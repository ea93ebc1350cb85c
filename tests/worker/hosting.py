"""Worker processes that begin in a moment: forked from one that has imported everything and does nothing else."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import PATIENCE, Process, Processes, say, told

__all__ = ["CallerConnection", "Host", "host"]


class Host:
    """Starts processes, one after another; tests of one file share it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        process.hear("ready")

    def start(self, function: Callable[..., Any], *arguments: object) -> CallerConnection:
        """Run a function in a process of its own, which is the only one until it has ended."""
        return CallerConnection(self.process, f"{function.__module__}:{function.__qualname__}", arguments)


class CallerConnection:
    """One process of a host; what `Process` has, and `heard`."""

    def __init__(self, host: Process, target: str, arguments: tuple[object, ...]) -> None:
        self._host = host
        self._log_before = len(host.log.read_text(errors="replace"))
        self._exit_code: int | None = None
        host.tell(target, arguments)
        [self.pid] = host.hear("begun")

    def hear(self, word: str, timeout: float = PATIENCE) -> list[Any]:
        deadline = time.monotonic() + timeout
        while (said := self.hear_any(deadline - time.monotonic(), f"{word!r} in {timeout:g} s"))[0] != word:
            pass
        return said[1:]

    def hear_any(self, timeout: float = PATIENCE, what: str = "any more") -> list[Any]:
        said = self._host.hear_any(timeout, what)
        if said[0] == "exited":
            self._exit_code = said[1]
            raise AssertionError(f"ended before it said {what}; {self.last_words()}")
        return said

    def rest(self) -> dict[str, list[list[Any]]]:
        """Wait for its end; all that it has said until then and nobody has heard, by the first word."""
        said: dict[str, list[list[Any]]] = {}
        while self._exit_code is None:
            word, *more = self._host.hear_any()
            if word == "exited":
                [self._exit_code] = more
            else:
                said.setdefault(word, []).append(more)
        return said

    def silent(self) -> bool:
        return self._host.silent()

    def tell(self, *words: object) -> None:
        self._host.tell(*words)

    def send(self, signum: signal.Signals) -> None:
        os.kill(self.pid, signum)

    def wait(self) -> int:
        """Wait for its end; its exit code, negative if a signal ended it."""
        self.rest()
        assert self._exit_code is not None
        return self._exit_code

    @property
    def log(self) -> str:
        return self._host.log.read_text(errors="replace")[self._log_before :]

    def last_words(self) -> str:
        return f"its log ends with: {self.log[-2000:]}"

    def end(self) -> None:
        """Kill it, if it is still there."""
        if self._exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.wait()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    processes = Processes(Path(tmp_path_factory.mktemp("host")))
    try:
        yield Host(processes.start(serve))
    finally:
        processes.end()


def serve() -> None:
    """In the host: fork a process for each function that is asked for, and say how it ended."""
    from tests.worker import signalled

    assert signalled
    say("ready")
    while True:
        target, arguments = told()
        pid = os.fork()
        if not pid:
            _run(target, arguments)
        say("begun", pid)
        say("exited", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _run(target: str, arguments: list[Any]) -> None:
    """In the process: as a program runs that has nothing but this function."""
    status = 0
    try:
        module, _, name = target.partition(":")
        getattr(import_module(module), name)(*arguments)
    except SystemExit as ended:
        status = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)
