"""Real processes for tests: started, listened to, told, killed, and never left behind.

A process runs one function of a module of this package; `say` and `told` are its side of the conversation.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["PATIENCE", "Process", "Processes", "eventually", "say", "told"]

ROOT = Path(__file__).parents[2]

PATIENCE = 30.0
"""Seconds until something that should take a moment is taken never to happen."""


class Process:
    """One process under our control."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def hear(self, word: str, timeout: float = PATIENCE) -> list[Any]:
        """Wait until the process says something that begins with this word, passing over what else it says; the rest of it."""
        deadline = time.monotonic() + timeout
        while (said := self.hear_any(deadline - time.monotonic(), f"{word!r} in {timeout:g} s"))[0] != word:
            pass
        return said[1:]

    def hear_any(self, timeout: float = PATIENCE, what: str = "any more") -> list[Any]:
        """Wait until the process says something."""
        try:
            line = self._lines.get(timeout=max(timeout, 0))
        except queue.Empty:
            raise AssertionError(f"did not say {what}; {self.last_words()}") from None
        if line is None:
            raise AssertionError(f"ended before it said {what}; {self.last_words()}")
        said: list[Any] = json.loads(line)
        return said

    def silent(self) -> bool:
        """Whether everything it has said so far was heard."""
        return self._lines.empty()

    def tell(self, *words: object) -> None:
        """Say something to the process, which waits for it with `told`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def send(self, signum: signal.Signals) -> None:
        self._process.send_signal(signum)

    def stop(self) -> None:
        """Stop it as SIGSTOP does, and come back when every thread of it has stopped."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a power cut would end it, and come back when it is gone."""
        self._process.kill()
        self.wait()

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for its end; its exit code, negative if a signal ended it."""
        return self._process.wait(timeout)

    def end(self) -> None:
        """Kill it and whatever it has forked, and let go of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        self._reader.join()  # nobody is left to write
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def last_words(self) -> str:
        """The end of its log."""
        return f"its log ends with: {self.log.read_text(errors='replace')[-2000:]}"


class Processes:
    """All processes of one test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Process] = []

    def start(self, function: Callable[..., Any], *arguments: object, **environment: str) -> Process:
        """Run a function of a module in a process of its own; a coroutine function on a loop."""
        target = f"{function.__module__}:{function.__qualname__}"
        return self.run(sys.executable, "-m", __name__, target, json.dumps(arguments, default=str), **environment)

    def work(self, target: str, *options: str, **environment: str) -> Process:
        """Run `tenure work`."""
        return self.run(sys.executable, "-m", "tenure", "work", target, *options, **environment)

    def run(self, *command: str, **environment: str) -> Process:
        process = Process([*command], self._folder / f"process-{len(self._started)}.log", environment)
        self._started.append(process)
        return process

    def last_words(self) -> str:
        """The ends of all logs."""
        return "\n".join(process.last_words() for process in self._started)

    def end(self) -> None:
        """Kill whatever still runs."""
        for process in self._started:
            process.end()


def eventually(
    holds: Callable[[], object],
    what: str | Callable[[], str] = "it",
    timeout: float = PATIENCE,
    step: float = 0.01,
) -> None:
    """Wait until something holds; it must within the timeout, else the error says what did not."""
    deadline = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > deadline:
            missing = what if isinstance(what, str) else what()
            raise AssertionError(f"{missing} did not come true within {timeout:g} s")
        time.sleep(step)


def say(*words: object) -> None:
    """In the process: say something to the test that started it."""
    # In one write, past the buffers: several threads speak, and a fork must not repeat what was said.
    os.write(1, json.dumps(words).encode() + b"\n")


def told() -> list[Any]:
    """In the process: wait for something that the test says; end if it says no more."""
    line = sys.stdin.readline()
    if not line:
        raise SystemExit(0)
    words: list[Any] = json.loads(line)
    return words


def _main(target: str, arguments: str) -> None:
    module, _, name = target.partition(":")
    function = getattr(import_module(module), name)
    result = function(*json.loads(arguments))
    if inspect.iscoroutine(result):
        asyncio.run(result)


if __name__ == "__main__":
    _main(*sys.argv[1:])
