"""Writing to one SQLite file in one process: calls that are pending together become one transaction.

A call is a function of a transaction. All that are pending are run under one BEGIN IMMEDIATE, each in a savepoint of its own, and answered after
the COMMIT. So a process has one connection that writes, and its page cache is never made stale by itself; but for single jobs of
the main thread, which have one of their own.

The transaction is synced to disk before the answer if any call in it is durable (enqueue, what operators do), and left
to the operating system otherwise: losing a settle in a power cut means that the job runs again.
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
"""Calls that join one transaction at most."""

LOG_PAGES = 1000
"""Pages (of 4 kB) that the log may have before it is folded into the file. To write over a log that begins anew is half the
work, for the disk, of making a longer one; to fold it more often costs more than that gains."""


class Writer:
    """Runs calls on a thread of its own, or on that of a blocking caller who finds nobody writing.

    `connect` and `connect_main` open its two connections; `reopen` closes all of the engine's, to be opened again, after the log
    was deleted.
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
        """Held by whoever is writing."""

        self.main = GuardedConnection(self._connected_on_main, threading.RLock())
        """For single jobs of the main thread, and used by no other: a handler that interrupts it finds no transaction open, and no
        lock that it could not have too."""

        self._synced = False
        self._log_pages = 0
        self._pending: deque[Call[Any]] = deque()
        self._writes: SimpleQueue[bool] = SimpleQueue()
        """True: something is pending. False: the end."""

        self._thread: StoreThread | None = None

    def begin(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            self._thread = StoreThread(target=self._write_loop, name="tenure-sqlite-writer", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """End the thread, once what is pending is done."""
        if self._thread is not None:
            self._writes.put(False)
            self._thread.join()

    def add(self, call: Call[Any]) -> None:
        """Have a call run soon; who waits for it is answered."""
        self._pending.append(call)
        self._writes.put(True)

    def wake(self) -> None:
        """Have the thread look what there is to do: the log may be gone."""
        self._writes.put(True)

    def run_now(self, call: Call[T]) -> T:
        """Run a call of a blocked thread, on that very thread if nobody is writing.

        On the main thread only what is `single`: a signal may interrupt that one anywhere, and its handler may want to write as well.
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
        # Whoever is writing, or many calls that came before, may have left it: the thread sees to the rest.
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
            connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")  # by itself, within a commit
        self._synced = False
        return connection

    def _connected_on_main(self) -> Connection:
        connection = self._connect_main()
        # Nothing of Python's is called by what is done here. One who would have to wait goes the other way.
        if isinstance(connection, apsw.Connection):
            connection.set_busy_timeout(0)
        for pragma in ("synchronous = FULL", f"wal_autocheckpoint = {LOG_PAGES}"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        return connection

    def _on_commit(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Copy a long log into the file. Between transactions, once their callers are answered: none has to wait for it."""
        if self._log_pages >= LOG_PAGES:
            self._log_pages = 0
            # The next transaction meets whatever is wrong, and tells.
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
        """Run these calls in one transaction: one that raises is undone and told, the others are committed together."""
        if not calls:
            return  # another thread was quicker
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
                    # A savepoint for the only call of a transaction, two statements more, would gain nothing.
                    done.append(perform(Transaction(connection, self._clock), groups[0]))
                else:
                    done += [each for group in groups if (each := self._run_in_savepoint(connection, group))]
                committing = True
                connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  (becomes the answer of every call)
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
        """What to answer instead of this error. If the log is gone, that is why; what it held is written into the file first."""
        if not isinstance(error, StoreError):
            return error
        try:
            self._files.check()
        except LogGone as gone:
            self._files.save(connection)
            return error if isinstance(error, OutcomeUnknown) else gone
        except StoreUnavailable:
            pass  # the file itself is gone
        return error

    def _run_single(self, guarded: GuardedConnection, call: Call[Any]) -> bool:
        """Run a call by one call of the library, if it is such a one; False if it is not, or nothing came of it.

        Then it is run the other way, whatever was wrong, which is told there: by its id it is the same job. Only who has waited in
        vain for others to end their transactions is told so at once.
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
        """Have the next commit on disk before it returns, or leave that to the operating system."""
        if durable is not self._synced:
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._synced = durable

    def _run_in_savepoint(self, connection: Connection, group: list[Call[Any]]) -> Transaction | None:
        """Run one of several calls of a transaction, so that it leaves nothing behind if it raises."""
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
