"""`Frame`: lines of styled text that fill a screen exactly; `fit` makes any text as wide as its cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style

from tenure.core.escape import escaped

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["Frame", "Line", "beside", "bound", "clip", "fit", "sparkline", "spread", "width_of", "wrapped"]

Line = list[tuple[str, str]]
"""Texts and their styles, from left to right."""


class Frame:
    """What is shown at one moment. No line is wider than `width`, and no text in it can control a terminal."""

    def __init__(self, lines: Iterable[Line], width: int) -> None:
        self.lines = [bound(line, width) for line in lines]
        self.width = width

    @property
    def plain(self) -> str:
        """The frame without styles."""
        return "\n".join("".join(text for text, _ in line).rstrip() for line in self.lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.lines:
            for text, style in line:
                yield Segment(text, Style.parse(style) if style else None)
            yield Segment.line()


def fit(value: object, width: int, side: Literal["left", "right"] = "left") -> str:
    """The text, escaped, and cut or padded to this number of columns."""
    text = escaped(str(value))
    wide = len(text) if text.isascii() else cell_len(text)
    if wide > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    padding = " " * (width - wide)
    return text + padding if side == "left" else padding + text


def clip(value: object, width: int) -> str:
    """The text, escaped, and cut to this number of columns if it is wider."""
    text = escaped(str(value))
    return text if (len(text) if text.isascii() else cell_len(text)) <= width else fit(text, width)


def width_of(line: Line) -> int:
    """Columns of a line."""
    return sum(cell_len(text) for text, _ in line)


def bound(line: Line, width: int) -> Line:
    """The line, cut after this number of columns."""
    if width_of(line) <= width:
        return line
    cut: Line = []
    for text, style in line:
        wide = cell_len(text)
        if wide > width:
            return [*cut, (fit(text, width), style)] if width > 0 else cut
        cut.append((text, style))
        width -= wide
    return cut


def beside(left: Line, right: Line, width: int, gap: int = 2) -> Line:
    """The left line cut or padded to `width` columns, a gap, and the right line."""
    left = bound(left, width)
    return [*left, (" " * (width - width_of(left) + gap), ""), *right]


def spread(left: Line, right: Line, width: int) -> Line:
    """Both lines at the two ends of `width` columns; the right one is left out if there is no room."""
    room = width - width_of(left) - width_of(right)
    return [*left, (" " * room, ""), *right] if room >= 1 else left


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """The text, escaped, in lines of at most `width` columns, broken between words where that is possible."""
    room = max(width - len(indent), 2)  # a wide character takes two
    lines: list[str] = []
    rest = ""
    for word in escaped(text).split():
        joined = f"{rest} {word}" if rest else word
        if cell_len(joined) <= room:
            rest = joined
            continue
        lines += [rest] if rest else []
        *full, rest = chop_cells(word, room)
        lines += full
    return [indent + line for line in [*lines, rest]]


def sparkline(values: Sequence[float]) -> str:
    """The values as bars, the highest of them full; empty if all are zero."""
    most = max(values, default=0.0)
    return "".join(" ▁▂▃▄▅▆▇█"[-int(-value / most * 8 // 1) if value else 0] for value in values) if most else ""
