"""Settles leases: applies the transition of each job and gives up its lease."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import groupby

from tenure.core.job import AttemptEnd, NewJob, State
from tenure.core.lease import Lease
from tenure.core.lifecycle import RELEASE, Finish, Park, Requeue, Transition
from tenure.errors import BlockerNotFound, MissingAttribute, UniqueConflict
from tenure.stores.sqlite import runs
from tenure.stores.sqlite.attempts import EndedAttempt, record_attempts
from tenure.stores.sqlite.ending import close_edges, conclude, drop_unkept
from tenure.stores.sqlite.enqueueing import enqueue
from tenure.stores.sqlite.rows import Facts, dumps, facts
from tenure.stores.sqlite.transaction import Transaction
from tenure.stores.values import (
    LEASE_LOST,
    NOT_FOUND,
    OK,
    AnnouncementKind,
    LeaseStatus,
    Settlement,
    Verdict,
    awaited_inside,
    refused_by,
)

__all__ = ["complete", "lease_status", "settle", "settle_held"]


def settle(tx: Transaction, settlements: Sequence[Settlement]) -> list[Verdict]:
    """Apply each transition under its token. Returns one verdict each.

    Nearly every job simply finishes, hands over to the next step of its run, or is released. Such settlements are written as batches,
    with few statements. Any other is settled by itself: one with a lost lease, a unique key or a waiter, and one whose job is a blocker
    of a child or successor in the same call. Queries decide which settlement is which before anything is written.
    """
    ends = [item for item in settlements if _is_plain(item[1])]
    if len(ends) < len(settlements) and (awaited := awaited_inside(settlements)):
        ends = [item for item in ends if item[0].job.id not in awaited and item[0].job.run_id not in awaited]
    ended, blockers = _end_plain(tx, ends) if ends else ([], [])
    if len(ended) == len(settlements):
        return [OK] * len(settlements)
    done = {id(lease) for lease, _ in ended}
    blocking = {id(lease) for lease, _ in blockers}
    verdicts = [OK] * len(settlements)
    # All others in their order, because each may take a seq at the back of the line.
    rest = [at for at, item in enumerate(settlements) if id(item[0]) not in done]
    for act, group in groupby(rest, lambda at: _group_action(settlements[at], blocking)):
        places = list(group)
        for at, verdict in zip(places, _settle_group(tx, act, [settlements[at] for at in places]), strict=True):
            verdicts[at] = verdict
    return verdicts


_GroupAction = Callable[[Transaction, Sequence[Settlement]], bool]
"""Settles all of these as a batch; or writes nothing and returns False, if one of them has to be settled by itself."""


def _group_action(settlement: Settlement, blocking: Collection[int]) -> _GroupAction | None:
    """The function that settles this together with its neighbours; None if it has to be settled by itself."""
    if id(settlement[0]) in blocking:
        return _end_blockers
    if settlement[1] == RELEASE:
        return _release
    return _hand_over if _hands_over(settlement) else None


def _settle_group(tx: Transaction, act: _GroupAction | None, settlements: Sequence[Settlement]) -> list[Verdict]:
    """Settle neighbours as a batch if that is possible, otherwise one by one."""
    if act is not None and act(tx, settlements):
        return [OK] * len(settlements)
    retried: list[EndedAttempt] = []
    verdicts = [_settle_one(tx, item, retried) for item in settlements]
    record_attempts(tx, retried)
    return verdicts


def _is_plain(transition: Transition) -> bool:
    # Old versions of SQLite, which `sqlite3` may have, cut text that they read from JSON at a NUL.
    return (
        isinstance(transition, Finish)
        and not transition.children
        and transition.successor is None
        and "\0" not in (transition.result or "")
    )


def _hands_over(settlement: Settlement) -> bool:
    """Whether a settlement only hands over to a step that waits for no other job."""
    lease, transition = settlement
    return (
        isinstance(transition, Finish)
        and not transition.children
        and transition.successor is not None
        and not transition.successor.after
        and transition.successor.unique is None
        and lease.job.run_id is not None
        and "\0" not in (transition.result or "")
    )


def _end_plain(tx: Transaction, settlements: Sequence[Settlement]) -> tuple[Sequence[Settlement], Sequence[Settlement]]:
    """Finish the plain ones of these. Returns them, and the ones that `_end_blockers` can finish."""
    items = _items(settlements)
    plain, blockers = _sort_ends(tx, settlements, items)
    if plain:
        tx.run("end_held", items if len(plain) == len(settlements) else _items(plain), tx.wall)
        _record_ends(tx, plain)
    return plain, blockers


def _end_blockers(tx: Transaction, settlements: Sequence[Settlement]) -> bool:
    """Finish all of these, which are blockers of other jobs, and close their edges."""
    items = _items(settlements)
    # Checked again, because settlements since the first check may have changed these jobs.
    _, blockers = _sort_ends(tx, settlements, items)
    if len(blockers) < len(settlements):
        return False
    tx.run("end_held", items, tx.wall)
    _record_ends(tx, settlements)
    close_edges(tx, [(lease.job.id, transition.result) for lease, transition in settlements])  # type: ignore[union-attr]
    return True


def _sort_ends(
    tx: Transaction, settlements: Sequence[Settlement], items: str
) -> tuple[Sequence[Settlement], Sequence[Settlement]]:
    """The plain ends: held under their tokens, and without consequences for others. And those whose only consequence is for dependents."""
    special = dict(tx.array("special_ends", items))
    numbers = {lease.number for lease, _ in settlements}
    if not special and len(numbers) == len(settlements):
        return settlements, []
    plain: list[Settlement] = []
    blockers: list[Settlement] = []
    for at, item in enumerate(settlements):
        blocks_only = special.get(at)
        # If a lease comes twice in one call, the second settlement finds it settled.
        if blocks_only != 0 and item[0].number in numbers:
            numbers.remove(item[0].number)
            (plain if blocks_only is None else blockers).append(item)
    return plain, blockers


def _hand_over(tx: Transaction, settlements: Sequence[Settlement]) -> bool:
    """Make all of these steps succeed, and enqueue their successors."""
    items: list[tuple[object, ...]] = []
    successors: list[NewJob] = []
    known: dict[str, Collection[str]] = {}
    for lease, transition in settlements:
        assert isinstance(transition, Finish)
        assert transition.successor is not None
        assert lease.job.run_id is not None
        items.append((lease.number, lease.token.fence, lease.token.nonce, transition.result, transition.successor.id))
        successors.append(transition.successor)
        if transition.successor.step is not None and transition.successor.step.needs:
            # The attributes that the lease came with still exist, because attributes are never deleted from a run.
            written = () if transition.writes is None else transition.writes.attributes
            known[lease.job.run_id] = {*written, *(lease.job.attributes or ())}
    items_json = dumps(items)
    if (
        not _all_held(tx, "held_steps", settlements, items_json)
        or runs.missing_attribute(tx, successors, known) is not None
    ):
        return False
    tx.run("hand_over_held", items_json, tx.wall)
    for queue, number in Counter(lease.job.queue for lease, _ in settlements).items():
        tx.count(queue, "passed", number)
    _record_ends(tx, settlements)
    enqueue(
        tx,
        successors,
        {job.step.run_id: job.step.needs for job in successors if job.step is not None},
    )
    return True


def _release(tx: Transaction, settlements: Sequence[Settlement]) -> bool:
    """Put all of these jobs back in their places in line."""
    items_json = dumps([(lease.number, lease.token.fence, lease.token.nonce) for lease, _ in settlements])
    if not _all_held(tx, "held_leases", settlements, items_json):
        return False
    tx.run("release_held", items_json)
    for queue, number in Counter(lease.job.queue for lease, _ in settlements).items():
        tx.count_move(queue, "running", "waiting", number)
        tx.wake_workers(queue, number)
    return True


def _all_held(tx: Transaction, query: str, settlements: Sequence[Settlement], items_json: str) -> bool:
    """Whether this query counts all of these, and no lease comes twice."""
    row = tx.one(query, items_json)
    assert row is not None
    return bool(row[0] == len(settlements) == len({lease.number for lease, _ in settlements}))


def _record_ends(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    """Count these ends, record their attempts if need be, and write the attributes that they leave to their runs."""
    ends = Counter((lease.job.queue, transition.state, lease.job.worker) for lease, transition in settlements)  # type: ignore[union-attr]
    for (queue, state, worker), number in ends.items():
        tx.count_move(queue, "running", state, number)
        tx.count_total(state, queue, worker, number)
        _count_processed(tx, state, queue, worker, number)
    ended = [
        _ended_attempt(lease.number, lease.token.fence, transition)  # type: ignore[arg-type]
        for lease, transition in settlements
        if _is_recorded(transition)
    ]
    record_attempts(tx, ended)
    runs.write(tx, [(lease.job.run_id, transition.writes) for lease, transition in settlements])  # type: ignore[union-attr]


def _items(settlements: Sequence[Settlement]) -> str:
    """The JSON array for the queries `special_ends` and `end_held`."""
    return dumps([_item(lease, transition) for lease, transition in settlements])


def _item(lease: Lease, transition: Transition) -> tuple[object, ...]:
    assert isinstance(transition, Finish)
    error = None if transition.error is None else dumps(transition.error)
    return lease.number, lease.token.fence, lease.token.nonce, transition.state, transition.result, error


def settle_held(tx: Transaction, settlement: Settlement) -> Verdict:
    """Apply a transition under its token. `LEASE_LOST` if the token has settled the job before."""
    if lease_status(tx, settlement[0]) is LeaseStatus.SETTLED:
        return LEASE_LOST
    [verdict] = _settle_group(tx, None, [settlement])
    return verdict


def lease_status(tx: Transaction, lease: Lease) -> LeaseStatus:
    """Whether this lease is held, settled or lost, or its job deleted."""
    return _status(lease, facts(tx, [lease.job.id]).get(lease.job.id))


def _status(lease: Lease, job: Facts | None) -> LeaseStatus:
    if job is None:
        return LeaseStatus.GONE
    if (job.fence, job.nonce) != (lease.token.fence, lease.token.nonce):
        return LeaseStatus.LOST
    return LeaseStatus.HELD if job.state == State.RUNNING else LeaseStatus.SETTLED


def _settle_one(tx: Transaction, settlement: Settlement, retried: list[EndedAttempt]) -> Verdict:
    """Apply a transition under its token. If it retries the job, the attempt is added to `retried`, for the caller to record."""
    lease, transition = settlement
    job = facts(tx, [lease.job.id]).get(lease.job.id)
    match _status(lease, job):
        case LeaseStatus.GONE:
            return NOT_FOUND
        case LeaseStatus.LOST:
            return LEASE_LOST
        case LeaseStatus.SETTLED:
            return OK
    assert job is not None
    match transition:
        case Finish():
            return _finish(tx, job, transition)
        case Requeue():
            _requeue(tx, job, transition)
            if transition.counts:
                retried.append((job.number, job.fence, AttemptEnd.RETRIED, transition.error))
        case Park(timeout, on_timeout):
            until = float("inf") if timeout is None else tx.wall + timeout
            tx.run("park_job", job.id, until, on_timeout)
            tx.count_move(job.queue, "running", "blocked")
    return OK


def _finish(tx: Transaction, job: Facts, transition: Finish) -> Verdict:
    def finish() -> None:
        _count_processed(tx, transition.state, job.queue, job.worker)
        if _is_recorded(transition):
            record_attempts(tx, [_ended_attempt(job.number, job.fence, transition)])
        _end_with_children(tx, job, transition, settled=True)

    return _unless_refused(tx, transition, finish)


def complete(tx: Transaction, job: Facts, transition: Finish) -> Verdict:
    """End a job by a success from outside. A holder is notified, and its token becomes invalid."""

    def complete() -> None:
        if job.state == State.RUNNING:
            record_attempts(tx, [(job.number, job.fence, AttemptEnd.COMPLETED, None)])
            tx.notify_holder(job.worker, AnnouncementKind.COMPLETED, job.id)
        _end_with_children(tx, job, transition, settled=False)

    return _unless_refused(tx, transition, complete)


def _is_recorded(transition: Transition) -> bool:
    """Whether the attempt is recorded: if it has not succeeded, or has left output."""
    assert isinstance(transition, Finish)
    return transition.state is not State.SUCCEEDED or bool(transition.output)


def _ended_attempt(job: int, fence: int, transition: Finish) -> EndedAttempt:
    return job, fence, AttemptEnd(transition.state.value), transition.left


def _unless_refused(tx: Transaction, transition: Finish, act: Callable[[], None]) -> Verdict:
    if not transition.children and transition.successor is None:
        act()
        return OK
    try:
        with tx.savepoint():
            act()
    except (UniqueConflict, BlockerNotFound, MissingAttribute) as error:
        return refused_by(error)
    return OK


def _end_with_children(tx: Transaction, job: Facts, transition: Finish, *, settled: bool) -> None:
    """End a job, and enqueue its children and successor. `settled`: whether its holder ends it."""
    new = transition.children if transition.successor is None else (*transition.children, transition.successor)
    successor = None if transition.successor is None or job.run_id is None else transition.successor.id
    by = job.worker if settled else None
    runs.write(tx, [(job.run_id, transition.writes)])
    ended = conclude(
        tx,
        job,
        transition.state,
        result=transition.result,
        error=transition.error,
        by=by,
        settled=settled,
        successor=successor,
    )
    # After the end, because a child may claim the unique key that this has freed. Before the removal, because a child may wait for
    # its parent.
    enqueue(tx, new)
    drop_unkept(tx, ended)


def _count_processed(tx: Transaction, state: State, queue: str, worker: str | None, number: int = 1) -> None:
    # A broken job never ran.
    if state is not State.BROKEN:
        tx.count_total("processed", queue, worker, number)


def _requeue(tx: Transaction, job: Facts, transition: Requeue) -> None:
    run_at = (
        transition.run_at
        if transition.run_at is not None
        else tx.wall + transition.delay
        if transition.delay > 0
        else None
    )
    if run_at is not None and run_at <= tx.wall:
        run_at = None
    tx.run(
        "requeue_job",
        job.id,
        run_at,
        # A seq is taken when the job joins the line: a scheduled job keeps its old one until then.
        None if transition.front or run_at is not None else tx.reserve_seqs(1),
        0 if transition.counts else 1,
        job.misses + 1 if transition.missed else job.misses if transition.front else 0,
        None if transition.error is None else dumps(transition.error),
        tx.wall,
    )
    tx.count_move(job.queue, "running", "waiting" if run_at is None else "scheduled")
    tx.wake_workers(job.queue)
    if transition.counts:
        tx.count_total("processed", job.queue, job.worker)
        tx.count_total("retried", job.queue, job.worker)
