"""Threads that stores work on."""

from __future__ import annotations

import threading

__all__ = ["StoreThread"]


class StoreThread(threading.Thread):
    """A thread that does what others wait for: who waits there for something of the same store may wait for ever.

    Only finalizers come to that, for the collector runs them on whatever thread it is on.
    """
