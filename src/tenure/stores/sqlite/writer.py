"""Writes to one SQLite file in one process: pending calls are joined into one transaction.

All pending calls run under one BEGIN IMMEDIATE, each in its own savepoint, and are answered after the COMMIT. So a process has one
connection that writes, and never makes its own page cache stale. Single jobs enqueued by the main thread are the exception: they use
a second connection.

If any call of a transaction is durable (an enqueue, or an operation of an operator), the commit is synced to disk before the answer.
Otherwise syncing is left to the operating system: if a settle is lost in a power cut, the job runs again.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from itertools import groupby
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from tenure.core.clock import Clock
from tenure.errors import OutcomeUnknown, StoreError, StoreUnavailable, TenureError
from tenure.stores.sqlite.calls import Call, answer, join_key, perform
from tenure.stores.sqlite.connection import GuardedConnection, translated
from tenure.stores.sqlite.doorbell import Doorbells
from tenure.stores.sqlite.files import Files, LogGone
from tenure.stores.sqlite.library import BUSY, Connection, code_of
from tenure.stores.sqlite.transaction import Transaction
from tenure.stores.thread import StoreThread

__all__ = ["Writer"]

T = TypeVar("T")

JOIN_LIMIT = 1000
"""Calls in one transaction at most."""

LOG_PAGES = 1000
"""Pages of 4 kB that the log may have before a checkpoint. Overwriting a log from its start is half the work, for the disk, of
extending it; more frequent checkpoints cost more than that saves."""


class Writer:
    """Runs calls on its own thread, or on the thread of a blocking caller if no other thread is writing.

    `connect` and `connect_main` open its two connections. `reopen` is called after the log was deleted: it closes all connections of
    the engine, so that each is opened again.
    """

    def __init__(
        self,
        path: str,
        clock: Clock,
        bells: Doorbells,
        connect: Callable[[], Connection],
        connect_main: Callable[[], Connection],
        files: Files,
        reopen: Callable[[], None],
    ) -> None:
        self._path = path
        self._clock = clock
        self._bells = bells
        self._connect = connect
        self._connect_main = connect_main
        self._files = files
        self._reopen = reopen
        self.own = GuardedConnection(self._connected)
        """The connection that writes. Its lock is held by the thread that is writing."""

        self.main = GuardedConnection(self._connected_on_main, threading.RLock())
        """For single jobs of the main thread, which alone uses it. A signal handler that interrupts the main thread finds no transaction
        open here, and can take the lock, because it is reentrant."""

        self._synced = False
        self._log_pages = 0
        self._pending: deque[Call[Any]] = deque()
        self._writes: SimpleQueue[bool] = SimpleQueue()
        """Wakes the thread. True: look for pending calls. False: end."""

        self._thread: StoreThread | None = None

    def begin(self) -> None:
        """Start the thread, unless it is running."""
        if self._thread is None:
            self._thread = StoreThread(target=self._write_loop, name="tenure-sqlite-writer", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """End the thread after all pending calls."""
        if self._thread is not None:
            self._writes.put(False)
            self._thread.join()

    def add(self, call: Call[Any]) -> None:
        """Queue a call. The thread runs it soon, and answers its caller."""
        self._pending.append(call)
        self._writes.put(True)

    def wake(self) -> None:
        """Wake the thread, because the log may have been deleted."""
        self._writes.put(True)

    def run_now(self, call: Call[T]) -> T:
        """Run a call for a blocking caller; on the calling thread, if no other thread is writing.

        On the main thread this is done only for a `single`: a signal may interrupt the main thread anywhere, and its handler may want
        to write too.
        """
        on_main = threading.current_thread() is threading.main_thread()
        if on_main and not self._pending:
            with self.main.lock:
                if self._run_single(self.main, call):
                    return call.result  # type: ignore[return-value]
        self._pending.append(call)
        if not on_main and self.own.lock.acquire(blocking=False):
            try:
                self._run(self._take_pending())
            finally:
                self.own.lock.release()
        # The call may still be pending: another thread is writing, or more than JOIN_LIMIT calls came before it. The writer's thread
        # does the rest.
        if self._pending or self._log_pages >= LOG_PAGES or self._files.lost:
            self._writes.put(True)
        call.answered.acquire()
        if call.error is not None:
            raise call.error
        return call.result  # type: ignore[return-value]

    # The connections.

    def _connected(self) -> Connection:
        connection = self._connect()
        if isinstance(connection, apsw.Connection):
            connection.set_wal_hook(self._on_commit)
        else:
            connection.execute(
                f"PRAGMA wal_autocheckpoint = {LOG_PAGES}"
            )  # SQLite checkpoints by itself, within a commit
        self._synced = False
        return connection

    def _connected_on_main(self) -> Connection:
        connection = self._connect_main()
        # No Python code must run inside a call of the library here. If the file is locked, the call goes to the writer's thread instead.
        if isinstance(connection, apsw.Connection):
            connection.set_busy_timeout(0)
        for pragma in ("synchronous = FULL", f"wal_autocheckpoint = {LOG_PAGES}"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        return connection

    def _on_commit(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Checkpoint a long log. Runs between transactions, after their callers are answered, so that none has to wait for it."""
        if self._log_pages >= LOG_PAGES:
            self._log_pages = 0
            # If something is wrong, the next transaction fails too and reports it.
            with contextlib.suppress(StoreError), translated(self._path) as errors:
                self._files.check()
                errors.connection(self.own).execute("PRAGMA wal_checkpoint")

    # Writing.

    def _write_loop(self) -> None:
        while self._writes.get():
            while self._pending or self._log_pages >= LOG_PAGES:
                self._reopen_if_lost()
                with self.own.lock:
                    self._run(self._take_pending())
                    self._checkpoint()
            self._reopen_if_lost()

    def _reopen_if_lost(self) -> None:
        if self._files.lost:
            self._reopen()

    def _take_pending(self) -> list[Call[Any]]:
        calls: list[Call[Any]] = []
        try:
            while len(calls) < JOIN_LIMIT:
                calls.append(self._pending.popleft())
        except IndexError:
            pass
        return calls

    def _run(self, calls: list[Call[Any]]) -> None:
        """Run these calls in one transaction. A call that raises is rolled back and gets its error; the others are committed together."""
        if not calls:
            return  # another thread has taken them
        if len(calls) == 1 and self._run_single(self.own, calls[0]):
            answer(calls)
            return
        committing = False
        done: list[Transaction] = []
        connection: Connection | None = None
        try:
            with translated(self._path) as errors:
                connection = errors.connection(self.own)
                self._sync(connection, any(call.durable for call in calls))
                connection.execute("BEGIN IMMEDIATE")
                self._files.check()
                groups = [list(group) for _, group in groupby(calls, key=join_key)]
                if len(groups) == 1:
                    # The only call of a transaction needs no savepoint, which would be two more statements.
                    done.append(perform(Transaction(connection, self._clock), groups[0]))
                else:
                    done += [each for group in groups if (each := self._run_in_savepoint(connection, group))]
                committing = True
                connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  (becomes the answer to every call)
            if committing and isinstance(error, StoreUnavailable):
                error = OutcomeUnknown(f"{self._path!r} may or may not have kept the last changes: {error}")
            if connection is not None:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                error = self._save_log(connection, error)
            for call in calls:
                call.error = call.error or error
        else:
            for transaction in done:
                self._bells.ring(transaction)
        finally:
            answer(calls)

    def _save_log(self, connection: Connection, error: Exception) -> Exception:
        """The error to answer with. If the log was deleted, that is the cause: save its contents, and answer with `LogGone` instead."""
        if not isinstance(error, StoreError):
            return error
        try:
            self._files.check()
        except LogGone as gone:
            self._files.save(connection)
            return error if isinstance(error, OutcomeUnknown) else gone
        except StoreUnavailable:
            pass  # the file itself was deleted
        return error

    def _run_single(self, guarded: GuardedConnection, call: Call[Any]) -> bool:
        """Run a `single` with one call of the library. False if the call is not a `single`, or if that has failed.

        In both cases the caller runs it as an ordinary call, which reports the error if it fails too. The id makes it the same job. Only
        if the file was locked for all of BUSY_TIMEOUT is that the answer at once.
        """
        if call.single is None:
            return False
        try:
            with translated(self._path) as errors:
                connection = errors.connection(guarded)
                self._files.check()
                if guarded is self.own:
                    self._sync(connection, durable=True)
                paused = call.single.store(connection, self._clock.wall())
        except Exception as error:  # noqa: BLE001
            waited = guarded is self.own and code_of(error.__cause__) == BUSY
            call.error = error if waited else None
            return waited
        call.result = call.single.answer
        if not paused:
            self._bells.wake(call.single.queue, 1)
        return True

    def _sync(self, connection: Connection, durable: bool) -> None:
        """Choose whether the next commit is synced to disk, or left to the operating system."""
        if durable is not self._synced:
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._synced = durable

    def _run_in_savepoint(self, connection: Connection, group: list[Call[Any]]) -> Transaction | None:
        """Run one of several calls of a transaction, so that it changes nothing if it raises."""
        transaction = None
        connection.execute("SAVEPOINT call")
        try:
            transaction = perform(Transaction(connection, self._clock), group)
        except TenureError as error:
            connection.execute("ROLLBACK TO call")
            for call in group:
                call.error = error
        connection.execute("RELEASE call")
        return transaction
