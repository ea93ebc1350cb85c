"""Attempts coming to their end."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import groupby

from tenure.core.job import AttemptEnd, NewJob, State
from tenure.core.lease import Lease
from tenure.core.lifecycle import RELEASE, Finish, Park, Requeue, Transition
from tenure.errors import BlockerNotFound, MissingAttribute, TenureError, UniqueConflict
from tenure.stores.sqlite import runs
from tenure.stores.sqlite.attempts import Ended, remember
from tenure.stores.sqlite.ending import close_for_all, conclude, drop_unkept
from tenure.stores.sqlite.enqueueing import enqueue
from tenure.stores.sqlite.rows import Facts, dumps, facts
from tenure.stores.sqlite.transaction import NotPlain, Transaction
from tenure.stores.values import (
    LEASE_LOST,
    NOT_FOUND,
    OK,
    AnnouncementKind,
    LeaseStatus,
    Settlement,
    Verdict,
    awaited_inside,
    refused,
)

__all__ = ["complete", "lease_status", "settle", "settle_held"]


def settle(tx: Transaction, settlements: Sequence[Settlement]) -> list[Verdict]:
    """Apply each step under its token; one verdict each.

    Nearly every job simply finishes, hands over to the next step of its run or is given back: these go together, with few
    statements. One that has anything else about it (a lost lease, a unique key, somebody who waits) goes by itself; so does one
    that a job waits for which comes with another.
    """
    ends = [item for item in settlements if _is_plain(item[1])]
    if len(ends) < len(settlements) and (awaited := awaited_inside(settlements)):
        ends = [item for item in ends if item[0].job.id not in awaited and item[0].job.run_id not in awaited]
    if tx.plainly:
        if ends:
            _end_plainly(tx, ends, alone=len(ends) == len(settlements))
        blocking = set()
    else:
        found = tx.all("held_plainly", dumps([_item(lease, step) for lease, step in ends])) if ends else []
        # Twice the same settle in one call: the second finds it done.
        held = {ends[place][0].number: (*ends[place], blocks) for place, blocks in reversed(found)}
        ends = [(lease, step) for lease, step, blocks in held.values() if not blocks]
        blocking = {id(lease) for lease, _, blocks in held.values() if blocks}
        if ends:
            _end_plainly(tx, ends)
    if len(ends) == len(settlements):
        return [OK] * len(settlements)
    done = {id(lease) for lease, _ in ends}
    verdicts = [OK] * len(settlements)
    # All others in their order, for they draw places in line.
    rest = [at for at, item in enumerate(settlements) if id(item[0]) not in done]
    for act, group in groupby(rest, lambda at: _together(settlements[at], blocking)):
        places = list(group)
        for at, verdict in zip(places, _act_on_all(tx, act, [settlements[at] for at in places]), strict=True):
            verdicts[at] = verdict
    return verdicts


_Act = Callable[[Transaction, Sequence[Settlement]], None]


def _together(settlement: Settlement, blocking: Collection[int]) -> _Act | None:
    """What does this settle together with its neighbours; None if it has to go by itself."""
    if id(settlement[0]) in blocking:
        return _end_blockers
    if settlement[1] == RELEASE:
        return _release
    return _hand_over if _hands_over(settlement) else None


def _act_on_all(tx: Transaction, act: _Act | None, settlements: Sequence[Settlement]) -> list[Verdict]:
    """Settle neighbours together, if they can be; one by one if one of them is found to be in the way."""
    if act is not None and tx.plainly:
        try:
            act(tx, settlements)
        except TenureError:
            raise NotPlain from None
        return [OK] * len(settlements)
    if act is not None and len(settlements) > 1:
        with contextlib.suppress(TenureError, NotPlain), tx.attempt():
            act(tx, settlements)
            return [OK] * len(settlements)
    retried: list[Ended] = []
    verdicts = [_settle_one(tx, item, retried) for item in settlements]
    remember(tx, retried)
    return verdicts


def _is_plain(step: Transition) -> bool:
    # Old versions of SQLite, as Python's may be, cut what they read out of JSON at a NUL.
    return isinstance(step, Finish) and not step.children and step.successor is None and "\0" not in (step.result or "")


def _hands_over(settlement: Settlement) -> bool:
    """Whether a settle does nothing else than to hand over to a step that waits for nobody."""
    lease, step = settlement
    return (
        isinstance(step, Finish)
        and not step.children
        and step.successor is not None
        and not step.successor.after
        and step.successor.unique is None
        and lease.job.run_id is not None
        and "\0" not in (step.result or "")
    )


def _end_plainly(tx: Transaction, settlements: Sequence[Settlement], *, alone: bool = False) -> None:
    """Finish all of these; `NotPlain` if one of them is not held under its token, or has more about it.

    That others wait for one is not too much if these are `alone`, so that whom it lets go comes in line in time.
    """
    items = dumps([_item(lease, step) for lease, step in settlements])
    changed = tx.run("end_held", items, tx.wall, 0)
    if changed < len(settlements):
        if not alone or changed + tx.run("end_held", items, tx.wall, 1) < len(settlements):
            raise NotPlain
        close_for_all(tx, [(lease.job.id, step.result) for lease, step in settlements])  # type: ignore[union-attr]
    _note_ends(tx, settlements)


def _end_blockers(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    """Finish all of these, which others wait for; as `_end_plainly`."""
    items = dumps([_item(lease, step) for lease, step in settlements])
    if tx.run("end_held", items, tx.wall, 1) < len(settlements):
        raise NotPlain
    close_for_all(tx, [(lease.job.id, step.result) for lease, step in settlements])  # type: ignore[union-attr]
    _note_ends(tx, settlements)


def _hand_over(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    """Let all of these steps succeed and their successors come; `NotPlain` as `_end_plainly`."""
    items: list[tuple[object, ...]] = []
    successors: list[NewJob] = []
    known: dict[str, Collection[str]] = {}
    for lease, step in settlements:
        assert isinstance(step, Finish)
        assert step.successor is not None
        assert lease.job.run_id is not None
        items.append((lease.number, lease.token.fence, lease.token.nonce, step.result, step.successor.id))
        successors.append(step.successor)
        if step.successor.step is not None and step.successor.step.needs:
            # What it was given is still there: attributes are only ever added and changed.
            written = () if step.writes is None else step.writes.attributes
            known[lease.job.run_id] = {*written, *(lease.job.attributes or ())}
    if tx.run("hand_over_held", dumps(items), tx.wall) < len(items):
        raise NotPlain
    for queue, number in Counter(lease.job.queue for lease, _ in settlements).items():
        tx.count(queue, "passed", number)
    _note_ends(tx, settlements)
    enqueue(tx, successors, known)


def _release(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    """Put all of these back where they stood; `NotPlain` as `_end_plainly`."""
    items = [(lease.number, lease.token.fence, lease.token.nonce) for lease, _ in settlements]
    if tx.run("release_held", dumps(items)) < len(items):
        raise NotPlain
    for queue, number in Counter(lease.job.queue for lease, _ in settlements).items():
        tx.moved(queue, "running", "waiting", number)
        tx.came_in_line(queue, number)


def _note_ends(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    """Count what has ended, remember the attempts that have left something, and write what runs are left."""
    ends = Counter((lease.job.queue, step.state, lease.job.worker) for lease, step in settlements)  # type: ignore[union-attr]
    for (queue, state, worker), number in ends.items():
        tx.moved(queue, "running", state, number)
        tx.total(state, queue, worker, number)
        _count_processed(tx, state, queue, worker, number)
    remember(tx, [_ended(lease.number, lease.token.fence, step) for lease, step in settlements if _leaves(step)])  # type: ignore[arg-type]
    runs.write(tx, [(lease.job.run_id, step.writes) for lease, step in settlements])  # type: ignore[union-attr]


def _item(lease: Lease, step: Transition) -> tuple[object, ...]:
    assert isinstance(step, Finish)
    error = None if step.error is None else dumps(step.error)
    return lease.number, lease.token.fence, lease.token.nonce, step.state, step.result, error


def settle_held(tx: Transaction, settlement: Settlement) -> Verdict:
    """Apply a step under its token, which must not have settled the job before."""
    if lease_status(tx, settlement[0]) is LeaseStatus.SETTLED:
        return LEASE_LOST
    [verdict] = _act_on_all(tx, None, [settlement])
    return verdict


def lease_status(tx: Transaction, lease: Lease) -> LeaseStatus:
    """What this lease is worth."""
    return _worth(lease, facts(tx, [lease.job.id]).get(lease.job.id))


def _worth(lease: Lease, job: Facts | None) -> LeaseStatus:
    if job is None:
        return LeaseStatus.GONE
    if (job.fence, job.nonce) != (lease.token.fence, lease.token.nonce):
        return LeaseStatus.LOST
    return LeaseStatus.HELD if job.state == State.RUNNING else LeaseStatus.SETTLED


def _settle_one(tx: Transaction, settlement: Settlement, retried: list[Ended]) -> Verdict:
    """Apply a step under its token; if it retries the job, the attempt is left to the caller to remember, with others."""
    lease, step = settlement
    job = facts(tx, [lease.job.id]).get(lease.job.id)
    match _worth(lease, job):
        case LeaseStatus.GONE:
            return NOT_FOUND
        case LeaseStatus.LOST:
            return LEASE_LOST
        case LeaseStatus.SETTLED:
            return OK
    assert job is not None
    match step:
        case Finish():
            return _finish(tx, job, step)
        case Requeue():
            _requeue(tx, job, step)
            if step.counts:
                retried.append((job.number, job.fence, AttemptEnd.RETRIED, step.error))
        case Park(timeout, on_timeout):
            until = float("inf") if timeout is None else tx.wall + timeout
            tx.run("park_job", job.id, until, on_timeout)
            tx.moved(job.queue, "running", "blocked")
    return OK


def _finish(tx: Transaction, job: Facts, step: Finish) -> Verdict:
    def finish() -> None:
        _count_processed(tx, step.state, job.queue, job.worker)
        if _leaves(step):
            remember(tx, [_ended(job.number, job.fence, step)])
        _carry_out(tx, job, step, settled=True)

    return _unless_refused(tx, step, finish)


def complete(tx: Transaction, job: Facts, step: Finish) -> Verdict:
    """End a job by a success that its holder has no part in."""

    def complete() -> None:
        if job.state == State.RUNNING:
            remember(tx, [(job.number, job.fence, AttemptEnd.COMPLETED, None)])
            tx.tell_holder(job.worker, AnnouncementKind.COMPLETED, job.id)
        _carry_out(tx, job, step, settled=False)

    return _unless_refused(tx, step, complete)


def _leaves(step: Transition) -> bool:
    """Whether an end is remembered with the attempt."""
    assert isinstance(step, Finish)
    return step.state is not State.SUCCEEDED or bool(step.output)


def _ended(job: int, fence: int, step: Finish) -> Ended:
    return job, fence, AttemptEnd(step.state.value), step.left


def _unless_refused(tx: Transaction, step: Finish, act: Callable[[], None]) -> Verdict:
    if not step.children and step.successor is None:
        act()
        return OK
    try:
        with tx.attempt():
            act()
    except UniqueConflict as conflict:
        return refused(str(conflict), other=conflict.holder)
    except BlockerNotFound as missing:
        return refused(str(missing), other=missing.blocker)
    except MissingAttribute as missing:
        return refused(str(missing))
    return OK


def _carry_out(tx: Transaction, job: Facts, step: Finish, *, settled: bool) -> None:
    """End a job, with all that comes with its end; by its holder, if it is `settled`."""
    new = step.children if step.successor is None else (*step.children, step.successor)
    successor = None if step.successor is None or job.run_id is None else step.successor.id
    by = job.worker if settled else None
    runs.write(tx, [(job.run_id, step.writes)])
    ended = conclude(
        tx, job, step.state, result=step.result, error=step.error, by=by, settled=settled, successor=successor
    )
    # Between the end and the drop: a child may take the key that has just come free, or wait for its parent.
    enqueue(tx, new)
    drop_unkept(tx, ended)


def _count_processed(tx: Transaction, state: State, queue: str, worker: str | None, number: int = 1) -> None:
    # A broken job never ran.
    if state is not State.BROKEN:
        tx.total("processed", queue, worker, number)


def _requeue(tx: Transaction, job: Facts, step: Requeue) -> None:
    run_at = step.run_at if step.run_at is not None else tx.wall + step.delay if step.delay > 0 else None
    if run_at is not None and run_at <= tx.wall:
        run_at = None
    tx.run(
        "requeue_job",
        job.id,
        run_at,
        # A place is drawn when the job comes in line: one that is to wait for its time keeps the old one until then.
        None if step.front or run_at is not None else tx.seq(1),
        0 if step.counts else 1,
        job.misses + 1 if step.missed else job.misses if step.front else 0,
        None if step.error is None else dumps(step.error),
    )
    tx.moved(job.queue, "running", "waiting" if run_at is None else "scheduled")
    tx.came_in_line(job.queue)
    if step.counts:
        tx.total("processed", job.queue, job.worker)
        tx.total("retried", job.queue, job.worker)
