"""`StoreThread`: the class of threads that stores work on."""

from __future__ import annotations

import threading

__all__ = ["StoreThread"]


class StoreThread(threading.Thread):
    """A thread of a store.

    Code that waits on it for the same store may wait for ever, because the thread waits for itself.

    Only finalizers get there, because the garbage collector runs them on any thread.
    """
