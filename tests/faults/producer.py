"""A producer that does not mind what becomes of the store."""

from __future__ import annotations

import threading

from tenure.errors import OutcomeUnknown, StoreUnavailable

from .cluster import Cluster

__all__ = ["Producer"]


class Producer:
    """A thread that enqueues all the time, whatever comes; what it was told is on record."""

    def __init__(self, cluster: Cluster) -> None:
        self.enqueued = 0
        """Jobs that it was told are stored."""

        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._produce)
        self._thread.start()

    def _produce(self) -> None:
        # Retention keeps ten thousand finished jobs, and all of these must be there in the end.
        while not self._over.wait(0.03):
            try:
                self.enqueued += len(self._cluster.enqueue("quick", 1, number=5))
                self.enqueued += len(self._cluster.enqueue("nap", 0.01, number=2))
            except (StoreUnavailable, OutcomeUnknown):
                pass

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
