"""`Engine` runs all calls of this process on one SQLite file, with a writer, a reader and their connections.

All store objects of the process for the same file share one engine, even on different event loops. So concurrent calls of all of
them can be joined into one transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from tenure.core.clock import Clock, SystemClock
from tenure.errors import InvalidOption, StoreError, StoreUnavailable
from tenure.stores.sqlite import schema
from tenure.stores.sqlite.calls import Action, BatchAction, Call, answer, perform
from tenure.stores.sqlite.connection import BUSY_TIMEOUT, GuardedConnection, connect, translated
from tenure.stores.sqlite.doorbell import Doorbells
from tenure.stores.sqlite.files import Files, refuse_if_log_gone
from tenure.stores.sqlite.library import BUSY, Connection, Library, abandon, code_of, in_use_through_python
from tenure.stores.sqlite.own_transaction import LiteTransaction
from tenure.stores.sqlite.single import Single
from tenure.stores.sqlite.transaction import Transaction
from tenure.stores.sqlite.writer import Writer
from tenure.stores.thread import StoreThread

__all__ = ["Engine"]

T = TypeVar("T")

REOPEN_DELAY = 0.1
"""Seconds between noticing that the log was deleted and starting a new one: time for transactions of other processes to end."""

log = logging.getLogger("tenure.store")


class Engine:
    """The connections and threads of one file in this process. `Engine.of(path)` finds the existing one."""

    _engines: dict[tuple[str, Clock | None], Engine] = {}  # noqa: RUF012  (one registry for the process)
    _chosen: dict[str, Library] = {}  # noqa: RUF012
    """The library that each file must be used through, in this process and its children."""

    _abandoned: list[Connection] = []  # noqa: RUF012
    """Open connections of a library that is no longer used; see `_switch_library`."""

    _registry = threading.Lock()

    def __init__(self, path: str, clock: Clock) -> None:
        self.path = path
        self.clock = clock
        self.library = self._chosen.get(path, Library.APSW)
        self.bells = Doorbells(path)
        self._users = 0
        self._files = Files(path)
        self.is_open = False
        self._writer = Writer(
            path,
            clock,
            self.bells,
            self._connect_writer,
            lambda: self._connect_more(cache_kib=1_000),
            self._files,
            self._reopen,
        )
        self._reader = GuardedConnection(lambda: self._connect_more(cache_kib=4_000))
        self._inline = GuardedConnection(lambda: self._connect_more(cache_kib=200))
        self._own: dict[LiteTransaction, None] = {}
        """Open transactions that were started by `begin`, in the order in which they were started."""

        self._own_lock = threading.Lock()
        self._reads: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._reading: threading.Thread | None = None

    @classmethod
    def of(cls, path: str, clock: Clock | None = None) -> Engine:
        """The engine of this file, with one more user. Give it back with `release`."""
        # Each clock gets its own engine, because tests move their clocks.
        key = (path, clock)
        with cls._registry:
            engine = cls._engines.get(key)
            if engine is None:
                engine = cls._engines[key] = cls(path, clock or SystemClock())
            engine._users += 1
            return engine

    def release(self) -> None:
        """Give the engine back. When its last user has done so, its threads finish their work and its connections are closed."""
        with self._registry:
            self._users -= 1
            if self._users:
                return
            for key in [key for key, engine in self._engines.items() if engine is self]:
                del self._engines[key]
        self._roll_back_all(StoreUnavailable(f"the store {self.path!r} has been closed"))
        self._writer.end()
        if self._reading is not None:
            self._reads.put(None)
            self._reading.join()
        for guarded in self._guarded:
            with guarded.lock:
                guarded.close()
        self.bells.close()

    def use_library(self, library: Library) -> None:
        """Use the file only through this library until the process ends. `InvalidOption` if another one was chosen before."""
        if (chosen := self._chosen.get(self.path, library)) is not library:
            raise InvalidOption(
                f"this process uses {self.path} through {chosen}, and two SQLite libraries in one process lose data: "
                f"use connections of {chosen}"
            )
        if self.library is not library:
            self._switch_library(library)
        self._chosen[self.path] = library

    def _switch_library(self, library: Library) -> None:
        with contextlib.ExitStack() as locks:
            for lock in (self._own_lock, *(guarded.lock for guarded in self._guarded)):
                locks.enter_context(lock)
            if self._own:
                raise InvalidOption(
                    f"a transaction is open on {self.path} through {self.library}: "
                    f"add ?library={library} to the URL of the app that uses connections of {library}"
                )
            self.library = library
            # They are never closed, because that would drop the locks that the other library holds by now. They are not used any more.
            for guarded in self._guarded:
                if (connection := guarded.take()) is not None:
                    abandon(connection)
                    self._abandoned.append(connection)
            # The other library has no connection of ours yet: the caller's may be its last one, and delete the log when it closes.
            self._files.forget_log()

    # Calls.

    async def write(self, action: Action[T], *, durable: bool) -> T:
        """Run this in a write transaction, joined with other pending calls. Returns after the commit."""
        return await self._write(Call(action, asyncio.get_running_loop(), durable=durable))

    async def write_batch(self, action: BatchAction, items: Sequence[Any], single: Single | None = None) -> list[Any]:
        """Run this durably on these items. Pending batches of the same action are joined into one.

        Only for an action that cannot refuse an item, because a refusal would hit the other callers too. `single` does the same with
        one call of the library, and is used if nothing else is pending.
        """
        call: Call[list[Any]] = Call(action, asyncio.get_running_loop(), durable=True, items=items, single=single)
        return await self._write(call)

    def write_now(self, action: Action[T], *, durable: bool, single: Single | None = None) -> T:
        """As `write`, for a thread without an event loop. The file must be open."""
        return self._writer.run_now(Call(action, None, durable=durable, single=single))

    async def read(self, action: Action[T]) -> T:
        """Run this on a snapshot, beside the writer."""
        call = Call(action, asyncio.get_running_loop(), durable=False)
        await self._open_in_executor()
        self._reads.put(call)
        assert call.future is not None
        return await call.future

    async def begin(self, *, writes: bool, timeout: float | None) -> LiteTransaction:
        """Open a transaction on a separate connection. Its commit is synced to disk."""
        await self._open_in_executor()
        own = LiteTransaction(self.path, self._connect_own, self._remove_own, writes=writes, timeout=timeout)
        await own.begin()
        return own

    def read_inline(self, action: Callable[[Connection], T]) -> T:
        """Read on the calling thread. For reads of a few microseconds, which is less than a hop to the reader's thread takes."""
        try:
            with self._inline.lock, translated(self.path) as errors:
                return action(errors.connection(self._inline))
        except StoreUnavailable:
            self._check_log()
            raise

    async def _write(self, call: Call[T]) -> T:
        await self._open_in_executor()
        self._writer.add(call)
        assert call.future is not None
        return await call.future

    async def _open_in_executor(self) -> None:
        if not self.is_open:
            await asyncio.get_running_loop().run_in_executor(None, self.open)

    # Opening.

    def open(self) -> None:
        """Open the file (creating it if need be), bring its layout up to date and start the threads. Blocks."""
        if self.is_open:
            return
        with self._writer.own.lock:
            if not self._files.known:
                self._choose_library()
            try:
                self._writer.own.get()
            except StoreUnavailable as error:
                if code_of(error.__cause__) != BUSY:
                    raise
                raise StoreUnavailable(
                    f"{self.path!r} could not be opened because a transaction kept it locked: use the app once before you begin one"
                ) from error
            self._writer.begin()
            if self._reading is None:
                self._reading = StoreThread(target=self._read_loop, name="tenure-sqlite-reader", daemon=True)
                self._reading.start()
            self.is_open = True

    def _choose_library(self) -> None:
        """Use the library that was chosen for the file; if none was, the one that this process has the file open through."""
        if self.path not in self._chosen and in_use_through_python(self.path, BUSY_TIMEOUT):
            self._chosen.setdefault(self.path, Library.PYTHON)
        self.library = self._chosen.get(self.path, self.library)

    def _connect_writer(self) -> Connection:
        if not self._files.known:
            refuse_if_log_gone(self.path)
        connection = connect(self.path, self.library, cache_kib=16_000, mode="rw" if self._files.known else "rwc")
        try:
            with translated(self.path) as errors:
                errors.attach(connection)
                schema.migrate(connection, self.path)
                schema.void_leases_of_other_boots(connection)
            self._files.record(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_more(self, *, cache_kib: int) -> Connection:
        self.open()
        self._files.check()  # a new connection would create a new log
        connection = connect(self.path, self.library, cache_kib=cache_kib)
        try:
            self._files.record(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_own(self, own: LiteTransaction) -> Connection:
        with self._own_lock:
            self._own[own] = None
            return self._connect_more(cache_kib=4_000)

    def _remove_own(self, own: LiteTransaction) -> None:
        self._own.pop(own, None)

    @property
    def _guarded(self) -> tuple[GuardedConnection, ...]:
        """All connections except those of `begin`. The last one is the writer's, which checkpoints the log."""
        return self._reader, self._inline, self._writer.main, self._writer.own

    def _read_loop(self) -> None:
        while (call := self._reads.get()) is not None:
            try:
                with self._reader.lock, translated(self.path) as errors:
                    connection = errors.connection(self._reader)
                    self._files.check()
                    connection.execute("BEGIN")
                    try:
                        perform(Transaction(connection, self.clock), [call])
                    finally:
                        connection.execute("COMMIT")
            except Exception as error:  # noqa: BLE001  (becomes the answer of the call)
                call.error = error
                self._check_log()
            answer([call])

    # A log that was deleted.

    def _check_log(self) -> None:
        """After a failure: have the writer's thread open all connections again if the log was deleted."""
        with contextlib.suppress(StoreUnavailable, OSError):
            self._files.check()
        if self._files.lost:
            self._writer.wake()

    def _reopen(self) -> None:
        """Save what only the deleted log contains, and close all connections. The next use opens each again, with a new log.

        All of them, because SQLite shares the index of the log between the connections of a process. Runs on the writer's thread.
        """
        time.sleep(REOPEN_DELAY)
        with contextlib.ExitStack() as locks:
            locks.enter_context(self._own_lock)
            self._roll_back_all(
                StoreUnavailable(f"the log of {self.path!r} was deleted: the transaction was rolled back")
            )
            for guarded in self._guarded:
                locks.enter_context(guarded.lock)
            connections = [connection for guarded in self._guarded if (connection := guarded.opened) is not None]
            if connections and not self._files.save(connections[-1]):
                log.error("%r: the contents of its deleted log cannot be saved yet; will try again", self.path)
                return
            for guarded in self._guarded:
                guarded.close()
            self._files.forget_log()
        log.error(
            "the log of %r was deleted while in use: its contents were saved, and a new log was started", self.path
        )

    def _roll_back_all(self, error: Exception) -> None:
        # The oldest first: it may be the one that is writing, and that the others wait for.
        for own in list(self._own):
            own.roll_back_now(error)

    # Forks.

    @classmethod
    def _before_fork(cls) -> None:
        """Close every connection, once its user is done.

        SQLite keeps in memory which locks the process holds on a file. A child inherits that memory, but not the locks. A
        connection of the child would rely on locks that no process holds. The parent, closing the last connection that it knows of,
        would then delete the log while the child uses it, and acknowledged jobs would be lost.
        """
        cls._registry.acquire()
        for engine in cls._engines.values():
            engine._own_lock.acquire()
            engine._roll_back_all(StoreError("the transaction was rolled back because the process has forked"))
        for guarded in cls._all_guarded():
            guarded.lock.acquire()
            guarded.close()
        for engine in cls._engines.values():
            engine._files.forget_log()

    @classmethod
    def _after_fork_in_parent(cls) -> None:
        """In the parent: release the locks. The next use of a connection opens it again."""
        for guarded in cls._all_guarded():
            guarded.lock.release()
        for engine in cls._engines.values():
            engine._own_lock.release()
        cls._registry.release()

    @classmethod
    def _after_fork_in_child(cls) -> None:
        """In the child: forget the engines, whose callers are in the parent."""
        for engine in cls._engines.values():
            engine.bells.forget_parent()
        cls._engines = {}
        cls._registry = threading.Lock()

    @classmethod
    def _all_guarded(cls) -> list[GuardedConnection]:
        # The writer's last: a thread that opens another connection holds the lock of that one, and may then need the writer's.
        return [guarded for engine in cls._engines.values() for guarded in engine._guarded]


os.register_at_fork(
    before=Engine._before_fork,
    after_in_parent=Engine._after_fork_in_parent,
    after_in_child=Engine._after_fork_in_child,
)
