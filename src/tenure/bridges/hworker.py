"""`Hworker`: runs hworker's jobs as jobs of an app, beside Haskell workers, and queues jobs for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack
from uuid import uuid4

import msgspec

from tenure.bridges.custody import Begun, Custody, End, Stopped, Taken
from tenure.bridges.declared import DeclaredForeign, DeclaringBridge, EntryKeywords
from tenure.bridges.foreign import Cancel, ForeignError
from tenure.bridges.names import queue_name
from tenure.core.checks import Duration, refused, seconds
from tenure.core.codec import MAX_DEPTH, check_limits, decoder_of, reason, written
from tenure.core.job import NewJob, State
from tenure.errors import InvalidOption, PayloadError, PayloadTooLarge, StoreError
from tenure.stores.redis.address import Address, Kind
from tenure.sync import PerLoop, blocking
from tenure.tasks.task import Registrar
from tenure.worker.chores import Chore

if TYPE_CHECKING:
    from tenure.app import App

__all__ = [
    "Hworker",
    "HworkerForeign",
    "QueueSettings",
    "Verdict",
    "read_entry",
    "time_text",
    "verdict_of",
    "written_entry",
]

WAITED_FOR = 8
"""Queues that an idle bridge waits for, a connection each. With more of them it looks once a second."""

OnException = Literal["fail", "retry"]

log = logging.getLogger("tenure.bridges")


class QueueSettings(msgspec.Struct, frozen=True):
    """What hworker's own workers of a queue are configured with."""

    timeout: float = 120.0
    """Seconds after which a monitor returns a job whose holder is silent."""

    on_exception: OnException = "fail"
    failed_size: int = 1000
    """Failures that are kept, the newest."""


class Verdict(StrEnum):
    """What becomes of an entry when its job has ended."""

    DROP = "drop"
    RETRY = "retry"
    FAIL = "fail"
    BREAK = "break"
    """It is no job of this queue; it is kept in the hash `broken`."""


class Hworker(DeclaringBridge):
    """The queues of hworker in Redis.

    ```python
    hworker = Hworker(app, "redis://localhost:6379/0")


    @hworker.queue("reports", timeout=120)
    def report(job: Monthly | Yearly) -> None: ...
    ```

    1. The function gets the job's JSON, converted by the annotation of its parameter. What does not fit is kept in `broken`.
    2. `Retry` returns the job to the back of its queue there; `Fail` puts it into the list of failures, as an exception does
       unless `on_exception="retry"`. So a job here has one attempt.
    3. The bridge renews its hold every third of `timeout`. What a monitor has taken back is cancelled here, and no end is
       written.
    """

    kind: ClassVar[str] = "hworker"

    def __init__(self, app: App, url: str, *, monitor: bool = False) -> None:
        """`monitor`: workers of this bridge also return the jobs of dead Haskell workers, as a monitor of hworker does."""
        super().__init__(app, url)
        self._address = Address.from_url(url)
        if self._address.kind is Kind.CLUSTER:
            raise InvalidOption(
                "the keys of hworker lie in many slots of a cluster, where no step is atomic: use a server that is no cluster"
            )
        self._monitor = monitor
        self._settings: dict[str, QueueSettings] = {}
        self._producers = PerLoop(lambda: self._open(()))

    def queue(
        self,
        queue: str,
        *,
        timeout: Duration = 120.0,
        on_exception: OnException = "fail",
        failed_size: int = 1000,
        **options: Unpack[EntryKeywords],
    ) -> Registrar:
        """Declare a queue: the decorated function runs its jobs. Workers of this bridge serve the queues that are declared.

        `timeout`, `on_exception`, `failed_size`: as in the configuration of hworker. Give `timeout` the value that its own workers of
        this queue have: it says how often the hold is renewed, and does not limit how long a job runs.
        """
        hold = seconds(timeout, "timeout", least=0.1)
        if on_exception not in ("fail", "retry"):
            raise refused("on_exception", "'fail' or 'retry'", on_exception)
        if isinstance(failed_size, bool) or not isinstance(failed_size, int) or failed_size < 1:
            raise refused("failed_size", "a number of at least 1", failed_size)
        registrar = self._declare(queue, **options)
        self._settings[queue] = QueueSettings(hold, on_exception, failed_size)
        return registrar

    async def aenqueue(self, queue: str, job: Any) -> str:
        """Push a job to the back of a queue, for Haskell workers and for those of this bridge. Returns its id there, a UUID.

        `PayloadError` if it does not fit the function that is declared for the queue, or has no JSON form.
        """
        task = self.app.tasks.get(queue_name(self.kind, queue))
        if task is None:
            data = written(job, decoder_of(type(job)), "the job")
        else:
            [data] = msgspec.json.decode(task.bind(job).payload, type=_Call).args
        job_id = str(uuid4())
        await self._producers.here().command("LPUSH", f"hworker-jobs-{queue}", written_entry(job_id, bytes(data)))
        return job_id

    enqueue = blocking(aenqueue)

    def read(self, entry: Taken) -> NewJob:
        job = read_entry(entry.entry, self.app.options.payload_limit)
        return self._job_of(entry, b'{"args":[' + job + b"]}")

    def _open(self, queues: Sequence[str]) -> HworkerForeign:
        return HworkerForeign(
            self._address, queues, self._settings, self.app.options.payload_limit, monitor=self._monitor
        )


class HworkerForeign(DeclaredForeign):
    """hworker's lists and hashes. An entry in progress is held by the time that its holder has written."""

    layout = "hworker"

    def __init__(
        self,
        address: Address,
        queues: Sequence[str],
        settings: Mapping[str, QueueSettings],
        limit: int,
        *,
        monitor: bool = False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(address, "hworker", queues)
        self._settings = settings
        self._limit = limit
        self._monitor = monitor
        self._now = now
        self.renew_every = min((settings[queue].timeout for queue in queues), default=120.0) / 3

    async def enter(self, owner: str, slots: int) -> None:
        """Nothing: there is no list of workers in hworker."""

    async def leave(self, owner: str) -> None:
        """Nothing: there is no list of workers in hworker."""

    async def take(self, owner: str, ids: Sequence[str]) -> list[Taken]:
        found = await self.run("take", self.prefix, owner, self._time(), len(self._queues), *self._queues, *ids)
        return [Taken(job_id.decode(), queue.decode(), entry) for job_id, queue, entry in found]

    async def wait(self, timeout: float) -> None:
        if not 1 <= len(self._queues) <= WAITED_FOR:
            await asyncio.sleep(timeout)
            return
        waits = {
            asyncio.create_task(self._link.has_element(f"hworker-jobs-{queue}", timeout)) for queue in self._queues
        }
        pending, found = waits, False
        try:
            while pending and not found:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                found = any(each.result() for each in done)
        except StoreError as error:
            raise ForeignError(str(error)) from error
        finally:
            for each in pending:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def record(
        self,
        owner: str,  # noqa: ARG002
        ends: Sequence[End],
        begun: Sequence[Begun],  # noqa: ARG002
        stopped: Sequence[Stopped],  # noqa: ARG002
    ) -> None:
        if not ends:
            return
        entries = {each.id: each for each in await self.find([end.id for end in ends])}
        written = [part for end in ends if end.id in entries for part in self._end(end, entries[end.id])]
        if written:
            for lost in await self.run("end", self.prefix, self._time(), *written):
                log.warning(
                    "hworker has taken back the entry of job %s, which has ended here: it runs there again",
                    lost.decode(),
                )

    def _end(self, end: End, held: Custody) -> tuple[str, str, int]:
        settings = self._settings.get(held.queue, QueueSettings())
        return end.id, self._verdict(end, held.entry, settings.on_exception), settings.failed_size

    def _verdict(self, end: End, entry: bytes, on_exception: OnException) -> Verdict:
        if end.state is State.FAILED:  # perhaps because it could not be read
            try:
                read_entry(entry, self._limit)
            except PayloadError:
                return Verdict.BREAK
        return verdict_of(end, on_exception)

    async def renew(self, owner: str, ids: Sequence[str]) -> list[str]:  # noqa: ARG002
        lost = await self.run("renew", self.prefix, self._time(), *ids)
        return [each.decode() for each in lost]

    async def held_there(self, ids: Sequence[str]) -> list[bool]:
        return [bool(each) for each in await self.run("held", self.prefix, *ids)]

    async def give_back(self, ids: Sequence[str]) -> None:
        await self.run("give_back", self.prefix, *ids)

    async def let_go(self, ids: Sequence[str]) -> None:
        await self.run("let_go", self.prefix, *ids)

    def chores(self, cancel: Cancel) -> Mapping[str, Chore]:  # noqa: ARG002
        return {"monitor": self.take_back_silent} if self._monitor and self._queues else {}

    async def take_back_silent(self) -> float:
        """Return the jobs of all served queues whose holders have been silent for the time-out. Returns the seconds until the next look."""
        ours = {entry.entry for entry in (await self.look()).entries}  # the sweep looks after these
        for queue in self._queues:
            times = await self.command("HGETALL", f"hworker-progress-{queue}")
            timeout = self._settings[queue].timeout
            silent = [
                part
                for entry, time in zip(times[::2], times[1::2], strict=True)
                if entry not in ours and self._is_silent(entry, time, timeout)
                for part in (entry, time)
            ]
            if silent and (count := await self.run("take_back", self.prefix, queue, *silent)):
                log.warning("%d jobs of hworker's queue %s had a silent holder and are back in the queue", count, queue)
        return min(self._settings[queue].timeout for queue in self._queues) / 10

    def _is_silent(self, entry: bytes, time: bytes, timeout: float) -> bool:
        if entry == b"false":  # an idle Haskell worker leaves this
            return False
        try:
            since = msgspec.json.decode(time, type=datetime)
        except msgspec.MsgspecError:
            return False
        return (self._now() - since).total_seconds() > timeout

    def _time(self) -> bytes:
        return time_text(self._now())


class _Call(msgspec.Struct):
    args: list[msgspec.Raw]


def time_text(when: datetime) -> bytes:
    """A time as hworker's monitor reads it: JSON text of UTC with six digits and a Z. Any other form ends the monitor."""
    return when.astimezone(UTC).strftime('"%Y-%m-%dT%H:%M:%S.%fZ"').encode()


def read_entry(entry: bytes, limit: int) -> bytes:
    """The JSON of the job in an entry, byte for byte. `PayloadError` if it is no job, or larger than `limit`."""
    try:
        _, job = msgspec.json.decode(entry, type=tuple[str, msgspec.Raw])
        check_limits(msgspec.json.decode(job), MAX_DEPTH)
    except PayloadError:
        raise
    except Exception as error:
        raise PayloadError(f"the entry is no job of hworker: {reason(error)}") from error
    if len(job) > limit:
        raise PayloadTooLarge(len(job), limit)
    return bytes(job)


def written_entry(job_id: str, job: bytes) -> bytes:
    """The entry of a job with this id and JSON."""
    return msgspec.json.encode((job_id, msgspec.Raw(job)))


def verdict_of(end: End, on_exception: OnException) -> Verdict:
    """What becomes of the entry of a job that has ended so.

    A job that is cancelled here is dropped: it is not wanted. One that has killed its workers too often fails in any case.
    """
    if end.state is State.BROKEN:
        return Verdict.BREAK
    if end.state is not State.FAILED or end.error is None:
        return Verdict.DROP
    if end.error.traceback is None:  # no exception: the task's answer, or what the worker has seen
        return Verdict.RETRY if end.error.type == "Retry" else Verdict.FAIL
    return Verdict.RETRY if on_exception == "retry" else Verdict.FAIL
