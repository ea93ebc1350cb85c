"""One SQLite file in one process: a writer, a reader beside it, and their connections.

Every store object of the process that means the same file shares one engine, whatever event loop it belongs to, so that concurrent calls
of all of them can be joined into one transaction.
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
from tenure.stores.sqlite.connection import GuardedConnection, connect, translated
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
"""Seconds between finding that the log was deleted and beginning another: for transactions of other processes that had checked before."""

log = logging.getLogger("tenure.store")


class Engine:
    """The connections and threads of one file in this process. `Engine.of(path)` finds the one that exists."""

    _engines: dict[tuple[str, Clock | None], Engine] = {}  # noqa: RUF012  (one registry for the process)
    _chosen: dict[str, Library] = {}  # noqa: RUF012
    """The libraries that files must be used through, in this process and its children."""

    _abandoned: list[Connection] = []  # noqa: RUF012
    """Connections of a library that is not used any more; see `use_library`."""

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
        """Transactions of others that are open, in the order in which they came."""

        self._own_lock = threading.Lock()
        self._reads: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._reading: threading.Thread | None = None

    @classmethod
    def of(cls, path: str, clock: Clock | None = None) -> Engine:
        """The engine of this file, with one user more; give it back with `release`."""
        # A clock of its own (tests move it) makes an engine of its own.
        key = (path, clock)
        with cls._registry:
            engine = cls._engines.get(key)
            if engine is None:
                engine = cls._engines[key] = cls(path, clock or SystemClock())
            engine._users += 1
            return engine

    def release(self) -> None:
        """Give the engine up; the last user's release ends its threads and closes its connections, once their work is done."""
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
        """Use the file through this library only, for as long as the process lives; `InvalidOption` if it is another already."""
        if (chosen := self._chosen.get(self.path, library)) is not library:
            raise InvalidOption(
                f"this process uses {self.path} through {chosen}, and two SQLite libraries in one process lose data: "
                f"bring connections of {chosen}"
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
                    f"add ?library={library} to the URL of the app that is to take connections of {library}"
                )
            self.library = library
            # Not closed, ever: that would drop the locks that the other library holds by now. Nobody uses them any more.
            for guarded in self._guarded:
                if (connection := guarded.take()) is not None:
                    abandon(connection)
                    self._abandoned.append(connection)
            # By the other library none of ours is open: the caller's may be the last, and remove the log when it closes.
            self._files.forget_log()

    # Calls.

    async def write(self, action: Action[T], *, durable: bool) -> T:
        """Run this in a write transaction, joined with whatever else is pending; the answer comes after the commit."""
        return await self._write(Call(action, asyncio.get_running_loop(), durable=durable))

    async def write_batch(self, action: BatchAction, items: Sequence[Any], single: Single | None = None) -> list[Any]:
        """Run this durably on these items; batches of the same action that are pending together become one.

        Only for an action that cannot refuse an item, for the others would be refused with it. `single`: the same by one call of
        the library, for when nothing else is pending.
        """
        call: Call[list[Any]] = Call(action, asyncio.get_running_loop(), durable=True, items=items, single=single)
        return await self._write(call)

    def write_now(self, action: Action[T], *, durable: bool, single: Single | None = None) -> T:
        """As `write`, for a thread without an event loop; the file must be open."""
        return self._writer.run_now(Call(action, None, durable=durable, single=single))

    async def read(self, action: Action[T]) -> T:
        """Run this on a snapshot, beside the writer."""
        call = Call(action, asyncio.get_running_loop(), durable=False)
        await self._open_in_executor()
        self._reads.put(call)
        assert call.future is not None
        return await call.future

    async def begin(self, *, writes: bool, timeout: float | None) -> LiteTransaction:
        """Open a transaction on a connection of its own, which is synced to disk at its commit."""
        await self._open_in_executor()
        own = LiteTransaction(self.path, self._connect_own, self._remove_own, writes=writes, timeout=timeout)
        await own.begin()
        return own

    def read_inline(self, action: Callable[[Connection], T]) -> T:
        """Read right here: for what takes a few microseconds, less than a hop to the reader's thread would."""
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
        """Open the file, making it if need be, bring its layout up to date and start the threads. Blocks."""
        if self.is_open:
            return
        with self._writer.own.lock:
            if not self._files.known and in_use_through_python(self.path):
                self.library = self._chosen.setdefault(self.path, Library.PYTHON)
            try:
                self._writer.own.get()
            except StoreUnavailable as error:
                if code_of(error.__cause__) != BUSY:
                    raise
                raise StoreUnavailable(
                    f"{self.path!r} could not be opened, for a transaction kept it locked: use the app once before you begin one"
                ) from error
            self._writer.begin()
            if self._reading is None:
                self._reading = StoreThread(target=self._read_loop, name="tenure-sqlite-reader", daemon=True)
                self._reading.start()
            self.is_open = True

    def _connect_writer(self) -> Connection:
        if not self._files.known:
            refuse_if_log_gone(self.path)
        connection = connect(self.path, self.library, cache_kib=16_000, mode="rw" if self._files.known else "rwc")
        try:
            with translated(self.path) as errors:
                errors.attach(connection)
                schema.migrate(connection, self.path)
                schema.void_leases_of_other_boots(connection)
            self._files.record()
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_more(self, *, cache_kib: int) -> Connection:
        self.open()
        self._files.check()  # a new connection would make a new log
        connection = connect(self.path, self.library, cache_kib=cache_kib)
        try:
            self._files.record()
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
        """All connections but those for transactions of others. The last is the one that may fold the log into the file."""
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
        """Have all connections opened again, soon, if something has failed because the log is gone."""
        with contextlib.suppress(StoreUnavailable, OSError):
            self._files.check()
        if self._files.lost:
            self._writer.wake()

    def _reopen(self) -> None:
        """Save what only a deleted log has, and close all connections: the next use opens each again, with a new log.

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
                log.error("%r: what its deleted log held cannot be saved yet, it is tried again", self.path)
                return
            for guarded in self._guarded:
                guarded.close()
            self._files.forget_log()
        log.error("the log of %r was deleted while in use: what it held has been saved, and a new one begun", self.path)

    def _roll_back_all(self, error: Exception) -> None:
        # The first is the one that may be writing, and which the others wait for.
        for own in list(self._own):
            own.roll_back_now(error)

    # Forks.

    @classmethod
    def _before_fork(cls) -> None:
        """Close every connection, once its user is done.

        SQLite remembers, in the memory of the process, which locks it holds on a file, and a child inherits that memory
        but not the locks. A connection of the child would then rely on locks that nobody holds, and the parent, closing
        the last connection that it knows of, would remove the log under the child's hands: acknowledged jobs, gone.
        """
        cls._registry.acquire()
        for engine in cls._engines.values():
            engine._own_lock.acquire()
            engine._roll_back_all(StoreError("the transaction was taken back: the process has forked"))
        for guarded in cls._all_guarded():
            guarded.lock.acquire()
            guarded.close()
        for engine in cls._engines.values():
            engine._files.forget_log()

    @classmethod
    def _after_fork_in_parent(cls) -> None:
        """In the parent: go on; who needs a connection next opens it again."""
        for guarded in cls._all_guarded():
            guarded.lock.release()
        for engine in cls._engines.values():
            engine._own_lock.release()
        cls._registry.release()

    @classmethod
    def _after_fork_in_child(cls) -> None:
        """In the child: leave the engines, whose callers are in the parent, and begin anew."""
        for engine in cls._engines.values():
            engine.bells.forget_parent()
        cls._engines = {}
        cls._registry = threading.Lock()

    @classmethod
    def _all_guarded(cls) -> list[GuardedConnection]:
        # The writer's last: who opens one of the others may need it, with the lock of its own in hand.
        return [guarded for engine in cls._engines.values() for guarded in engine._guarded]


os.register_at_fork(
    before=Engine._before_fork,
    after_in_parent=Engine._after_fork_in_parent,
    after_in_child=Engine._after_fork_in_child,
)
