"""The history checker finds each kind of lie, and nothing in a true history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from .checker import check
from .history import Call, Ended, History, Item, Start, read
from .recording import Recorder

Tamper = Callable[[History], History]


def called(operation: str, at: float, items: Sequence[Item] = (), answers: Sequence[Item] = ()) -> Call:
    """A call that took a tenth of a second."""
    return Call(
        operation=operation, asked=at, answered=at + 0.1, outcome="ok", items=tuple(items), answers=tuple(answers)
    )


def enqueued(at: float, *jobs: str) -> Call:
    return called("enqueue", at, [Item(id=job, queue="q") for job in jobs], [Item(id=job) for job in jobs])


def leased(at: float, *leases: tuple[str, int], suspect: bool = False) -> Call:
    answers = [
        Item(id=job, fence=fence, nonce=int(at * 1000), ttl=10.0, attempt=fence, suspect=suspect)
        for job, fence in leases
    ]
    return called("lease", at, answers=answers)


def settled(
    at: float,
    job: str,
    fence: int,
    leased_at: float,
    step: str,
    verdict: str = "ok",
    *,
    counts: bool = True,
    successor: str = "",
) -> Call:
    nonce = int(leased_at * 1000)
    item = Item(id=job, fence=fence, nonce=nonce, step=step, counts=counts, successor=successor)
    return called("settle", at, [item], [Item(id=job, verdict=verdict)])


def reaped(at: float, job: str, *, failed: bool = False, suspect: bool = False) -> Call:
    return called("reap", at, answers=[Item(id=job, failed=failed, suspect=suspect)])


def started(at: float, job: str, fence: int, leased_at: float) -> Start:
    return Start("w", at, job, fence, int(leased_at * 1000))


def ended(
    job: str, state: str = "succeeded", attempt: int = 1, losses: int = 0, fence: int = 1, **more: str | None
) -> Ended:
    return Ended(id=job, state=state, attempt=attempt, losses=losses, fence=fence, **more)  # type: ignore[arg-type]


TRUE = History(
    # A is held by a worker that goes silent, is reaped, and goes before B, which came later; the stale settle is refused.
    # C is released and comes before D; E is retried and comes after F. R is a run, whose first step hands over to S, which
    # waits for W. U and V have the same unique key.
    calls=[
        enqueued(1, "A"),
        leased(2, ("A", 1)),
        enqueued(3, "B"),
        reaped(13, "A"),
        leased(14, ("A", 2), ("B", 1)),
        settled(15, "A", 1, 2, "succeeded", "lease_lost"),
        settled(16, "A", 2, 14, "succeeded"),
        settled(16.5, "A", 2, 14, "succeeded"),
        settled(17, "B", 1, 14, "failed"),
        enqueued(20, "C", "D"),
        leased(21, ("C", 1)),
        settled(22, "C", 1, 21, "release", counts=False),
        leased(23, ("C", 2), ("D", 1)),
        settled(24, "C", 2, 23, "succeeded"),
        settled(25, "D", 1, 23, "succeeded"),
        enqueued(30, "E", "F"),
        leased(31, ("E", 1)),
        settled(32, "E", 1, 31, "retry"),
        leased(33, ("F", 1)),
        leased(34, ("E", 2)),
        called("renew", 35, [Item(id="E", fence=2, nonce=34000, ttl=10.0)], [Item(id="E")]),
        settled(36, "E", 2, 34, "succeeded"),
        settled(37, "F", 1, 33, "succeeded"),
        enqueued(50, "R"),
        leased(51, ("R", 1)),
        settled(52, "R", 1, 51, "succeeded", successor="S"),
        called("enqueue", 52, [Item(id="W", queue="q"), Item(id="S", queue="q", in_line=False, after=("W",))]),
        leased(53, ("W", 1)),
        settled(54, "W", 1, 53, "succeeded"),
        leased(55, ("S", 1)),
        settled(56, "S", 1, 55, "succeeded"),
        called("enqueue", 60, [Item(id="U", queue="q", unique="k")], [Item(id="U")]),
        leased(61, ("U", 1)),
        settled(62, "U", 1, 61, "succeeded"),
        called("enqueue", 62, [Item(id="V", queue="q", unique="k")], [Item(id="V")]),
        leased(63, ("V", 1)),
        settled(64, "V", 1, 63, "succeeded"),
    ],
    starts=[
        started(2.5, "A", 1, 2),
        started(14.5, "A", 2, 14),
        started(16.6, "B", 1, 14),
        started(21.5, "C", 1, 21),
        started(23.5, "C", 2, 23),
        started(24.5, "D", 1, 23),
        started(31.5, "E", 1, 31),
        started(33.5, "F", 1, 33),
        started(34.5, "E", 2, 34),
        started(51.5, "R", 1, 51),
        started(53.5, "W", 1, 53),
        started(55.5, "S", 1, 55),
        started(61.5, "U", 1, 61),
        started(63.5, "V", 1, 63),
    ],
    ended=[
        ended("A", attempt=2, losses=1, fence=2),
        ended("B", "failed"),
        ended("C", attempt=1, fence=2),
        ended("D"),
        ended("E", attempt=2, fence=2),
        ended("F"),
        ended("R", run_id="R", successor="S"),
        ended("W"),
        ended("S", run_id="R"),
        ended("U"),
        ended("V"),
    ],
)


def calls(change: Callable[[Call], Call | None]) -> Tamper:
    """Change or remove calls."""
    return lambda true: History(
        [told for call in true.calls if (told := change(call)) is not None], true.starts, true.ended
    )


def moved(operation: str, since: float, to: float) -> Tamper:
    """Let the call of that time have happened at another."""

    def move(call: Call) -> Call:
        if (call.operation, call.asked) != (operation, since):
            return call
        return msgspec.structs.replace(call, asked=to, answered=to + 0.1)

    return calls(move)


def told(operation: str, at: float, **fields: Any) -> Tamper:
    """Let the first item that came back in the call of that time have been another."""

    def tell(call: Call) -> Call:
        if (call.operation, call.asked) != (operation, at):
            return call
        first, *others = call.answers
        return msgspec.structs.replace(call, answers=(msgspec.structs.replace(first, **fields), *others))

    return calls(tell)


def added(*more: Call) -> Tamper:
    return lambda true: History([*true.calls, *more], true.starts, true.ended)


def shown(job: str, **fields: Any) -> Tamper:
    """Let the store show another record of a job in the end."""
    return lambda true: History(
        true.calls, true.starts, [msgspec.structs.replace(r, **fields) if r.id == job else r for r in true.ended]
    )


def without_record(job: str) -> Tamper:
    return lambda true: History(true.calls, true.starts, [record for record in true.ended if record.id != job])


def without_starts(job: str) -> Tamper:
    return lambda true: History(true.calls, [start for start in true.starts if start.id != job], true.ended)


LIES: dict[str, tuple[str, Tamper]] = {
    "an acknowledged job is lost": ("I1", without_record("B")),
    "a job is never finished": ("I1", shown("B", state="running")),
    "a job succeeds without having run": ("I1", without_starts("D")),
    "a job comes from nowhere": ("I2", lambda true: History(true.calls, true.starts, [*true.ended, ended("X")])),
    "a job is there twice": ("I2", lambda true: History(true.calls, true.starts, [*true.ended, true.ended[1]])),
    "half of a batch is stored": (
        "I2",
        lambda true: History(
            [*true.calls, Call(operation="enqueue", asked=40, items=(Item(id="X"), Item(id="Y")))],
            true.starts,
            [*true.ended, ended("X", "waiting", attempt=0, fence=0)],
        ),
    ),
    "a fence is given twice": ("I3", told("lease", 14, fence=1)),
    "a later lease has a lower fence": ("I3", lambda true: told("lease", 2, fence=3)(true)),
    "a nonce is used again": ("I3", told("lease", 14, nonce=2000)),
    "a function runs under a token that nobody was given": (
        "I3",
        lambda true: History(true.calls, [*true.starts, started(18, "B", 7, 14)], true.ended),
    ),
    "a job is given out while its lease is valid": ("I4", moved("reap", 13, 7)),
    "a job is given out although its lease was renewed": (
        "I4",
        added(called("renew", 11, [Item(id="A", fence=1, nonce=2000, ttl=10.0)], [Item(id="A")])),
    ),
    "a stale settle is accepted": ("I5", told("settle", 15, verdict="ok")),
    "a settle is accepted after the reap": ("I5", added(settled(13.5, "A", 1, 2, "retry"))),
    "a stale renewal is accepted": (
        "I5",
        added(called("renew", 15, [Item(id="A", fence=1, nonce=2000, ttl=10.0)], [Item(id="A")])),
    ),
    "a settle under an invented token is accepted": ("I5", added(settled(16, "B", 5, 9, "retry"))),
    "a job becomes final twice": ("I6", added(settled(18, "B", 2, 18, "succeeded"))),
    "a job is cancelled after it succeeded": ("I6", added(called("cancel", 40, [Item(id="D")], [Item(id="D")]))),
    "what was settled is not what is stored": ("I6", shown("D", state="failed")),
    "an attempt is not counted": ("I7", shown("E", attempt=1)),
    "a released attempt is counted": ("I7", shown("C", attempt=2)),
    "a loss is not counted": ("I7", shown("A", losses=0)),
    "a lease is not counted": ("I7", shown("E", fence=1, attempt=1)),
    "more losses than allowed": (
        "I7",
        lambda true: shown("D", losses=4, attempt=5, fence=5)(added(*(reaped(26, "D") for _ in range(4)))(true)),
    ),
    "the second comes before the first": (
        "I8",
        lambda true: History(
            [*true.calls, enqueued(40, "X"), enqueued(41, "Y"), leased(42, ("Y", 1)), leased(43, ("X", 1))],
            true.starts,
            [*true.ended, ended("X"), ended("Y")],
        ),
    ),
    "within one answer the second comes first": (
        "I8",
        lambda true: History(
            [*true.calls, enqueued(40, "X"), enqueued(41, "Y"), leased(42, ("Y", 1), ("X", 1))],
            true.starts,
            [*true.ended, ended("X"), ended("Y")],
        ),
    ),
    "a batch is handed out in another order": (
        "I8",
        lambda true: History(
            [*true.calls, enqueued(40, "X", "Y"), leased(42, ("Y", 1)), leased(43, ("X", 1))],
            true.starts,
            [*true.ended, ended("X"), ended("Y")],
        ),
    ),
    "a reaped job goes to the back": (
        "I9",
        lambda true: added(leased(15.5, ("A", 2)))(
            calls(lambda call: leased(14, ("B", 1)) if call.asked == 14 else call)(true)
        ),
    ),
    "a released job goes to the back": (
        "I9",
        calls(lambda call: leased(23, ("D", 1), ("C", 2)) if call.asked == 23 else call),
    ),
    "a retried job stays at the front": (
        "I8",
        calls(lambda call: {33.0: leased(34, ("F", 1)), 34.0: leased(33, ("E", 2))}.get(call.asked, call)),
    ),
    "a step is finished and its successor does not exist": ("I13", without_record("S")),
    "a successor exists and the step before it has not handed over": ("I13", shown("R", successor=None)),
    "a step that is not finished has handed over": ("I13", shown("R", state="failed")),
    "a step has handed over to two": (
        "I13",
        lambda true: History([*true.calls, enqueued(57, "T")], true.starts, [*true.ended, ended("T", run_id="R")]),
    ),
    "a step has handed over to another than it said": (
        "I13",
        lambda true: History(
            [*true.calls, enqueued(57, "T")],
            true.starts,
            [*shown("R", successor="T")(without_record("S")(true)).ended, ended("T", run_id="R")],
        ),
    ),
    "a hand-over that was refused has happened": ("I13", told("settle", 52, verdict="lease_lost")),
    "a step is handed out before what it waits for has ended": ("I13", moved("lease", 55, 53.2)),
    "the first step of a run is gone": ("I13", without_record("R")),
    "two hold a unique key at once": ("I14", moved("enqueue", 62, 61.8)),
}


def test_nothing_is_found_in_a_true_history() -> None:
    assert check(TRUE) == []


@pytest.mark.parametrize(("invariant", "tamper"), LIES.values(), ids=LIES)
def test_a_lie_is_found(invariant: str, tamper: Tamper) -> None:
    assert invariant in {violation.invariant for violation in check(tamper(TRUE))}


def test_a_call_without_an_answer_may_or_may_not_have_happened() -> None:
    cut = calls(lambda call: Call(operation="settle", asked=36, items=call.items) if call.asked == 36 else call)

    assert check(cut(TRUE)) == []
    assert check(shown("E", state="failed")(cut(TRUE))) == []


def test_a_job_that_another_step_keeps_locked_is_passed_over_where_steps_lock() -> None:
    late = calls(lambda call: leased(14, ("B", 1)) if call.asked == 14 else call)(added(leased(15.5, ("A", 2)))(TRUE))
    stale = calls(lambda call: msgspec.structs.replace(call, asked=12, answered=14.5) if call.asked == 15 else call)(
        late
    )

    def overtaken(history: History) -> bool:
        return "I9" in {violation.invariant for violation in check(history)}

    assert [overtaken(msgspec.structs.replace(each, locking=False)) for each in (late, stale)] == [True, True]
    assert [overtaken(msgspec.structs.replace(each, locking=True)) for each in (late, stale)] == [True, False]


def test_a_job_of_which_something_was_asked_in_vain_may_have_been_passed_over_where_steps_lock() -> None:
    overtaking = [enqueued(40, "X"), enqueued(41, "Y"), leased(42, ("Y", 1)), leased(43, ("X", 1))]
    in_vain = called("trigger", 41.9, [Item(id="X")], [Item(id="X", verdict="refused")])
    ends = [*TRUE.ended, ended("X"), ended("Y")]

    def overtaken(*calls: Call, locking: bool) -> bool:
        history = History([*TRUE.calls, *overtaking, *calls], TRUE.starts, ends, locking=locking)
        return "I8" in {violation.invariant for violation in check(history)}

    assert overtaken(locking=True)
    assert overtaken(in_vain, locking=False)
    assert not overtaken(in_vain, locking=True)


def test_a_batch_whose_outcome_is_unknown_may_be_missing_whole() -> None:
    assert check(added(Call(operation="enqueue", asked=40, items=(Item(id="X"), Item(id="Y"))))(TRUE)) == []


def test_what_was_refused_has_done_nothing() -> None:
    refused = Call(operation="enqueue", asked=40, answered=40.1, outcome="fail", items=(Item(id="X"),))
    appeared = History([*TRUE.calls, refused], TRUE.starts, [*TRUE.ended, ended("X", "waiting", attempt=0, fence=0)])

    assert [(violation.invariant, violation.job) for violation in check(appeared)] == [("I2", "X")]


def test_the_line_that_a_kill_cut_short_is_passed_over(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.answer(recorder.ask("enqueue", [Item(id="A")]), "ok", [Item(id="A")])
    [file] = tmp_path.iterdir()
    with file.open("ab") as lines:
        lines.write(b'{"type":"ask","process":"1","nu')

    [call], starts = read([file])

    assert (call.operation, call.outcome, [item.id for item in call.answers], starts) == ("enqueue", "ok", ["A"], [])
