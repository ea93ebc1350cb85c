"""Text from anywhere, made harmless for terminals and logs."""

from __future__ import annotations

__all__ = ["escaped"]


def escaped(text: str) -> str:
    r"""Show what would move the cursor, break the line or turn the writing round as an escape: `\n`, `\x1b`, `\u202e`.

    Anything may have been enqueued under any name, argument or error message; on a terminal, or in a log, it is only ever read.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
