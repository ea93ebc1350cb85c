"""`Worqr`: runs Worqr's tasks as jobs of an app, beside its own workers, and enqueues tasks for them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Unpack

import msgspec
from msgspec.structs import replace

from tenure.bridges.bridge import KEEP
from tenure.bridges.custody import Begun, End, Stopped, Taken
from tenure.bridges.declared import DeclaredForeign, DeclaringBridge, EntryKeywords
from tenure.bridges.foreign import Cancel
from tenure.bridges.redis import address_of
from tenure.core.backoff import Backoff
from tenure.core.checks import Duration, seconds
from tenure.core.job import NewJob, State
from tenure.errors import InvalidOption, PayloadError, UniqueConflict
from tenure.stores.redis.address import Address
from tenure.sync import PerLoop, blocking
from tenure.tasks.task import Registrar
from tenure.worker.chores import Chore

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["DuplicateTask", "Worqr", "WorqrForeign"]

CHECK_INTERVAL = 5.0
"""Seconds between two looks whether peers have taken tasks back."""

CANCEL_TRIES = 20
"""Tries to cancel a job that its worker has not stored yet, 0.1 seconds apart."""


class WorqrKeywords(EntryKeywords, total=False):
    """Options of `@worqr.queue(...)`; `TaskOptions` describes them."""

    retry: Backoff | int | None
    max_attempts: int | None
    timeout: Duration | None


class DuplicateTask(UniqueConflict):
    """A task with the same bytes was enqueued as unique and has not finished."""

    def __init__(self, queue: str, task: bytes) -> None:
        self.task = f"worqr:{queue}"
        self.key = unique_key(task)
        self.holder = ""
        Exception.__init__(
            self,
            f"a unique task {task!r:.200} has not finished: wait for it, or cancel it with worqr.cancel({queue!r}, …)",
        )


class Worqr(DeclaringBridge):
    """The queues of a Worqr prefix in Redis.

    ```python
    worqr = Worqr(app, "redis://localhost:6379/0")


    @worqr.queue("mail")
    def mail(task: bytes) -> object: ...
    ```

    1. A task runs as a job with one attempt, unless the decorator says `retry` or `max_attempts`.
    2. Worqr knows no failures: a job that fails or is cancelled finishes its task there. `tenure failed` has it.
    3. What peers have taken back is cancelled here, and no end is written.
    """

    kind: ClassVar[str] = "worqr"

    def __init__(self, app: App, url: str, *, prefix: str = "worqr") -> None:
        if "_" in prefix or not prefix:
            raise InvalidOption(
                f"prefix {prefix!r:.80}: Worqr's clients take the part before the first _ of a channel for it"
            )
        super().__init__(app, url)
        self.prefix = prefix
        self._address = address_of(url, prefix)
        self._producers = PerLoop(lambda: self._open(()))

    def queue(self, queue: str, **options: Unpack[WorqrKeywords]) -> Registrar:
        """Declare a queue: the decorated function runs its tasks. It gets their bytes; what it returns is the result that Worqr tells.

        Workers of this bridge serve the queues that are declared.
        """
        return self._declare(queue, raw=True, **options)

    async def aenqueue(self, queue: str, *tasks: bytes | str, unique: bool = False) -> None:
        """Push tasks to the back of a queue, for workers of Worqr and of this bridge, in one step.

        `unique`: raise `UniqueConflict`, pushing nothing, if one of the tasks was enqueued as unique and has not finished.
        """
        if not tasks:
            return
        held = await self._producers.here().run("enqueue", self.prefix, queue, int(unique), *_with_keys(tasks))
        if held:
            raise DuplicateTask(queue, entry_of(tasks[held - 1]))

    async def acancel(self, queue: str, *tasks: bytes | str) -> int:
        """Remove all waiting tasks with these bytes, and ask workers that run one to stop. Returns how many were removed.

        A unique task that waited may be enqueued again; a client of Worqr that cancels it does not free it.
        """
        return int(await self._producers.here().run("cancel", self.prefix, queue, *_with_keys(tasks)))

    enqueue = blocking(aenqueue)
    cancel = blocking(acancel)

    def read(self, entry: Taken) -> NewJob:
        job = self._job_of(entry, entry.entry)
        # There is no list of failures in Worqr. So failed jobs are kept here as long as the app keeps those of other queues.
        retention = self.app.options.keep_in.get(job.queue, self.app.options.keep)
        long = min(seconds(retention.succeeded, "succeeded"), seconds(retention.failed, "failed")) >= KEEP
        return replace(job, keep=None) if long and job.keep == KEEP else job

    def _open(self, queues: Sequence[str]) -> WorqrForeign:
        return WorqrForeign(self._address, self.prefix, queues)


class WorqrForeign(DeclaredForeign):
    """Worqr's lists. Each task in progress is alone in a list, its process, which a peer may take back."""

    layout = "worqr"
    renew_every = CHECK_INTERVAL

    def __init__(self, address: Address, prefix: str, queues: Sequence[str]) -> None:
        super().__init__(address, prefix, queues)
        self._work_came = asyncio.Event()

    async def enter(self, owner: str, slots: int) -> None:  # noqa: ARG002
        await self.run("enter", self.prefix, owner)

    async def leave(self, owner: str) -> None:
        await self.run("leave", self.prefix, owner)

    async def take(self, owner: str, ids: Sequence[str]) -> list[Taken]:
        found = await self.run("take", self.prefix, owner, len(self._queues), *self._queues, *ids)
        return [Taken(job_id.decode(), queue.decode(), entry) for job_id, queue, entry in found]

    async def wait(self, timeout: float) -> None:
        # A peer's client that returns a task publishes nothing, so this ends after `timeout` in any case.
        try:
            async with asyncio.timeout(timeout):
                await self._work_came.wait()
        except TimeoutError:
            pass
        self._work_came.clear()

    async def record(
        self,
        owner: str,
        ends: Sequence[End],
        begun: Sequence[Begun],  # noqa: ARG002
        stopped: Sequence[Stopped],  # noqa: ARG002
    ) -> None:
        if not ends:
            return
        entries = {each.id: each for each in await self.find([end.id for end in ends])}
        finished = [part for end in ends if end.id in entries for part in _finish(owner, end, entries[end.id].entry)]
        if finished:
            await self.run("end", self.prefix, *finished)

    async def renew(self, owner: str, ids: Sequence[str]) -> list[str]:
        return [each.decode() for each in await self.run("renew", self.prefix, owner, *ids)]

    async def held_there(self, ids: Sequence[str]) -> list[bool]:
        return [bool(each) for each in await self.run("held", self.prefix, *ids)]

    async def adopt(self, job_id: str, owner: str, adopter: str) -> bool:
        return bool(await self.run("adopt", self.prefix, job_id, owner, adopter))

    async def give_back(self, ids: Sequence[str]) -> None:
        await self.run("give_back", self.prefix, *ids)

    async def let_go(self, ids: Sequence[str]) -> None:
        await self.run("let_go", self.prefix, *ids)

    def chores(self, cancel: Cancel) -> Mapping[str, Chore]:
        async def hear() -> float:
            await self._hear(cancel)
            return 0.0

        return {"events": hear} if self._queues else {}

    async def _hear(self, cancel: Cancel) -> None:
        """Listen to the events of all queues until the connection is closed."""
        cancels = {f"{self.prefix}_{queue}_cancel".encode(): queue for queue in self._queues}
        channels = [f"{self.prefix}_{queue}_work" for queue in self._queues]
        async for heard in self._link.listen_to([*channels, *(channel.decode() for channel in cancels)]):
            if heard is None or (queue := cancels.get(heard[0])) is None:
                self._work_came.set()
            else:
                await self._cancel(queue, heard[1], cancel)

    async def _cancel(self, queue: str, task: bytes, cancel: Cancel) -> None:
        """Cancel the jobs of all tasks with these bytes. One that was taken a moment ago may not be stored yet."""
        look = await self.look()
        ids: Sequence[str] = [each.id for each in look.entries if each.queue == queue and each.entry == task]
        for _ in range(CANCEL_TRIES):
            if not ids or not (ids := await cancel(ids)):
                return
            await asyncio.sleep(0.1)


def entry_of(task: bytes | str) -> bytes:
    """The bytes of a task. `PayloadError` if it is neither bytes nor text."""
    if not isinstance(task, bytes | str):
        raise PayloadError(f"a task of Worqr is bytes or a text, got {type(task).__name__}")
    return task.encode() if isinstance(task, str) else task


def _with_keys(tasks: Sequence[bytes | str]) -> list[bytes | str]:
    return [part for task in map(entry_of, tasks) for part in (task, unique_key(task))]


def unique_key(task: bytes) -> str:
    """The name under which Worqr remembers that a task is unique."""
    return hashlib.md5(task, usedforsecurity=False).hexdigest()


def done_message(worker: str, task: bytes, result: str | None) -> bytes:
    """What Worqr publishes when a task has finished. `result` is JSON; None or null: there is none.

    A client reads a task as text, so bytes that are no UTF-8 are shown by U+FFFD.
    """
    message: dict[str, object] = {"workerId": worker, "task": task.decode(errors="replace")}
    if result is not None and result != "null":
        message["result"] = msgspec.Raw(result.encode())
    return msgspec.json.encode(message)


def _finish(owner: str, end: End, task: bytes) -> tuple[str, str, bytes]:
    result = end.result if end.state is State.SUCCEEDED else None
    return end.id, unique_key(task), done_message(owner, task, result)
