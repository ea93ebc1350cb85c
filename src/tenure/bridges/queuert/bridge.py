"""`Queuert`: processes jobs of Queuert's chains with functions of an app, and starts chains in your transactions."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import msgspec

from tenure.bridges.bridge import Bridge
from tenure.bridges.custody import Taken
from tenure.bridges.foreign import ForeignError
from tenure.bridges.queuert.entries import read_entry
from tenure.bridges.queuert.layout import MIGRATIONS, QueuertForeign, Tables, refusal
from tenure.bridges.queuert.processors import ProcessorKeywords, ProcessorRegistrar, ProcessorTask, declare_processor
from tenure.core.checks import Duration, seconds
from tenure.core.codec import ANY_DECODER, written
from tenure.core.job import ErrorInfo, NewJob
from tenure.core.patterns import expand
from tenure.errors import InvalidOption, StoreError, UnknownTask
from tenure.stores.callers import PostgresWork, caller_connection
from tenure.stores.callers.postgres import sqlstates
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.link import Link
from tenure.sync import PerLoop, refuse_on_loop, run

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Queuert"]

_ABSENT = {"3F000", "42P01", "42703"}


class Queuert(Bridge):
    """The tables of Queuert 0.14 in PostgreSQL.

    ```python
    app = App("postgresql://localhost/shop")
    queuert = Queuert(app, "postgresql://localhost/shop")


    @queuert.processor("pack")
    def pack(input: Item) -> dict[str, int] | Continue:
        return Continue("ship", {"weight": 4})


    queuert.start("pack", {"item": "lamp"})
    ```
    """

    kind: ClassVar[str] = "queuert"

    def __init__(
        self, app: App, url: str, *, schema: str = "public", prefix: str = "queuert_", channels: str = "queuert"
    ) -> None:
        """`schema` and `prefix` name the tables as Queuert's state adapter does, `channels` the channels as its notify adapter does."""
        super().__init__(app, url)
        for name, value in {"schema": schema, "prefix": prefix, "channels": channels}.items():
            if not isinstance(value, str) or "\0" in value or "{" in value or "%" in value:
                raise InvalidOption(f"{name} must be a name without braces and per cent signs, got {value!r:.80}")
        self._tables = Tables(Address.from_url(url), schema, prefix, channels)
        self._processors: dict[str, ProcessorTask[..., Any]] = {}
        self._links = PerLoop(lambda: Link(self._tables.address))

    def processor(
        self, type_name: str, /, *, lease: Duration = 60, **options: Unpack[ProcessorKeywords]
    ) -> ProcessorRegistrar:
        """Decorator: the function processes the jobs of this type; `ProcessorTask` says what it takes and returns.

        `lease`: seconds after which Queuert gives the job to another worker if this one is gone. The bridge renews it, so it does not
        limit how long a job runs. The task is named `queuert:TYPE`, unless the option `name` says otherwise.
        """
        if not isinstance(type_name, str) or not type_name:
            raise InvalidOption(
                f"processor takes a type of jobs, got {type_name!r:.80}: write @queuert.processor('pack')"
            )
        if type_name in self._processors:
            raise InvalidOption(f"type {type_name!r} of Queuert has a processor already")

        def declare(function: Callable[..., Any]) -> ProcessorTask[..., Any]:
            task = declare_processor(self, type_name, function, lease, options)
            self._processors[type_name] = task
            return task

        return ProcessorRegistrar(declare)

    # Producers.

    def start(self, type_name: str, input: object = None, *, connection: object = None, delay: Duration = 0) -> str:  # noqa: A002
        """Start a chain with a job of this type, for Queuert's workers and for ours. Returns the id of the chain.

        `connection`: a connection of yours to Queuert's database, with an open transaction. The chain exists when it commits.
        `delay`: seconds before the job may run.
        """
        work = self._starting(type_name, input, delay)
        if connection is None:
            refuse_on_loop("start")
            return run(self._start(work))
        caller = caller_connection(connection)
        if caller.awaited:
            raise InvalidOption("this connection= is awaited: await astart() instead")
        try:
            return caller.run(work)
        except Exception as error:
            self._explain(error)
            raise

    async def astart(
        self,
        type_name: str,
        input: object = None,  # noqa: A002
        *,
        connection: object = None,
        delay: Duration = 0,
    ) -> str:
        """The async twin of `start`."""
        work = self._starting(type_name, input, delay)
        if connection is None:
            return await self._start(work)
        try:
            return await caller_connection(connection).arun(work)
        except Exception as error:
            self._explain(error)
            raise

    async def aclose(self) -> None:
        """Close the connections of `start` on this event loop, and those of blocking code."""
        await self._links.close()

    def close(self) -> None:
        """The blocking twin of `aclose`."""
        refuse_on_loop("close")
        run(self.aclose())

    def _starting(self, type_name: str, input: object, delay: Duration) -> PostgresWork[str]:  # noqa: A002
        if not isinstance(type_name, str) or not type_name:
            raise InvalidOption(f"start takes a type of jobs, got {type_name!r:.80}")
        chain_id = str(uuid.uuid4())
        chain = {
            "id": chain_id,
            "type": type_name,
            "input": msgspec.Raw(written(input, ANY_DECODER, "input")),
            "delay": seconds(delay, "delay"),
            "migrations": sorted(MIGRATIONS),
            "channel": self._tables.channel("sched"),
        }

        def read(found: str | None) -> str:
            if found is not None:
                raise ForeignError(
                    refusal(self._tables, msgspec.json.decode(found)) or "Queuert's migrations are not known"
                )
            return chain_id

        return PostgresWork(self._tables.statement("start"), msgspec.json.encode(chain).decode(), read)

    async def _start(self, work: PostgresWork[str]) -> str:
        try:
            [(found,)] = await self._links.here().fetch(work.statement.format("$1"), work.value)
        except StoreError as error:
            self._explain(error)
            raise
        return work.read(found)

    def _explain(self, error: Exception) -> None:
        """Raise an error that says what to do, if the tables are not there."""
        if not _ABSENT.isdisjoint(sqlstates(error)):
            raise ForeignError(self._tables.absent()) from error

    # For the worker.

    def connect(self, queues: Sequence[str]) -> QueuertForeign:
        served = expand(queues, tuple(self._processors))
        if unknown := [each for each in served if each not in self._processors]:
            raise InvalidOption(
                f"type {unknown[0]!r} of Queuert has no processor here: declare one with @queuert.processor({unknown[0]!r})"
            )
        return QueuertForeign(self._tables, {name: task.hold for name, task in self._processors.items()}, served)

    def read(self, entry: Taken) -> NewJob | ErrorInfo:
        task = self._processors.get(entry.queue)
        if task is None:
            raise UnknownTask(entry.queue, self._processors)
        return self._job(entry, task, task.payload_of(read_entry(entry.entry)))
