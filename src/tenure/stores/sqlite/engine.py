"""One SQLite file in one process: a writer that joins concurrent calls into one transaction, and a reader beside it.

Every store object of the process that means the same file shares one engine, whatever event loop it belongs to, so that
the process holds one write connection and its page cache is never made stale by itself. Calls are functions of a
transaction; the writer runs all that are pending under one BEGIN IMMEDIATE, each in a savepoint of its own, and answers
them after the COMMIT.

The transaction is synced to disk before the answer if any call in it is durable (enqueue, what operators do), and left
to the operating system otherwise: losing a settle in a power cut means that the job runs again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from tenure.clock import Clock, SystemClock
from tenure.errors import InvalidOption, OutcomeUnknown, StoreError, StoreUnavailable, TenureError
from tenure.stores.sqlite import schema
from tenure.stores.sqlite.calls import Action, BatchAction, Call, answer, joinable, perform
from tenure.stores.sqlite.connection import Guarded, connect, translated
from tenure.stores.sqlite.doorbell import Doorbells
from tenure.stores.sqlite.library import BUSY, Connection, Library, code_of, in_use_through_python, leave
from tenure.stores.sqlite.own import LiteTransaction
from tenure.stores.sqlite.single import Single
from tenure.stores.sqlite.transaction import NotPlain, Transaction

__all__ = ["Engine"]

T = TypeVar("T")

JOIN_LIMIT = 1000
"""Calls that join one transaction at most."""

LOG_PAGES = 1000
"""Pages (of 4 kB) that the log may have before it is folded into the file. To write over a log that begins anew is half the
work, for the disk, of making a longer one; to fold it more often costs more than that gains."""


class Engine:
    """The connections and threads of one file in this process. `Engine.of(path)` finds the one that exists."""

    _engines: dict[tuple[str, Clock | None], Engine] = {}  # noqa: RUF012  (one registry for the process)
    _chosen: dict[str, Library] = {}  # noqa: RUF012
    """The libraries that files must be used through, in this process and its children."""

    _left: list[Connection] = []  # noqa: RUF012
    """Connections of a library that is not used any more; see `choose`."""

    _registry = threading.Lock()

    def __init__(self, path: str, clock: Clock) -> None:
        self.path = path
        self.clock = clock
        self.library = self._chosen.get(path, Library.APSW)
        self.bells = Doorbells(path)
        self._ringing = threading.RLock()  # a signal handler may ring as well
        self._users = 0
        self._inode: tuple[int, int] | None = None
        self._synced = False
        self._log_pages = 0
        self._opened = False
        self._writer = Guarded(self._connect_writer)
        self._main = Guarded(self._connect_main, threading.RLock())
        """For single jobs of the main thread, and used by no other: a handler that interrupts it finds no transaction open, and no
        lock that it could not have too."""

        self._reader = Guarded(lambda: self._connect_beside(cache_kib=4_000))
        self._watch = Guarded(lambda: self._connect_beside(cache_kib=200))
        self._own: dict[LiteTransaction, None] = {}
        """Transactions of others that are open, in the order in which they came."""

        self._own_lock = threading.Lock()
        self._pending: deque[Call[Any]] = deque()
        self._writes: SimpleQueue[bool] = SimpleQueue()
        """True: something is pending. False: the end."""

        self._reads: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

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
        self._end_all(StoreUnavailable(f"the store {self.path!r} has been closed"))
        self._writes.put(False)
        self._reads.put(None)
        for thread in self._threads:
            thread.join()
        # The writer's connection last: it is the one that may fold the log into the file.
        for guarded in (self._watch, self._reader, self._main, self._writer):
            with guarded.lock:
                guarded.close()
        self.bells.close()

    def choose(self, library: Library) -> None:
        """Use the file through this library only, for as long as the process lives; `InvalidOption` if it is another already."""
        if (chosen := self._chosen.get(self.path, library)) is not library:
            raise InvalidOption(
                f"this process uses {self.path} through {chosen}, and two SQLite libraries in one process lose data: "
                f"bring connections of {chosen}"
            )
        if self.library is not library:
            self._move(library)
        self._chosen[self.path] = library

    def _move(self, library: Library) -> None:
        with self._own_lock, self._reader.lock, self._watch.lock, self._main.lock, self._writer.lock:
            if self._own:
                raise InvalidOption(
                    f"a transaction is open on {self.path} through {self.library}: "
                    f"add ?library={library} to the URL of the app that is to take connections of {library}"
                )
            self.library = library
            # Not closed, ever: that would drop the locks that the other library holds by now. Nobody uses them any more.
            for guarded in (self._reader, self._watch, self._main, self._writer):
                if (connection := guarded.take()) is not None:
                    leave(connection)
                    self._left.append(connection)

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
        """As `write`, for a thread without an event loop: on this very thread if nobody is writing.

        On the main thread only what is `single`: a signal may interrupt that one anywhere, and its handler may want to write as well.
        """
        self.open()
        call = Call(action, None, durable=durable, single=single)
        on_main = threading.current_thread() is threading.main_thread()
        if on_main and not self._pending:
            with self._main.lock:
                if self._run_single(self._main, call):
                    return call.result  # type: ignore[return-value]
        self._pending.append(call)
        if not on_main and self._writer.lock.acquire(blocking=False):
            try:
                self._run(self._gather())
            finally:
                self._writer.lock.release()
        # Whoever is writing, or many calls that came before, may have left it: the writer's thread sees to the rest.
        if self._pending or self._log_pages >= LOG_PAGES:
            self._writes.put(True)
        call.ended.acquire()
        if call.error is not None:
            raise call.error
        return call.result  # type: ignore[return-value]

    async def read(self, action: Action[T]) -> T:
        """Run this on a snapshot, beside the writer."""
        call = Call(action, asyncio.get_running_loop(), durable=False)
        await self._open_beside_the_loop()
        self._reads.put(call)
        assert call.future is not None
        return await call.future

    async def begin(self, *, writes: bool, timeout: float | None) -> LiteTransaction:
        """Open a transaction on a connection of its own, which is synced to disk at its commit."""
        await self._open_beside_the_loop()
        own = LiteTransaction(self.path, self._connect_own, self._forget, writes=writes, timeout=timeout)
        await own.begin()
        return own

    def ring(self, transaction: Transaction) -> None:
        """Wake and tell whoever is to hear of a transaction that has been committed; on any thread."""
        with self._ringing:
            for queue, number in transaction.work.items():
                self.bells.wake(queue, number)
            self.bells.tell(transaction.signals)

    def look(self, action: Callable[[Connection], T]) -> T:
        """Read right here: for what takes a few microseconds, less than a hop to the reader's thread would."""
        with self._watch.lock, translated(self.path) as errors:
            return action(errors.connection(self._watch))

    async def _write(self, call: Call[T]) -> T:
        await self._open_beside_the_loop()
        self._pending.append(call)
        self._writes.put(True)
        assert call.future is not None
        return await call.future

    async def _open_beside_the_loop(self) -> None:
        if not self._opened:
            await asyncio.get_running_loop().run_in_executor(None, self.open)

    # Opening.

    def open(self) -> None:
        """Open the file, making it if need be, bring its layout up to date and start the threads. Blocks."""
        if self._opened:
            return
        with self._writer.lock:
            if self._inode is None and in_use_through_python(self.path):
                self.library = self._chosen.setdefault(self.path, Library.PYTHON)
            try:
                self._writer.get()
            except StoreUnavailable as error:
                if code_of(error.__cause__) != BUSY:
                    raise
                raise StoreUnavailable(
                    f"{self.path!r} could not be opened, for a transaction kept it locked: use the app once before you begin one"
                ) from error
            if not self._threads:
                self._threads = [
                    threading.Thread(target=self._write_loop, name="tenure-sqlite-writer", daemon=True),
                    threading.Thread(target=self._read_loop, name="tenure-sqlite-reader", daemon=True),
                ]
                for thread in self._threads:
                    thread.start()
            self._opened = True

    def _connect_writer(self) -> Connection:
        connection = connect(self.path, self.library, cache_kib=16_000, mode="rwc" if self._inode is None else "rw")
        try:
            with translated(self.path) as errors:
                errors.watch(connection)
                schema.migrate(connection, self.path)
                schema.void_leases_of_other_boots(connection)
        except BaseException:
            connection.close()
            raise
        self._watch_log(connection)
        self._synced = False
        self._inode = self._inode or self._found_inode()
        return connection

    def _connect_main(self) -> Connection:
        connection = self._connect_beside(cache_kib=1_000)
        # Nothing of Python's is called by what is done here. One who would have to wait goes the other way.
        if isinstance(connection, apsw.Connection):
            connection.set_busy_timeout(0)
        for pragma in ("synchronous = FULL", f"wal_autocheckpoint = {LOG_PAGES}"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        return connection

    def _connect_beside(self, *, cache_kib: int) -> Connection:
        self.open()
        return connect(self.path, self.library, cache_kib=cache_kib)

    def _connect_own(self, own: LiteTransaction) -> Connection:
        with self._own_lock:
            self._own[own] = None
            return self._connect_beside(cache_kib=4_000)

    def _forget(self, own: LiteTransaction) -> None:
        self._own.pop(own, None)

    # The threads.

    def _write_loop(self) -> None:
        while self._writes.get():
            while self._pending or self._log_pages >= LOG_PAGES:
                with self._writer.lock:
                    self._run(self._gather())
                    self._fold_log()

    def _watch_log(self, connection: Connection) -> None:
        if isinstance(connection, apsw.Connection):
            connection.set_wal_hook(self._logged)
        else:
            connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")  # by itself, within a commit

    def _logged(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _fold_log(self) -> None:
        """Copy a long log into the file. Between transactions, once their callers are answered: none has to wait for it."""
        if self._log_pages >= LOG_PAGES:
            self._log_pages = 0
            # The next transaction meets whatever is wrong, and tells.
            with contextlib.suppress(StoreError), translated(self.path) as errors:
                errors.connection(self._writer).execute("PRAGMA wal_checkpoint")

    def _gather(self) -> list[Call[Any]]:
        calls: list[Call[Any]] = []
        try:
            while len(calls) < JOIN_LIMIT:
                calls.append(self._pending.popleft())
        except IndexError:
            pass
        return calls

    def _run(self, calls: list[Call[Any]]) -> None:
        """Run these calls in one transaction: one that raises is undone and told, the others are committed together."""
        if not calls:
            return  # another thread was quicker
        if len(calls) == 1 and self._run_single(self._writer, calls[0]):
            answer(calls)
            return
        committing = False
        done: list[Transaction] = []
        connection: Connection | None = None
        try:
            with translated(self.path) as errors:
                connection = errors.connection(self._writer)
                self._check_file()
                self._sync(connection, any(call.durable for call in calls))
                connection.execute("BEGIN IMMEDIATE")
                groups = [list(group) for _, group in groupby(calls, key=joinable)]
                if len(groups) == 1:
                    done.append(self._run_alone(connection, groups[0]))
                else:
                    done += [each for group in groups if (each := self._run_beside(connection, group))]
                committing = True
                connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  (becomes the answer of every call)
            if committing and isinstance(error, StoreUnavailable):
                error = OutcomeUnknown(f"{self.path!r} may or may not have kept the last changes: {error}")
            for call in calls:
                call.error = call.error or error
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
        else:
            for transaction in done:
                self.ring(transaction)
        finally:
            answer(calls)

    def _run_single(self, guarded: Guarded, call: Call[Any]) -> bool:
        """Run a call by one call of the library, if it is such a one; False if it is not, or nothing came of it.

        Then it is run the other way, whatever was wrong, which is told there. By its id it is the same job.
        """
        if call.single is None or self.library is not Library.APSW:
            return False
        try:
            connection = guarded.get()
            self._check_file()
            if guarded is self._writer:
                self._sync(connection, durable=True)
            paused = call.single.store(connection, self.clock.wall())
        except Exception:  # noqa: BLE001
            return False
        call.result = call.single.answer
        if not paused:
            with self._ringing:
                self.bells.wake(call.single.queue, 1)
        return True

    def _sync(self, connection: Connection, durable: bool) -> None:
        """Have the next commit on disk before it returns, or leave that to the operating system."""
        if durable is not self._synced:
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._synced = durable

    def _run_alone(self, connection: Connection, group: list[Call[Any]]) -> Transaction:
        """Run the only call of a transaction: a savepoint, two statements more, would gain nothing."""
        try:
            return perform(Transaction(connection, self.clock), group)
        except NotPlain:
            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            return perform(Transaction(connection, self.clock, plainly=False), group)

    def _run_beside(self, connection: Connection, group: list[Call[Any]]) -> Transaction | None:
        """Run one of several calls of a transaction, so that it leaves nothing behind if it raises."""
        transaction = None
        connection.execute("SAVEPOINT call")
        try:
            try:
                transaction = perform(Transaction(connection, self.clock), group)
            except NotPlain:
                connection.execute("ROLLBACK TO call")
                transaction = perform(Transaction(connection, self.clock, plainly=False), group)
        except TenureError as error:
            connection.execute("ROLLBACK TO call")
            for call in group:
                call.error = error
        connection.execute("RELEASE call")
        return transaction

    def _read_loop(self) -> None:
        while (call := self._reads.get()) is not None:
            try:
                with self._reader.lock, translated(self.path) as errors:
                    connection = errors.connection(self._reader)
                    connection.execute("BEGIN")
                    try:
                        perform(Transaction(connection, self.clock), [call])
                    finally:
                        connection.execute("COMMIT")
            except Exception as error:  # noqa: BLE001  (becomes the answer of the call)
                call.error = error
            answer([call])

    def _check_file(self) -> None:
        # A deleted or replaced file still takes our writes, and nobody would ever see them.
        if self._found_inode() != self._inode:
            raise StoreUnavailable(
                f"{self.path!r} was deleted or replaced while in use: put it back, or restart to begin anew"
            )

    def _found_inode(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _end_all(self, error: Exception) -> None:
        # The first is the one that may be writing, and which the others wait for.
        for own in list(self._own):
            own.end(error)

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
            engine._own_lock.acquire()  # noqa: SLF001
            engine._end_all(StoreError("the transaction was taken back: the process has forked"))  # noqa: SLF001
        for guarded in cls._all_guarded():
            guarded.lock.acquire()
            guarded.close()

    @classmethod
    def _after_fork(cls) -> None:
        """In the parent: go on; who needs a connection next opens it again."""
        for guarded in cls._all_guarded():
            guarded.lock.release()
        for engine in cls._engines.values():
            engine._own_lock.release()  # noqa: SLF001
        cls._registry.release()

    @classmethod
    def _forget_all(cls) -> None:
        """In the child: leave the engines, whose callers are in the parent, and begin anew."""
        for engine in cls._engines.values():
            engine.bells.forget()
        cls._engines = {}
        cls._registry = threading.Lock()

    @classmethod
    def _all_guarded(cls) -> list[Guarded]:
        # The writer's after the others: who opens one of those may need it, with the lock of its own in hand.
        engines = cls._engines.values()
        return [engine._reader for engine in engines] + [  # noqa: SLF001
            guarded
            for engine in engines
            for guarded in (engine._watch, engine._main, engine._writer)  # noqa: SLF001
        ]


os.register_at_fork(
    before=Engine._before_fork,  # noqa: SLF001
    after_in_parent=Engine._after_fork,  # noqa: SLF001
    after_in_child=Engine._forget_all,  # noqa: SLF001
)
