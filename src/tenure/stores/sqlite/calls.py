"""Operations waiting to be run in a transaction, and how their callers get the answers."""

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
    """An action to run in a transaction, and the caller that waits for its answer: an event loop's future, or a blocked thread.

    A call with `items` is a batch. It can be joined with other batches of the same action, and is then answered with its share of
    the results. A call with `single` enqueues one plain job, which takes one call of the library if no other call is pending.
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
        """Held until the call is answered. A blocked thread waits for it."""

        self.result: T | None = None
        self.error: BaseException | None = None
        self.answered.acquire()


def join_key(call: Call[Any]) -> object:
    """Neighbouring calls with equal keys are joined: batches of the same action. Any other call has a unique key."""
    return call if call.items is None else call.action


def perform(transaction: Transaction, group: list[Call[Any]]) -> Transaction:
    """Run one call, or several batches of one action as one batch, and store each call's result in it."""
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
    """Hand the results to the waiting callers, with one hop for each event loop."""
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
            continue  # the loop is closed, and its callers with it


def _resolve(calls: list[Call[Any]]) -> None:
    for call in calls:
        if call.future is None or call.future.done():
            continue  # the caller was cancelled
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.result)
