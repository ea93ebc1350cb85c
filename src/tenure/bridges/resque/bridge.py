"""`Resque`: runs the jobs of Resque as jobs of an app, and enqueues for its Ruby, Node and Python workers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from tenure.bridges.bridge import Bridge
from tenure.bridges.custody import Taken
from tenure.bridges.names import queue_name
from tenure.bridges.redis import address_of
from tenure.bridges.resque.entries import Client, read_entry, written_entry
from tenure.bridges.resque.layout import ResqueForeign
from tenure.core.backoff import Backoff
from tenure.core.checks import instant, refused
from tenure.core.codec import ArgsKwargs, Arguments
from tenure.core.job import ErrorInfo, NewJob
from tenure.errors import InvalidOption
from tenure.sync import PerLoop, blocking
from tenure.tasks.context import Context
from tenure.tasks.task import Caller, Task

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Resque"]


class Resque(Bridge):
    """A Resque namespace in Redis.

    ```python
    app = App("postgresql://localhost/shop")
    resque = Resque(app, "redis://localhost:6379/0")


    @app.task(aliases=["Demo::Archive"])
    def archive(repo: int, branch: str = "main") -> str: ...
    ```

    A job of class `Demo::Archive` then runs `archive`. A job fails at its first exception unless its task says `retry` or
    `max_attempts`, and one of a class that no task has fails at once.
    """

    kind: ClassVar[str] = "resque"

    def __init__(
        self, app: App, url: str, *, namespace: str = "resque", prune: bool = False, schedule: bool = False
    ) -> None:
        """Make a bridge; it connects on first use.

        `prune`: workers of the bridge also unregister workers of Resque without a heartbeat for five minutes, and fail their jobs, as
        Ruby workers do. `schedule`: they also move delayed jobs that are due to their queues, as resque-scheduler does; that is safe
        beside other schedulers.
        """
        super().__init__(app, url)
        self.namespace = namespace
        self._address = address_of(url, namespace)
        self._prune = prune
        self._schedule = schedule
        self._producers = PerLoop(lambda: self.connect(()))
        self._push = _push_task(self)

    def connect(self, queues: Sequence[str]) -> ResqueForeign:
        return ResqueForeign(self._address, self.namespace, queues, prune=self._prune, schedule=self._schedule)

    def read(self, entry: Taken) -> NewJob | ErrorInfo:
        call = read_entry(entry.entry)
        return self._job(entry, self._task(call.name), call.payload)

    # Producing.

    async def aenqueue(
        self, cls: str, /, *args: Any, queue: str, at: datetime | None = None, client: Client = "ruby"
    ) -> None:
        """Enqueue a job of a class, for whichever worker serves the queue. It is there when this returns.

        `at`: when it is due; a scheduler must run (`schedule=True`, resque-scheduler or Node's). `client`: whose bytes to write; Node
        can remove only those of `"node"`. `PayloadError`, before any I/O, if JSON cannot hold an argument. If the answer of Redis is
        lost, an error is raised though the job may be there; `remote` enqueues exactly once.
        """
        _check_client(client)
        # Rounded up, because no job may run before its time.
        due = None if at is None else math.ceil(instant(at, "at"))
        entry = written_entry(cls, args, queue=queue, client=client, delayed=due is not None)
        await self._producers.here().push(queue, entry, at=due)

    enqueue = blocking(aenqueue)

    def remote(self, cls: str, *, queue: str, client: Client = "ruby") -> Caller[..., None]:
        """A caller that enqueues jobs of a class through the app's own store: in your transaction, delayed, or unique.

        Each is stored as a job of the task `resque:push`, which any worker of this bridge runs: it pushes the entry, exactly once
        however often it is repeated.
        """
        _check_client(client)
        push = self._push
        arguments = _PushArguments(push._arguments, (cls, queue, client))
        return Caller(self.app, push.name, arguments, push._results, push._fields)


class _PushArguments:
    """Encodes the arguments of a class as those of the task that pushes them."""

    def __init__(self, arguments: Arguments, first: tuple[str, ...]) -> None:
        self._arguments = arguments
        self._first = first

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        if kwargs:
            raise TypeError(f"a job of Resque has no keyword arguments, got {', '.join(kwargs)}")
        return self._arguments.encode((*self._first, *args), {})

    def decode(self, payload: bytes) -> ArgsKwargs:
        return self._arguments.decode(payload)

    def key(self, payload: bytes) -> str:
        return self._arguments.key(payload)


def _push_task(bridge: Resque) -> Task[..., None]:
    """The task that pushes what `remote` has enqueued. Two bridges of an app to the same namespace share it."""
    name = "resque:push" if bridge.namespace == "resque" else queue_name("resque:push", bridge.namespace)
    if (there := bridge.app.tasks.get(name)) is not None:
        other = getattr(there.function, "bridge", None)
        if isinstance(other, Resque) and other.url == bridge.url:
            return there
        where = f" at {other.shown}" if isinstance(other, Resque) else ""
        raise InvalidOption(
            f"this app has a bridge to namespace {bridge.namespace!r}{where} already: use that one, or make another app"
        )

    async def push(ctx: Context, cls: str, queue: str, client: Client, *args: Any) -> None:
        entry = written_entry(cls, args, queue=queue, client=client)
        await bridge._producers.here().push(queue, entry, job_id=ctx.job.id)

    push.bridge = bridge  # type: ignore[attr-defined]
    # An outage of Redis, or of workers, must not fail it: it is as if Redis had been slow.
    options = bridge.app.task(
        name=name, queue=name, retry=Backoff(initial=1.0, maximum=60.0), max_attempts=None, max_losses=None
    )
    return options(push)


def _check_client(client: str) -> None:
    if client not in ("ruby", "node"):
        raise refused("client", "'ruby' or 'node'", client)
