"""`ProblemView`: what is shown in place of a page that cannot be built."""

from __future__ import annotations

import msgspec

__all__ = ["ProblemView"]


class ProblemView(msgspec.Struct, frozen=True):
    """What is wrong."""

    heading: str
    sentence: str
    away: bool = False
    """Whether the store does not answer, so that it is worth asking again."""
