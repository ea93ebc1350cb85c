"""Runs async code for blocking callers, and keeps one object per event loop.

Tenure is asynchronous inside. Blocking code reaches it through one private event loop, on a thread that the first such call
starts; each blocking method runs its async twin there. A store belongs to one loop, so an app has one store for the private
loop and one for every other loop that its async methods are called on.

After a fork the child has neither the thread nor a right to the connections. It forgets both without closing them, because
the parent still uses them, and creates its own when it needs them.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from tenure.core.after_fork import abandon, call_after_fork, forget_after_fork
from tenure.errors import StoreError, TenureError, UseAsync
from tenure.stores.thread import StoreThread

__all__ = ["PerLoop", "blocking", "loop_factory", "private_loop", "refuse_on_loop", "run", "stop"]

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class Closable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


def blocking(method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[S, P], T]:
    """The blocking twin of an async method whose name begins with `a`."""
    name = method.__name__.removeprefix("a")

    @functools.wraps(method)
    def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        refuse_on_loop(name)
        return run(method(self, *args, **kwargs))

    twin.__name__ = name
    twin.__qualname__ = method.__qualname__.removesuffix(method.__name__) + name
    return twin


def refuse_on_loop(method: str, instead: str | None = None) -> None:
    """Raise `UseAsync` on a thread whose event loop is running, because waiting here would stop that loop.

    `StoreError` on a thread of a store, where a finalizer would wait for itself.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if isinstance(threading.current_thread(), StoreThread):
            raise StoreError(
                f"{method}() was called by a finalizer, on the thread that it would wait for: call it before the object is dropped"
            ) from None
        return
    raise UseAsync(method, instead)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the private loop, with the context variables of this thread, and wait for it."""
    try:
        loop = private_loop()
    except BaseException:
        coroutine.close()  # or Python warns that it was never awaited
        raise
    # A bare lock: a concurrent.futures.Future would cost a condition and two more wake-ups for every enqueue.
    ended = threading.Lock()
    ended.acquire()
    task: asyncio.Task[T]

    def start() -> None:
        nonlocal task
        task = loop.create_task(coroutine)
        task.add_done_callback(lambda _: ended.release())

    def cancel() -> None:
        task.cancel()

    loop.call_soon_threadsafe(start)
    try:
        ended.acquire()
    except BaseException:  # KeyboardInterrupt, most likely: the answer is no longer needed
        loop.call_soon_threadsafe(cancel)
        raise
    return task.result()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of uvloop's event loop if it is installed (the extra `fast`), else None."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


_Entries = dict[asyncio.AbstractEventLoop, tuple[C, AsyncGenerator[None, None]]]
"""The object of each loop, with the generator whose end closes it."""


class PerLoop(Generic[C]):
    """One object per event loop, created on first use. It is closed with its loop, or when this `PerLoop` is collected."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._begin()
        forget_after_fork(self)

    def _begin(self) -> None:
        self._entries: _Entries[C] = {}
        # The finalizer also keeps the objects from the garbage collector. That runs on any thread, where the finalizers of open
        # connections would reach into a loop of another thread, which uvloop does not survive.
        self._finalizer = weakref.finalize(self, _close_all, self._entries)
        self._finalizer.atexit = False

    def here(self) -> C:
        """The object of the running loop."""
        loop = asyncio.get_running_loop()
        entry = self._entries.get(loop)
        return entry[0] if entry is not None else self._open(loop)

    @property
    def private(self) -> C | None:
        """The object of the private loop; None if there is none yet."""
        entry = None if _private is None else self._entries.get(_private.loop)
        return None if entry is None else entry[0]

    async def close(self) -> None:
        """Close the objects of the running loop and of the private loop, if there are any. `here` creates new ones."""
        if _private is not None and _private.loop in self._entries and _private.loop is not asyncio.get_running_loop():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.close(), _private.loop))
        entry = self._entries.get(asyncio.get_running_loop())
        if entry is not None:
            await entry[1].aclose()

    def forget(self) -> None:
        """Drop all objects without closing them, and keep them from being closed when they are collected."""
        abandon(self._entries)
        self._finalizer.detach()
        self._begin()

    def _open(self, loop: asyncio.AbstractEventLoop) -> C:
        for other in [other for other in self._entries if other.is_closed()]:
            del self._entries[other]
        made = self._make()
        lifetime = _lifetime(self._entries, loop, made)
        self._entries[loop] = made, lifetime
        # An event loop has no callback for its end, but asyncio.run closes the async generators that were started on it while
        # it still runs. This generator is started, by hand, for the sake of its end.
        with contextlib.suppress(StopIteration):
            lifetime.__anext__().__await__().__next__()
        return made


async def _lifetime(entries: _Entries[C], loop: asyncio.AbstractEventLoop, made: C) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        entries.pop(loop, None)
        # At the exit of the process there is no executor and no new thread to close with: the process ends with it open.
        with contextlib.suppress(RuntimeError) if _exiting else contextlib.nullcontext():
            await made.close()


def _close_all(entries: _Entries[Any]) -> None:
    """Close all of these objects, each on its own loop; may be called on any thread."""
    for loop, (_, lifetime) in entries.copy().items():
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_close_soon, loop, lifetime)


def _close_soon(loop: asyncio.AbstractEventLoop, lifetime: AsyncGenerator[None, None]) -> None:
    task = loop.create_task(_closed(lifetime))
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _closed(lifetime: AsyncGenerator[None, None]) -> None:
    # An error says only that the connection was gone already.
    with contextlib.suppress(TenureError):
        await lifetime.aclose()


class _Threads(ThreadPoolExecutor):
    """Runs each call on a new daemon thread. Unlike a pool, it works after the main thread has ended.

    Its base class must be imported before then, or Python refuses: hence the import at the top, though uvloop imports it
    too.
    """

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def call() -> None:
            try:
                future.set_result(function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
                future.set_exception(error)

        threading.Thread(target=call, name="tenure-call", daemon=True).start()
        return future


class _LoopThread:
    """An event loop on a daemon thread."""

    def __init__(self) -> None:
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="tenure", daemon=True)
        self._thread.start()
        started.result()

    def stop(self) -> None:
        """Close what belongs to the loop, and end it."""
        self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(5)

    def _run(self, started: Future[None]) -> None:
        try:
            loop = (loop_factory() or asyncio.new_event_loop)()
            loop.set_default_executor(_Threads())
        except BaseException as error:  # noqa: BLE001 - the caller that waits for the start raises it
            started.set_exception(error)
            return
        # Not asyncio.run: it would end the executor with a new thread, which Python refuses at the exit of the process.
        loop.run_until_complete(self._serve(started))

    async def _serve(self, started: Future[None]) -> None:
        self.loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        started.set_result(None)
        await self._stopping.wait()
        # As asyncio.run does: an async generator can only be closed once no task is inside of it.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self.loop.shutdown_asyncgens()


_private: _LoopThread | None = None
_exiting = False
_start_lock = threading.RLock()
_closing: set[asyncio.Task[None]] = set()


def private_loop() -> asyncio.AbstractEventLoop:
    """The event loop of blocking calls. The first call starts it."""
    if _private is None:
        with _start_lock:
            return (_private or _adopted(_LoopThread())).loop
    return _private.loop


def _adopted(made: _LoopThread) -> _LoopThread:
    """The loop to use from now on: this one, unless a signal handler that interrupted its start has created another meanwhile."""
    global _private  # noqa: PLW0603 - one per process
    if _private is None:
        _private = made
    else:
        made.stop()
    return _private


@atexit.register
def stop() -> None:
    """Close what belongs to the private loop, and end it, if there is one. Only at the end of the process."""
    global _exiting, _private  # noqa: PLW0603 - one per process
    _exiting = True
    private, _private = _private, None  # a later call gets a new loop, not one that has ended
    if private is not None:
        private.stop()


def _forget_private_loop() -> None:
    global _private, _start_lock  # noqa: PLW0603 - one per process
    abandon(_private)
    _private = None
    _start_lock = threading.RLock()  # another thread of the parent may have held it


call_after_fork(_forget_private_loop)
