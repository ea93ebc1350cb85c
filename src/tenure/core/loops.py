"""`call_soon`: calls a function on an event loop from another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["call_soon"]


def call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: object) -> bool:
    """Call `callback` on `loop`, from any thread.

    Returns False if the loop is closed, which means that its owner has ended.
    """
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        return False
    return True
