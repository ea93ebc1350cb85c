"""`KeyParser` makes names of keys from what a terminal sends; `Keyboard` reads a terminal key by key."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
from collections.abc import Callable
from typing import Any

__all__ = ["KeyParser", "Keyboard"]

SEQUENCES = {
    "[A": "up", "[B": "down", "[C": "right", "[D": "left", "OA": "up", "OB": "down", "OC": "right", "OD": "left",
    "[5~": "page up", "[6~": "page down", "[H": "home", "[F": "end", "[1~": "home", "[4~": "end", "OH": "home", "OF": "end",
}  # fmt: skip
"""Names of the keys that send an escape sequence; without its first character."""

SINGLE = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape"}

ESCAPE_AFTER = 0.05
"""Seconds after which an escape character alone is the escape key, and not the begin of a sequence."""


class KeyParser:
    """Splits the bytes of a terminal into keys. Sequences that it does not know are dropped whole."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        """The keys that are complete with these bytes: a character, or a name such as `up`, `enter` and `escape`."""
        text, keys = self._rest + self._decoder.decode(data), []
        while text:
            length = _length(text)
            if length is None:
                break
            sequence, text = text[:length], text[length:]
            key = SEQUENCES.get(sequence[1:]) if length > 1 else SINGLE.get(sequence, sequence)
            if key is not None and (len(key) > 1 or key.isprintable()):
                keys.append(key)
        self._rest = text
        return keys

    @property
    def waits(self) -> bool:
        """Whether a sequence has begun and is not complete."""
        return bool(self._rest)

    def flush(self) -> list[str]:
        """The keys of a sequence that stays incomplete: the escape key, if that is all of it."""
        rest, self._rest = self._rest, ""
        return ["escape"] if rest == "\x1b" else []


def _length(text: str) -> int | None:
    """The length of the first key in the text; None if its sequence is not complete."""
    if text[0] != "\x1b":
        return 1
    if len(text) == 1:
        return None
    if text[1] == "\x1b":
        return 1
    if text[1] == "O":
        return 3 if len(text) >= 3 else None
    if text[1] != "[":
        return 2  # with the Alt key
    # A control sequence ends with the first character from @ to ~.
    return next((end + 1 for end in range(2, len(text)) if "@" <= text[end] <= "~"), None)


class Keyboard:
    """Reads keys from a terminal without waiting for a line, and without showing them. Calls `pressed` with each."""

    def __init__(self, fd: int, pressed: Callable[[str], None], gone: Callable[[], None]) -> None:
        self._fd = fd
        self._pressed = pressed
        self._gone = gone
        self._parser = KeyParser()
        self._modes: list[Any] | None = None
        """Modes of the terminal as they were; None while it is not open."""

    def open(self) -> None:
        """Set the terminal so that each key can be read at once. Ctrl-C and Ctrl-Z remain signals."""
        import termios

        if not os.isatty(self._fd):
            return  # without a terminal for keys, only signals end it
        if self._modes is None:
            self._modes = termios.tcgetattr(self._fd)
        modes = termios.tcgetattr(self._fd)
        modes[3] &= ~(termios.ICANON | termios.ECHO)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._fd, termios.TCSADRAIN, modes)
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def close(self) -> None:
        """Leave the terminal as it was. Keys that were not read yet are dropped, so that the shell does not get them."""
        import termios

        if self._modes is None:
            return
        asyncio.get_running_loop().remove_reader(self._fd)
        modes, self._modes = self._modes, None
        with contextlib.suppress(termios.error, OSError):  # the terminal may be gone
            termios.tcsetattr(self._fd, termios.TCSAFLUSH, modes)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 1024)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            return self._gone()
        for key in self._parser.feed(data):
            self._pressed(key)
        if self._parser.waits:
            asyncio.get_running_loop().call_later(ESCAPE_AFTER, self._flush)
        return None

    def _flush(self) -> None:
        for key in self._parser.flush():
            self._pressed(key)
