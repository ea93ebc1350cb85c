"""Encodes writes and searches of measures as arguments of the scripts, and decodes rows of the history and marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tenure.core.measures import (
    ERRORS,
    EVER,
    OTHERS,
    RESOLUTIONS,
    ROWS,
    HistoryRow,
    HistorySearch,
    HistoryWrite,
    Mark,
)
from tenure.stores.redis.encoding import ScriptArg

__all__ = ["marks", "rows", "search_args", "writes_args"]

WRITES = 25
"""Writes that one script adds, at most, so that no other call waits for it for long."""

_pack = msgspec.msgpack.Encoder().encode
_row = msgspec.msgpack.Decoder(tuple[dict[str, float], dict[str, float]]).decode
_mark = msgspec.msgpack.Decoder(tuple[float, str]).decode


def _kept_text(resolution: int) -> str:
    """Seconds for which slots of a resolution are kept; empty if they are always kept."""
    return repr(RESOLUTIONS[resolution]) if resolution in RESOLUTIONS else ""


_SLOTS: tuple[ScriptArg, ...] = tuple(
    arg for resolution in (*RESOLUTIONS, EVER) for arg in (resolution, _kept_text(resolution))
)


def writes_args(writes: Sequence[HistoryWrite]) -> Iterator[list[ScriptArg]]:
    """The arguments of each call that adds some of these writes."""
    for first in range(0, len(writes), WRITES):
        some = writes[first : first + WRITES]
        packed = _pack([(each.queue, each.task, each.counts, each.gauges) for each in some])
        yield [ROWS, ERRORS, OTHERS, packed, *_SLOTS]


def search_args(search: HistorySearch, page: bytes | None) -> list[ScriptArg]:
    """The arguments for a page of a search: `page` came with the page before, and is None at first."""
    kept, since = _kept_text(search.resolution), repr(search.since) if page is None else page
    field = f"{search.queue}\0{search.task}"
    return [search.resolution, kept, since, repr(search.until), search.rows, field]


def rows(reply: Sequence[bytes]) -> Iterator[HistoryRow]:
    """The rows of a page."""
    for slot, field, row in zip(reply[::3], reply[1::3], reply[2::3], strict=True):
        queue, _, task = field.decode().partition("\0")
        counts, gauges = _row(row)
        yield HistoryRow(float(slot), queue, task, counts, gauges)


def marks(reply: Sequence[bytes], since: float) -> list[Mark]:
    """The marks from a time on."""
    found = [Mark(*_mark(each)) for each in reply]
    return [each for each in found if each.at >= since]
