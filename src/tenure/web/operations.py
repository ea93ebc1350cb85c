"""`Operations` acts on all jobs that fit a search: it counts them, then works through them in batches."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from msgspec.structs import replace

from tenure.core.job import JobRecord
from tenure.core.schedule import ScheduleSearch
from tenure.errors import InvalidOption, StoreError
from tenure.jobs.audit import described, note
from tenure.jobs.bulk import delete_without_dependents
from tenure.stores.base import BATCH
from tenure.stores.values import Page, Search, VerdictKind
from tenure.web.arguments import Naming, text_is_shown

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["MOST_COUNTED", "Operation", "Operations", "TooManyOperations", "search_for_text"]

log = logging.getLogger("tenure.web")

T = TypeVar("T")
Status = Literal["counting", "counted", "working", "ended", "stopped", "failed"]

AT_A_TIME = 3
"""Operations that work at a time, at most."""

REMEMBERED = 50
"""Counts, and operations that have ended, that are remembered: the latest ones."""

MOST_COUNTED = 100_000
"""A count ends here: what is more can be acted on too."""

COUNT_LOOK = 500
"""Rows that one call of a count looks at."""

UNASKED = 60.0
"""Seconds after which a count that is not looked at any more is given up."""

KEPT, KEPT_KNOWN, DUTY = 60.0, 2.0, 20
"""Seconds for which a count is used again, and one that needed no walk; at least this many times as long as it took."""

TRIES = 30
"""Times that a batch is tried while the store does not answer, a second apart."""

TEXT_BRIEF = 100_000
"""Bytes of a payload that are read to look for a text; what is longer cannot be found by a text."""


class TooManyOperations(InvalidOption):
    """More operations than work at a time."""


class Operation:
    """One action on all jobs that fit a search. It is counted first, and begins once an operator has said so.

    Every batch is one call of the store, which is atomic: whenever it ends, each job has either been acted on or not touched.
    """

    def __init__(self, action: str, search: Search, filters: Mapping[str, str]) -> None:
        self.id = secrets.token_hex(8)
        self.filters = filters
        """The search as parameters of an address, in which `before` may be a time ago."""

        self.action = action
        self.search = search
        self.status: Status = "counting"
        self.who = ""
        self.since = float("inf")
        """When the count began, by the store's clock. Jobs that came or changed later are left alone."""

        self.looked = 0
        """Rows that the count has looked at."""

        self.found = 0
        """Jobs that fit, as far as they were counted."""

        self.exact = False
        """Whether the count is complete; else there may be more than `found`."""

        self.done = 0
        self.refused = 0
        """Jobs that the store refused to change, or that no longer existed."""

        self.passed = 0
        """Jobs that were left alone because they came or changed after the count began."""

        self.why = ""
        """Why the first job was refused, as a sentence."""

        self.problem = ""
        """Why the operation or the count has failed, or why it waits for the store, as a sentence."""

        self.stopping = False
        self.good_until = 0.0
        """Until when the count is used again; monotonic, like the next three."""

        self.asked_at = time.monotonic()
        self.began_at = 0.0
        self.ended_at: float | None = None

        self._task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.status in {"ended", "stopped", "failed"}

    @property
    def described(self) -> str:
        """The jobs that it is about, as the audit names them."""
        return described(self.search)

    @property
    def seconds(self) -> float:
        """How long it has worked."""
        return (self.ended_at or time.monotonic()) - self.began_at if self.began_at else 0.0

    def fits(self, job: JobRecord, naming: Naming) -> bool:
        """Whether the job that the store found may be acted on: its text is no hidden one, and it is as it was when the count began."""
        if self.search.text is not None and not text_is_shown(job, self.search.text, naming):
            return False
        return self.action != "retry" or job.successor is None

    def unchanged(self, job: JobRecord) -> bool:
        """Whether the job has neither come nor changed since the count began."""
        moments = (job.created_at, job.started_at, job.ended_at, job.ready_at)
        return all(moment is None or moment <= self.since for moment in moments)


class Operations:
    """The operations of a dashboard, in its memory: they end with its process. Belongs to the event loop of the site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._known: dict[str, Operation] = {}
        self._counting = asyncio.Lock()

    def get(self, operation_id: str) -> Operation | None:
        """The operation of this id; None if there is none any more."""
        return self._known.get(operation_id)

    @property
    def started(self) -> list[Operation]:
        """Operations that have begun, the latest first."""
        return [each for each in reversed(self._known.values()) if each.status not in {"counting", "counted"}]

    @property
    def working(self) -> list[Operation]:
        return [each for each in self._known.values() if each.status == "working"]

    # Counting.

    async def count(
        self, action: str, search: Search, filters: Mapping[str, str], known: int | None = None
    ) -> Operation:
        """An operation that is counted or being counted, the same for all who ask for it with these filters.

        `known`: how many jobs fit, if that is known without looking.
        """
        found = self._counted(action, filters)
        if found is None:
            found = Operation(action, search, filters)
            found.since = await self._site.read(self._now())
            self._remember(found)
            if known is not None:
                found.found, found.exact, found.status = known, True, "counted"
                found.good_until = time.monotonic() + KEPT_KNOWN
            else:
                found._task = asyncio.create_task(self._count(found), name="tenure-count")
        found.asked_at = time.monotonic()
        return found

    def _counted(self, action: str, filters: Mapping[str, str]) -> Operation | None:
        now = time.monotonic()
        for each in reversed(self._known.values()):
            if (each.action, each.filters) == (action, filters) and each.status in {"counting", "counted"}:
                return each if each.status == "counting" or now < each.good_until else None
        return None

    def _remember(self, operation: Operation) -> None:
        self._known[operation.id] = operation
        counts = [each for each in self._known.values() if each.status == "counted"]
        ended = [each for each in self._known.values() if each.over]
        for each in (*counts[:-REMEMBERED], *ended[:-REMEMBERED]):
            del self._known[each.id]

    async def _now(self) -> float:
        return (await self._site.store.schedules(ScheduleSearch(limit=0))).now

    async def _count(self, operation: Operation) -> None:
        try:
            async with self._counting:
                await self._walk_counting(operation)
        except StoreError as error:
            operation.problem, operation.status = str(error), "failed"
        except Exception:
            log.exception("a count of jobs has failed")
            operation.problem, operation.status = "an internal error, see the log of the dashboard", "failed"

    async def _walk_counting(self, operation: Operation) -> None:
        cursor: str | None = None
        started = time.monotonic()
        while operation.found < MOST_COUNTED and operation.status == "counting":
            began = time.monotonic()
            if began - operation.asked_at > UNASKED:
                self._known.pop(operation.id, None)
                return
            page = await self._site.read(self._page(operation, cursor, COUNT_LOOK))
            operation.looked += page.searched
            operation.found += sum(
                operation.fits(job, self._site.naming(job.task)) and operation.unchanged(job) for job in page.jobs
            )
            if (cursor := page.cursor) is None:
                operation.exact = True
                break
            await asyncio.sleep(time.monotonic() - began)  # half of the time is for others
        if operation.status == "counting":
            operation.status = "counted"
            ended = time.monotonic()
            operation.good_until = ended + max(KEPT, DUTY * (ended - started))

    async def _page(self, operation: Operation, cursor: str | None, look: int) -> Page:
        search = operation.search
        brief = TEXT_BRIEF if search.text is not None else 0
        return await self._site.store.search(replace(search, limit=BATCH, cursor=cursor, look=look, brief=brief))

    # Working.

    async def start(self, operation: Operation, who: str, by: str = "dashboard") -> None:
        """Begin with an operation that was counted, once. `TooManyOperations` if too many work; nothing if it has begun already.

        It is noted in the audit before it begins, and again when it has ended.
        """
        if operation.status not in {"counting", "counted"}:
            return
        if len(self.working) >= AT_A_TIME:
            raise TooManyOperations(f"{AT_A_TIME} operations are at work: wait for one of them to end, or stop it")
        operation.status, operation.who, operation.began_at = "working", who, time.monotonic()
        try:
            await note(self._site.store, who=who, by=by, what=operation.action, target=operation.described)
        except StoreError:
            operation.status = "counted"
            raise
        operation._task = asyncio.create_task(self._work(operation, by), name="tenure-operation")

    def stop(self, operation: Operation) -> None:
        """Let it end after the batch that it is at."""
        operation.stopping = True

    async def aclose(self) -> None:
        """Stop all operations after their batches, and give up counts."""
        tasks = [each._task for each in self._known.values() if each._task is not None and not each._task.done()]
        for each in self._known.values():
            self.stop(each)
            if each.status == "counting" and each._task is not None:
                each._task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=2.0)
            for task in late:
                task.cancel()

    async def _work(self, operation: Operation, by: str) -> None:
        try:
            await self._walk_working(operation)
        except StoreError as error:
            operation.problem, operation.status = str(error), "failed"
        except Exception:
            log.exception("an operation on jobs has failed")
            operation.problem, operation.status = "an internal error, see the log of the dashboard", "failed"
        operation.ended_at = time.monotonic()
        ended = "" if operation.status == "ended" else f" ({operation.status})"
        with contextlib.suppress(StoreError):
            target = operation.described + ended
            store, count = self._site.store, operation.done
            await note(store, who=operation.who, by=by, what=operation.action, target=target, count=count)

    async def _walk_working(self, operation: Operation) -> None:
        cursor: str | None = None
        while not operation.stopping:
            began = time.monotonic()
            page = await self._persistently(operation, partial(self._page, operation, cursor, 2 * BATCH))
            fitting = [job for job in page.jobs if operation.fits(job, self._site.naming(job.task))]
            ids = [job.id for job in fitting if operation.unchanged(job)]
            operation.passed += len(fitting) - len(ids)
            if ids:
                await self._persistently(operation, partial(self._act, operation, ids))
            if (cursor := page.cursor) is None:
                operation.status = "ended"
                return
            await asyncio.sleep(time.monotonic() - began)  # half of the time is for workers and viewers
        operation.status = "stopped"

    async def _act(self, operation: Operation, ids: list[str]) -> None:
        """Act on these jobs in one atomic call, and count what came of it."""
        store = self._site.store
        if operation.action == "delete":
            deleted = await delete_without_dependents(store, ids, cascade=False)
            operation.done += deleted
            operation.refused += len(ids) - deleted
            if deleted < len(ids):
                operation.why = operation.why or "other jobs wait for it, or it is gone already"
            return
        verdicts = await getattr(store, operation.action)(ids)
        done = sum(verdict.kind is VerdictKind.OK for verdict in verdicts)
        operation.done += done
        operation.refused += len(ids) - done
        if done < len(ids) and not operation.why:
            why = (verdict.reason for verdict in verdicts if verdict.kind is not VerdictKind.OK)
            operation.why = next((each for each in why if each), "it is gone already")

    async def _persistently(self, operation: Operation, call: Callable[[], Awaitable[T]]) -> T:
        """Await the call, again and again while the store does not answer. All calls may be repeated."""
        tries = 0
        while True:
            try:
                answer = await call()
            except StoreError as error:
                tries += 1
                operation.problem = f"{error}: trying again"
                if tries == TRIES or operation.stopping:
                    raise
                await asyncio.sleep(1.0)
            else:
                operation.problem = ""
                return answer


def search_for_text(search: Search) -> Search:
    """The search, such that what the store says of its work depends on no hidden value, if it looks for a text.

    It then looks at a fixed number of rows, however many of them the store finds the text in.
    """
    if search.text is None:
        return search
    return replace(search, limit=max(search.limit, 200), look=max(search.limit, 200), brief=TEXT_BRIEF)
