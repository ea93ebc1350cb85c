"""`Guild`: serves queues of a Guild flow with functions of an app, beside Node workers, and creates jobs for both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import msgspec

from tenure.bridges.bridge import Bridge
from tenure.bridges.custody import Taken
from tenure.bridges.guild.attributes import GuildJob, lookup_values, read_text, written_text
from tenure.bridges.guild.layout import GuildForeign
from tenure.bridges.guild.queue_task import QueueKeywords, QueueRegistrar, QueueTask, declare_queue
from tenure.core.checks import Duration, several
from tenure.core.codec import MAX_DEPTH, check_limits
from tenure.core.job import ErrorInfo, NewJob, new_id
from tenure.core.patterns import expand
from tenure.errors import InvalidOption, UnknownTask
from tenure.stores.redis.address import Address, Kind
from tenure.sync import PerLoop, blocking

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Guild"]


class Guild(Bridge):
    """A flow of Guild queues in Redis, in the layout of `@guildxyz/queues` 0.0.8.

    ```python
    app = App("postgresql://localhost/shop")
    guild = Guild(app, "redis://localhost:6379/0", flow="access", lookup=["userId", "roleIds"])


    @guild.queue("checking", then="granting")
    async def checking(userId: int, roleIds: list[str]) -> dict[str, object]:
        return {"allowed": roleIds}
    ```
    """

    kind: ClassVar[str] = "guild"

    def __init__(self, app: App, url: str, *, flow: str, lookup: Iterable[str] = (), first: str | None = None) -> None:
        """`lookup`: the attributes that jobs are found by; all programs of a flow must name the same.

        `first`: the queue that new jobs begin in. Default: the first that `@guild.queue` declares here.
        """
        super().__init__(app, url)
        if not isinstance(flow, str) or not flow:
            raise InvalidOption(f"flow must be the name of a Guild flow, not {flow!r:.80}")
        self.flow = flow
        self.lookup: tuple[str, ...] = several(lookup, "lookup")
        self._address = Address.from_url(url)
        if self._address.kind is Kind.CLUSTER:
            raise InvalidOption(
                "the keys of Guild queues lie in many slots of a cluster, where no step is atomic: use a server that is no cluster"
            )
        self._first = first
        self._queues: dict[str, QueueTask[..., Any]] = {}
        address, queues = self._address, self._queues
        self._clients = PerLoop(lambda: GuildForeign(address, flow, queues))

    def queue(
        self,
        name: str,
        /,
        *,
        then: str | None = None,
        lock: Duration = 180,
        reads: Mapping[str, str] = MappingProxyType({}),
        **options: Unpack[QueueKeywords],
    ) -> QueueRegistrar:
        """Decorator: the function serves this queue; `QueueTask` says what it takes and returns.

        `then`: the queue that follows; None if this is the last. A child queue is named `parent:child`. `lock`: seconds after which
        Guild's monitor fails a job whose worker is gone; the bridge renews the lock, so it does not limit how long a job runs.
        `reads`: parameters whose attribute has another name, such as `{"children": "children:parent:jobs"}`. The task is named
        `FLOW.QUEUE`, unless the option `name` says otherwise.
        """
        if not isinstance(name, str) or not name:
            raise InvalidOption(f"queue takes the name of a queue, got {name!r:.80}: write @guild.queue('checking')")
        if name in self._queues:
            raise InvalidOption(f"queue {name!r} of flow {self.flow!r} has a function already")

        def declare(function: Callable[..., Any]) -> QueueTask[..., Any]:
            task = declare_queue(self, name, function, then, lock, reads, options)
            self._queues[name] = task
            return task

        return QueueRegistrar(declare)

    # Producers.

    async def astart(self, /, **attributes: object) -> str:
        """Create a job with these attributes, for Node workers and for ours. Returns its id.

        All values must be JSON; give `correlationId` if your Node workers log it. The job expires after a day.
        """
        if not attributes or "id" in attributes:
            raise InvalidOption("a job of Guild needs at least one attribute, and none named id: that is made here")
        texts = {name: written_text(name, value) for name, value in attributes.items()}
        lookups = [(name, value) for name in self.lookup if name in texts for value in lookup_values(texts[name])]
        queue, job_id = self._first_queue(), new_id()
        await self._clients.here().start_job(queue, job_id, lookups, texts)
        return job_id

    def _first_queue(self) -> str:
        queue = self._first or next((queue for queue, task in self._queues.items() if not task.is_child), None)
        if queue is None:
            raise InvalidOption(f"flow {self.flow!r} has no queue here: give first= to Guild(...), or declare one")
        return queue

    async def afind(self, /, **lookup: str | float) -> list[GuildJob]:
        """The jobs with this value of an attribute, or with a list that has it, the oldest first: `guild.find(userId=7)`."""
        if len(lookup) != 1 or (attribute := next(iter(lookup))) not in self.lookup:
            raise InvalidOption(
                f"find takes one of the attributes in lookup= ({', '.join(self.lookup) or 'it is empty'}), got "
                f"{', '.join(lookup) or 'none'}"
            )
        values = lookup_values(written_text(attribute, [lookup[attribute]]))
        if not values:
            raise InvalidOption(f"find takes a text or a number, got {lookup[attribute]!r:.80}")
        return await self._clients.here().find_jobs(attribute, values[0])

    async def ajob(self, job_id: str) -> GuildJob | None:
        """The job of this id; None if there is none, or it has expired."""
        return await self._clients.here().read_job(job_id)

    async def aclose(self) -> None:
        """Close the connections of `start`, `find` and `job` on this event loop, and those of blocking code."""
        await self._clients.close()

    start = blocking(astart)
    find = blocking(afind)
    job = blocking(ajob)
    close = blocking(aclose)

    # For the worker.

    def connect(self, queues: Sequence[str]) -> GuildForeign:
        if not self._queues:
            raise InvalidOption(f"flow {self.flow!r} has no queue here: declare one with @guild.queue('…')")
        served = expand(queues, tuple(self._queues))
        if unknown := [queue for queue in served if queue not in self._queues]:
            raise InvalidOption(
                f"flow {self.flow!r} has no function for queue {unknown[0]!r}: declare one with @guild.queue({unknown[0]!r})"
            )
        return GuildForeign(self._address, self.flow, self._queues, served)

    def read(self, entry: Taken) -> NewJob | ErrorInfo:
        if (task := self._queues.get(entry.queue)) is None:
            raise UnknownTask(f"{self.flow}.{entry.queue}", self.app.tasks)
        arguments: dict[str, Any] = {"id": entry.entry.decode()} if task.takes_id else {}
        for (name, read), text in zip(task.reads.items(), entry.extra, strict=True):
            if text is not None or not read.has_default:
                arguments[name] = read_text(read.attribute, text)
        check_limits(arguments, MAX_DEPTH + 1)
        return self._job(entry, task, msgspec.json.encode({"kwargs": arguments}))
