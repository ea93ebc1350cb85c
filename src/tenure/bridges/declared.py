"""`DeclaringBridge`: a bridge whose queues are declared by decorators, each with the function that runs its entries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from tenure.bridges.bridge import Bridge
from tenure.bridges.custody import Look, Taken
from tenure.bridges.foreign import Foreign
from tenure.bridges.names import queue_name
from tenure.bridges.redis import RedisForeign
from tenure.core.checks import Duration, refused
from tenure.core.job import NewJob
from tenure.core.patterns import expand
from tenure.errors import InvalidOption
from tenure.stores.redis.address import Address
from tenure.tasks.task import Registrar

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["DeclaredForeign", "DeclaringBridge", "EntryKeywords"]


class EntryKeywords(TypedDict, total=False):
    """Options of a declared queue that every bridge has; `TaskOptions` describes them."""

    max_losses: int | None
    lease: Duration
    renew: Duration | None
    keep: Duration | None
    priority: int
    isolation: Literal["process"] | None
    memory_limit: int | None
    output: int


class DeclaringBridge(Bridge):
    """Its tasks are named like their queues here, such as `worqr:mail`.

    So the function may be renamed while jobs wait, and may have the name of another task.
    """

    def __init__(self, app: App, url: str) -> None:
        super().__init__(app, url)
        self._declared: list[str] = []

    def leased(self, queues: Sequence[str]) -> Sequence[str]:
        """The declared queues that these names and patterns mean, as they are named here; no queues: all. Internal.

        `InvalidOption` for a name that is not declared, or if none is.
        """
        self.app.internals.import_included()
        return [queue_name(self.kind, queue) for queue in self._served(queues or ("*",))]

    def connect(self, queues: Sequence[str]) -> Foreign:
        return self._open(expand(queues, self._declared))

    @abstractmethod
    def _open(self, queues: Sequence[str]) -> Foreign:
        """A connection that serves exactly these queues."""

    def _served(self, patterns: Sequence[str]) -> tuple[str, ...]:
        """The declared queues that these names and patterns mean."""
        served = expand(patterns, self._declared)
        for queue in served:
            if queue not in self._declared:
                raise InvalidOption(
                    f"no function is declared for queue {queue!r} of {self.kind}: decorate one with @{self.kind}.queue({queue!r})"
                )
        if not served:
            raise InvalidOption(
                f"the worker would serve no queue of {self.kind}: decorate functions with @{self.kind}.queue(…) and import their modules"
            )
        return served

    def _declare(self, queue: str, **options: Any) -> Registrar:
        """The decorator that makes the task of a queue."""
        _check_queue(queue)
        if queue in self._declared:
            raise InvalidOption(f"queue {queue!r} of {self.kind} is declared twice: one function runs all its entries")
        self._declared.append(queue)
        name = queue_name(self.kind, queue)
        return Registrar(self.app, {"name": name, "queue": name, **options})

    def _job_of(self, entry: Taken, payload: bytes) -> NewJob:
        return self._job(entry, self._task(queue_name(self.kind, entry.queue)), payload)


class DeclaredForeign(RedisForeign):
    """The queues in Redis that a program has declared. It leaves alone what another program has in custody of other queues."""

    def __init__(self, address: Address, prefix: str, queues: Sequence[str]) -> None:
        super().__init__(address, prefix)
        self._queues = queues

    async def look(self) -> Look:
        """Everything in custody of these queues. A job of another queue would wait here for a task that this program does not have."""
        everything = await super().look()
        return everything._replace(entries=[entry for entry in everything.entries if entry.queue in self._queues])


def _check_queue(queue: object) -> None:
    if not isinstance(queue, str) or not queue:
        raise refused("what queue() declares", "the name of a queue", queue)
    if not {"*", "?", "[", "!"}.isdisjoint(queue):
        raise InvalidOption(f"queue {queue!r:.80} cannot be declared: *, ?, [ and ! are for patterns")
