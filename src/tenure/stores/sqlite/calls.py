"""Calls on their way through a transaction, and back to whoever waits for the answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from tenure.stores.sqlite.single import Single
from tenure.stores.sqlite.transaction import Transaction

__all__ = ["Action", "BatchAction", "Call", "answer", "join_key", "perform"]

T = TypeVar("T")

Action = Callable[[Transaction], T]
BatchAction = Callable[[Transaction, Sequence[Any]], list[Any]]


class Call(Generic[T]):
    """Something to do in a transaction, and who waits for its answer: a future of an event loop, or a blocked thread.

    A call may be a batch of items, which can be joined with other batches of the same action: it is then answered with its
    share of the results. One that is a single plain job can be done by one call of the library, if it is alone.
    """

    __slots__ = ("action", "answered", "durable", "error", "future", "items", "loop", "result", "single")

    def __init__(
        self,
        action: Action[T] | BatchAction,
        loop: asyncio.AbstractEventLoop | None,
        *,
        durable: bool,
        items: Sequence[Any] | None = None,
        single: Single | None = None,
    ) -> None:
        self.action = action
        self.durable = durable
        self.items = items
        self.single = single
        self.loop = loop
        self.future: asyncio.Future[T] | None = None if loop is None else loop.create_future()
        self.answered = threading.Lock()
        """Held until it is answered, for a thread to wait on."""

        self.result: T | None = None
        self.error: BaseException | None = None
        self.answered.acquire()


def join_key(call: Call[Any]) -> object:
    """What neighbours must share to become one: the action of a batch; any other call stands alone."""
    return call if call.items is None else call.action


def perform(transaction: Transaction, group: list[Call[Any]]) -> Transaction:
    """Run a call, or batches of one action as one batch, and keep each its result."""
    first = group[0]
    if first.items is None:
        first.result = first.action(transaction)  # type: ignore[call-arg]
    else:
        results = iter(first.action(transaction, [item for call in group for item in call.items]))  # type: ignore[call-arg, union-attr]
        for call in group:
            call.result = list(islice(results, len(call.items)))  # type: ignore[arg-type]
    transaction.flush()
    return transaction


def answer(calls: list[Call[Any]]) -> None:
    """Hand the results to those who wait, with one hop for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Call[Any]]] = {}
    for call in calls:
        if call.loop is None:
            call.answered.release()
        else:
            by_loop.setdefault(call.loop, []).append(call)
    for loop, answered in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, answered)
        except RuntimeError:
            continue  # the loop is closed: nobody waits any more


def _resolve(calls: list[Call[Any]]) -> None:
    for call in calls:
        if call.future is None or call.future.done():
            continue  # whoever waited was cancelled
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.result)
