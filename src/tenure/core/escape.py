"""Text from the store or from users, escaped so that it cannot control a terminal or forge a log line."""

from __future__ import annotations

__all__ = ["escaped"]


def escaped(text: str) -> str:
    r"""The text with every unprintable character as an escape sequence: `\n`, `\x1b`, `\u202e`.

    Such characters would move the cursor, break the line or reverse the direction of the text. Producers choose names,
    arguments and error messages, so none of these can be trusted on a terminal or in a log.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
