"""Whether a history can be true: I1 to I9, I13 and I14, after every fault is healed and every queue drained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from .handing_over import handed_over
from .history import Act, History, Lease, Settle, Story, Violation
from .order import in_order

__all__ = ["check"]


def check(history: History) -> list[Violation]:
    """Find what contradicts I1 to I9, I13 and I14, after every fault is healed and every queue drained."""
    story = Story(history)
    return [
        violation
        for look in (
            _at_least_once,
            _no_phantom,
            _tokens,
            _one_lease,
            _stale_refused,
            _one_final,
            _attempts,
            in_order,
            handed_over,
            _one_holder,
        )
        for violation in look(story)
    ]


def _at_least_once(story: Story) -> Iterator[Violation]:
    started = {start.id for start in story.starts}
    deleted = {job for job, acts in story.acts.items() if any(act.operation == "delete" for act in acts)}
    for job, enqueues in story.enqueues.items():
        if job in deleted or not any(enqueue.call.outcome == "ok" for enqueue in enqueues):
            continue
        record = story.ended.get(job)
        if record is None:
            yield Violation("I1", job, "its enqueue was acknowledged and it is gone")
        elif record.state not in {"succeeded", "failed", "cancelled", "broken"}:
            yield Violation("I1", job, f"its enqueue was acknowledged and it is still {record.state}")
        elif record.state == "failed" and record.fence == 0 and any(enqueue.item.after for enqueue in enqueues):
            continue  # with one that it waited for, before anybody held it
        elif record.state in {"succeeded", "failed"} and job not in started and not story.of(job, "complete"):
            yield Violation("I1", job, f"it {record.state} and its function never started")


def _no_phantom(story: Story) -> Iterator[Violation]:
    for job, times in story.listed.items():
        if times > 1:
            yield Violation("I2", job, f"it is there {times} times")
        if job not in story.enqueues:
            yield Violation("I2", job, "nobody enqueued it")
    for call in story.calls:
        if call.operation == "enqueue" and call.outcome == "unknown":
            there = [item.id for item in call.items if item.id in story.ended]
            if 0 < len(there) < len(call.items):
                yield Violation("I2", there[0], f"it is one of {len(there)} out of a batch of {len(call.items)}")


def _tokens(story: Story) -> Iterator[Violation]:
    for job, leases in story.leases.items():
        for earlier, later in pairwise(leases):
            if earlier.item.fence == later.item.fence:
                yield Violation("I3", job, f"two leases had the fence {later.item.fence}")
            if later.call.answered < earlier.call.asked:
                yield Violation("I3", job, f"fence {earlier.item.fence} came after fence {later.item.fence}")
        if len({lease.item.nonce for lease in leases}) < len(leases):
            yield Violation("I3", job, "two leases had the same nonce")
    held = {(job, lease.item.fence, lease.item.nonce) for job, leases in story.leases.items() for lease in leases}
    for start in story.starts:
        if (start.id, start.fence, start.nonce) not in held:
            yield Violation("I3", start.id, f"its function started under a token that nobody was given, {start.fence}")


def _one_lease(story: Story) -> Iterator[Violation]:
    for job, leases in story.leases.items():
        for earlier, later in pairwise(leases):
            ends = _held_until(story, earlier)
            if later.call.answered < ends:
                why = f"fence {later.item.fence} was given {ends - later.call.answered:.3f} s before fence {earlier.item.fence} ended"
                yield Violation("I4", job, why)
        for reap in story.of(job, "reap"):
            # Of two leases that the reap may have ended, the later one.
            held = [lease for lease in leases if lease.call.answered < reap.call.asked]
            if held and reap.call.answered < _held_until(story, held[-1]):
                yield Violation("I4", job, f"fence {held[-1].item.fence} was reaped before it expired")


def _held_until(story: Story, lease: Lease) -> float:
    """The earliest time at which this lease may have ended."""
    job, fence, nonce = lease.item.id, lease.item.fence, lease.item.nonce
    expiry = lease.call.asked + (lease.item.ttl or 0.0)
    for renewal in story.renewals[job]:
        item = renewal.item
        if (item.fence, item.nonce, renewal.verdict) == (fence, nonce, "ok") and item.ttl is not None:
            expiry = max(expiry, renewal.call.asked + item.ttl)
    ends = [expiry]
    ends += [
        settle.call.asked
        for settle in story.settles[job]
        if (settle.item.fence, settle.item.nonce) == (fence, nonce) and settle.verdict in {"ok", "unknown"}
    ]
    # A reap ends nothing that has not expired: that is what it is to be caught at.
    ends += [
        act.call.asked for act in story.acts[job] if act.operation != "reap" and act.call.answered > lease.call.asked
    ]
    ends += story.perhaps_retired
    return min(ends)


def _stale_refused(story: Story) -> Iterator[Violation]:
    for what, told in (("settle", story.settles), ("renewal", story.renewals)):
        for job, settles in told.items():
            for settle in settles:
                if settle.verdict == "ok" and (why := _dead(story, job, settle)):
                    yield Violation(
                        "I5", job, f"the {what} under fence {settle.item.fence} was accepted although {why}"
                    )


def _dead(story: Story, job: str, settle: Settle) -> str | None:
    """Why the token of this write was surely not current any more when it was sent."""
    mine = [lease for lease in story.leases[job] if lease.item.fence == settle.item.fence]
    for lease in story.leases[job]:
        if lease.item.fence > settle.item.fence and lease.call.answered < settle.call.asked:
            return f"fence {lease.item.fence} had been given out"
    for act in story.acts[job]:
        if act.operation == "trigger":
            continue  # of a job that nobody holds: it takes nothing from anybody
        if act.certain and mine and mine[0].call.answered < act.call.asked and act.call.answered < settle.call.asked:
            return f"the job had been taken by a {act.operation}"
    if not mine and not story.unknown["lease"]:
        return "nobody was given such a token"
    return None


_FINAL = {"succeeded", "failed", "cancelled", "broken"}


def _ends(act: Act) -> bool:
    """Whether a job is final after this."""
    return act.operation in {"cancel", "complete"} or (act.operation in {"reap", "retire"} and act.item.failed)


def _one_final(story: Story) -> Iterator[Violation]:
    for job in story.ended.keys() | story.settles.keys() | story.acts.keys():
        finals: dict[object, str] = {}
        for settle in story.settles[job]:
            if settle.verdict == "ok" and settle.item.step in _FINAL:
                finals[settle.item.fence, settle.item.nonce] = settle.item.step  # a repeated settle is the same
        for number, act in enumerate(story.acts[job]):
            if act.certain and _ends(act):
                finals[number] = {"cancel": "cancelled", "complete": "succeeded"}.get(act.operation, "failed")
        generations = 1 + len(story.of(job, "retry"))
        if len(finals) > generations:
            yield Violation("I6", job, f"it became final {len(finals)} times: {', '.join(finals.values())}")
        record = story.ended.get(job)
        if record is not None and generations == 1 and len(finals) == 1 and record.state not in finals.values():
            yield Violation("I6", job, f"it had {next(iter(finals.values()))} and is now {record.state}")


def _attempts(story: Story) -> Iterator[Violation]:
    for job, record in story.ended.items():
        leases, settles = story.leases[job], story.settles[job]
        if not len(leases) <= record.fence <= len(leases) + story.unknown["lease"]:
            yield Violation("I7", job, f"its fence is {record.fence} and {len(leases)} leases of it are known")
        losses = len(story.of(job, "reap", "retire"))
        if story.of(job, "retry"):
            continue  # attempts and losses have begun anew
        back = {(settle.item.fence, settle.verdict) for settle in settles if not settle.item.counts}
        surely, perhaps = (sum(verdict == wanted for _, verdict in back) for wanted in ("ok", "unknown"))
        released = [act.certain for act in story.of(job, "release")]
        surely, perhaps = surely + sum(released), perhaps + len(released) - sum(released)
        if not record.fence - surely - perhaps <= record.attempt <= record.fence - surely:
            yield Violation(
                "I7", job, f"its attempt is {record.attempt} after {record.fence} leases, {surely} given back"
            )
        if not losses <= record.losses <= losses + story.unknown["reap"] + story.unknown["retire"]:
            yield Violation("I7", job, f"it has {record.losses} losses and {losses} are known")
        if 3 <= record.max_losses < record.losses:
            yield Violation("I7", job, f"it has {record.losses} losses of {record.max_losses}")


def _one_holder(story: Story) -> Iterator[Violation]:
    """Of two who hold a unique key, the later one was surely stored before anybody asked for the end of the earlier one."""
    holders: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for job, enqueues in story.enqueues.items():
        stored = [enqueue.call.answered for enqueue in enqueues if enqueue.call.outcome == "ok"]
        ends = [settle.call.asked for settle in story.settles[job] if _may_end(settle)]
        ends += [act.call.asked for act in story.acts[job] if _ends(act) or act.operation == "delete"]
        if enqueues[0].item.unique and stored and ends:  # else it is not known from when, or till when, it held its key
            holders[enqueues[0].item.unique].append((min(stored), min(ends), job))
    for key, held in holders.items():
        for (_, ended, one), (since, _, other) in pairwise(sorted(held)):
            if since < ended:
                yield Violation("I14", other, f"it was given the unique key {key!r} while {one} held it")


def _may_end(settle: Settle) -> bool:
    return settle.item.step in _FINAL and settle.verdict in {"ok", "unknown"}
