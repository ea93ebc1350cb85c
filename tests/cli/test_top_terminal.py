"""`tenure top` on a pseudo-terminal: keys, sizes, signals, and a terminal that is left as it was."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure import App

WITHIN = 30.0
SECONDS = 0.05

ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"
HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"
CODES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")
COLOURS = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|4[0-7]|38;|48;|9[0-7])[0-9;]*m")

FLAKY = """
import os

from tenure import App
from tenure.errors import StoreUnavailable
from tenure.stores.sqlite.store import SqliteStore

class Flaky(SqliteStore):
    async def queues(self, *args, **kwargs):
        if os.path.exists({down!r}):
            raise StoreUnavailable("connection refused")
        return await super().queues(*args, **kwargs)

app = App(lambda: Flaky({path!r}))
"""


class Pseudo:
    """A program on a pseudo-terminal, and what it has written there."""

    def __init__(self, *command: str, columns: int = 80, lines: int = 24, **environment: str) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(columns, lines)
        self.modes = termios.tcgetattr(self.slave)
        inherited = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            command,
            stdin=self.slave, stdout=self.slave, stderr=self.slave,
            env={**inherited, "TERM": "xterm-256color", **environment},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        self.written = b""

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def read(self, seconds: float = SECONDS) -> None:
        while select.select([self.master], [], [], seconds)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            if not data:
                return
            self.written += data

    @property
    def screen(self) -> str:
        """The last whole frame, without codes."""
        frames = re.split(rb"\x1b\[H", self.written)
        return CODES.sub(b"", frames[-1]).decode(errors="replace")

    def until(self, seen: str | Callable[[], bool], *, anywhere: bool = False) -> None:
        """Wait until the screen shows this."""
        end = time.monotonic() + WITHIN
        shown = seen if callable(seen) else lambda: seen in (self.text if anywhere else self.screen)
        while not shown():
            assert time.monotonic() < end, f"{seen}\n{self.text[-4000:]}"
            ended = self.process.poll() is not None
            self.read()
            assert not ended or shown(), self.text[-4000:]

    @property
    def text(self) -> str:
        return CODES.sub(b"", self.written).decode(errors="replace")

    def ended(self) -> int:
        """Its exit code, once it has ended and left the terminal as it was."""
        code = self.process.wait(WITHIN)
        self.read()
        return code

    @property
    def restored(self) -> bool:
        """Whether the screen, the cursor and the modes are as they were."""
        return (
            self.written.rfind(LEFT) > self.written.rfind(ENTERED) >= 0
            and self.written.rfind(SHOWN) > self.written.rfind(HIDDEN)
            and termios.tcgetattr(self.slave) == self.modes
        )

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for fd in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(fd)


@pytest.fixture
def filled(url: str) -> Iterator[App]:
    """A store with two queues."""
    with App(url) as app:
        for queue in ("mail", "post"):
            app.remote("send", queue=queue).enqueue(1)
        yield app


@pytest.fixture
def start(url: str) -> Iterator[Callable[..., Pseudo]]:
    started: list[Pseudo] = []

    def begin(*options: str, **given: Any) -> Pseudo:
        options = options or ("--url", url)
        started.append(Pseudo(sys.executable, "-m", "tenure", "top", *options, **given))
        return started[-1]

    yield begin
    for each in started:
        each.close()


def test_every_key_does_its_work(filled: App, start: Callable[..., Pseudo]) -> None:
    top = start()
    top.until("! mail: 1 job in line")

    top.press("p")
    top.until("Pause mail, with 1 job in line?  y / n")
    top.press("n")
    top.until("nothing was done")
    top.press("py")
    top.until("paused mail")
    assert [queue.paused for queue in filled.queues()] == [True, False]
    top.press("u")
    top.until("Resume mail")
    top.press("y")
    top.until("resumed mail")
    top.press("\x1b[B")
    top.until("▸post")
    top.press("\x1b[A")
    top.until("▸mail")
    top.press("e")
    top.until("no live worker serves queue mail")
    top.press("\x1b")
    top.until("[p]ause")
    top.press("\r")
    top.until(lambda: "jobs in line and scheduled of mail" in top.screen and "▸0" in top.screen)
    top.press("f")
    top.until(lambda: "failed jobs of mail" in top.screen and "there are none" in top.screen)
    top.press("\x1b")
    top.until("▸mail")
    top.press("w")
    top.until("no worker is registered")
    top.press("w?")
    top.until("WAIT P95  95 %")
    top.press("?/po\r")
    top.until(lambda: "· /po" in top.screen and "▸post" in top.screen and " mail " not in top.screen.split("QUEUE")[1])
    top.press("\x1b")
    top.until("▸mail")
    top.press("o")
    top.until("in line first")
    top.press(" ")
    top.until("HELD")
    top.press(" r")
    top.until("has no failed jobs")
    top.press("q")

    assert top.ended() == 0
    assert top.restored


def test_read_only_changes_nothing(filled: App, start: Callable[..., Pseudo], url: str) -> None:
    top = start("--read-only", "--url", url)
    top.until("· read-only")
    top.until("▸mail")

    top.press("p")
    top.until("nothing can be changed here")
    top.press("y")
    top.press("q")

    assert top.ended() == 0
    assert not any(queue.paused for queue in filled.queues())


def test_a_resize_draws_the_screen_anew(filled: App, start: Callable[..., Pseudo]) -> None:
    top = start()
    top.until("▸mail")
    assert "RUNNING" not in top.screen

    top.resize(140, 40)
    top.until("RUNNING")
    assert top.screen.count("\n") == 39
    top.resize(50, 12)
    top.until("1 in line, oldest")
    top.press("q")

    assert top.ended() == 0


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda top: top.press("\x03"), 0),
        (lambda top: top.process.send_signal(signal.SIGTERM), 143),
        (lambda top: top.process.send_signal(signal.SIGHUP), 129),
    ],
    ids=["Ctrl-C", "TERM", "HUP"],
)
def test_a_signal_leaves_the_terminal_as_it_was(
    filled: App, start: Callable[..., Pseudo], end: Callable[[Pseudo], None], code: int
) -> None:
    top = start()
    top.until("▸mail")
    assert termios.tcgetattr(top.slave) != top.modes

    end(top)

    assert top.ended() == code
    assert top.restored
    assert "Traceback" not in top.text


def test_a_terminal_that_is_closed_ends_it(filled: App, start: Callable[..., Pseudo]) -> None:
    top = start()
    top.until("▸mail")

    os.close(top.master)
    os.close(top.slave)

    assert top.process.wait(WITHIN) != 0


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(filled: App, url: str) -> None:
    shell = Pseudo("/bin/bash", "--norc", "--noprofile", "-i", PS1="ready> ")
    try:
        shell.until("ready>", anywhere=True)
        shell.press(f"{sys.executable} -m tenure top --url {url}\n")
        shell.until("▸mail")
        shell.press("\x1a")
        shell.until("Stopped", anywhere=True)
        assert shell.written.rfind(LEFT) > shell.written.rfind(ENTERED)
        shell.press("stty -a\n")
        shell.until(lambda: " icanon" in shell.text and " echo " in shell.text)
        seen = len(shell.written)
        shell.press("fg\n")
        shell.until(lambda: ENTERED in shell.written[seen:] and "▸mail" in shell.screen)
        shell.press("w")
        shell.until("no worker is registered")  # keys are read again
        shell.press("q")
        shell.until(lambda: shell.written.rfind(LEFT) > shell.written.rfind(ENTERED))
        shell.press("echo $?-was-the-code\n")
        shell.until("0-was-the-code", anywhere=True)
    finally:
        shell.press("exit\n")
        shell.close()


def test_it_goes_on_after_a_stop_that_it_could_not_see(filled: App, start: Callable[..., Pseudo]) -> None:
    top = start()
    top.until("▸mail")

    top.process.send_signal(signal.SIGSTOP)
    time.sleep(0.2)
    termios.tcsetattr(top.slave, termios.TCSANOW, top.modes)  # as a shell does
    top.process.send_signal(signal.SIGCONT)
    top.until(lambda: termios.tcgetattr(top.slave) != top.modes)
    top.press("w")
    top.until("no worker is registered")
    top.press("q")

    assert top.ended() == 0
    assert top.restored


def test_a_store_that_goes_is_said_and_it_goes_on_when_it_is_back(
    filled: App, start: Callable[..., Pseudo], url: str, tmp_path: Path
) -> None:
    down = tmp_path / "down"
    program = tmp_path / "flaky.py"
    program.write_text(FLAKY.format(down=str(down), path=url.removeprefix("sqlite:///")))
    top = start("--app", f"{program}:app")
    top.until("▸mail")

    down.touch()
    top.until("no answer from the store for")
    assert "s, trying again: connection refused" in top.screen
    assert "▸mail" in top.screen  # what was read last stays
    down.unlink()
    top.until(lambda: "no answer" not in top.screen and "▸mail" in top.screen)
    top.press("q")

    assert top.ended() == 0
    assert top.restored


def test_a_dumb_terminal_gets_one_plain_frame(filled: App, start: Callable[..., Pseudo]) -> None:
    top = start(TERM="dumb")

    assert top.ended() == 0
    assert " mail " in top.text
    assert b"\x1b" not in top.written


def test_no_color_means_no_colours(filled: App, start: Callable[..., Pseudo]) -> None:
    plain, coloured = start(NO_COLOR="1"), start()
    for top in (plain, coloured):
        top.until("! mail")
        top.press("q")
        assert top.ended() == 0

    assert not COLOURS.search(plain.written)
    assert COLOURS.search(coloured.written)


def test_programs_get_an_object_a_second(filled: App, url: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tenure", "top", "--json", "--url", url], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)

    assert process.wait(WITHIN) == 0
    assert all(line.startswith('{"at": "') and '"name": "mail"' in line for line in lines)
