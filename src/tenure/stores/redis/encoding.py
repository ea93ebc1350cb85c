"""Jobs and what becomes of them, as the scripts read them: the arguments of a step."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

import msgspec

from tenure.core.job import ErrorInfo, NewJob, RunStep, State, Writes, in_brief
from tenure.core.lease import Lease, Token
from tenure.core.lifecycle import Finish, Park, Requeue, Transition
from tenure.stores.redis.records import BATCH, NUMBERS, READS, SPECIAL, Options, as_text, error_word, ref_of

__all__ = ["Word", "lua_expressions", "new_words", "nonce_word", "ref_of_lease", "step_words", "token_word"]

Word = str | bytes | int
"""An argument of a script."""

_pack = msgspec.msgpack.Encoder().encode
_NOTHING = Options()
_NO_WRITES = Writes()
_ANY = msgspec.Raw(b"\xc2")
"""What stands in the place of a run while all but that is packed, in one byte."""

# New jobs.


def new_words(job: NewJob) -> list[Word]:
    """A new job: ref, what is stored, head, and whom it waits for."""
    if job.step is not None:
        return _new_step_words(job, job.step)
    edges = len(job.after)
    special = _special(job)
    options = _NOTHING
    if special or job.raw or job.tags or job.max_losses != 3 or job.max_attempts is not None:
        options = _options(job)
    stored = _pack((special, job.task, job.queue, job.priority, options, job.payload))
    head = _pack((job.queue, job.priority, special, job.delay, job.run_at, edges, job.unique_raises))
    # Without the byte that says how long the array is: the script writes another, and two fields more.
    return [ref_of(job.id), stored[1:], head, *map(ref_of, job.after)]


def _special(job: NewJob) -> int:
    """1 if there is more to a job than waiting, running and ending."""
    plain = not job.after and job.unique is None and job.expires is None and job.keep is None and job.lease is None
    return 0 if plain else SPECIAL


def _options(job: NewJob) -> Options:
    return Options(
        job.raw, job.expires, job.unique, job.window, job.tags, job.keep, job.lease, job.max_attempts, job.max_losses,
        len(job.after), job.if_blocker_fails,
    )  # fmt: skip


def _new_step_words(job: NewJob, step: RunStep, written: Collection[str] = ()) -> list[Word]:
    """A new step of a run, with whose coming these attributes are `written`.

    As every new job, but the head says more, and behind all the rest follow the run, unless the step begins it, and what that
    begins with.
    """
    writes, begins = step.writes or _NO_WRITES, step.run_id == job.id
    names, values = _written(writes) if step.writes is not None else (None, [])
    needs = _unwritten(step.needs, {*written, *writes.attributes})
    run = [] if begins else [ref_of(step.run_id)]
    if not values and _is_plain_step(job):
        before, after, head = _plain_step_shape(
            job.task, job.queue, job.priority, job.payload, job.tags, job.max_attempts, job.max_losses,
            step.flow, step.reads, needs, begins,
        )  # fmt: skip
    else:
        before, after, head = _step_shape(job, step, needs, names, begins)
    stored = before if begins else before + as_text(run[0]) + after
    return [ref_of(job.id), stored, head, *map(ref_of, job.after), *run, *values]


def _is_plain_step(job: NewJob) -> bool:
    """Whether there is no more to it than to many others."""
    return not (
        _special(job) or job.raw or job.delay or job.run_at is not None or job.unique_raises or len(job.payload) > 2
    )


def _unwritten(needs: tuple[str, ...], written: Collection[str]) -> tuple[str, ...]:
    """Of the attributes that a step needs those that do not come with it."""
    return needs and (*[name for name in needs if name not in written],)


def _step_shape(
    job: NewJob, step: RunStep, needs: tuple[str, ...], names: list[str] | None, begins: bool
) -> tuple[bytes, bytes, bytes]:
    """What is stored of a step before its run and behind it (all of that before, if it begins one), and its head."""
    kind = BATCH | _special(job) | (READS if step.reads else 0)
    options = _options(job)
    options.flow, options.reads = step.flow, step.reads
    before = b"".join(map(_pack, (kind, job.task, job.queue, job.priority)))
    if begins:
        before, after = before + _pack(options) + _pack(job.payload), b""
    else:
        options.run = _ANY
        # The run is the last of the options.
        before, after = before + _pack(options)[:-1], _pack(job.payload)
    lookups = step.writes is not None and bool(step.writes.lookups)
    head = _pack(
        (job.queue, job.priority, kind, job.delay, job.run_at, len(job.after), job.unique_raises,
         step.flow, begins, needs or None, names, lookups)
    )  # fmt: skip
    return before, after, head


@lru_cache(maxsize=1000)
def _plain_step_shape(
    task: str, queue: str, priority: int, payload: bytes, tags: tuple[str, ...], max_attempts: int | None, max_losses: int,
    flow: str, reads: tuple[str, ...], needs: tuple[str, ...], begins: bool,
) -> tuple[bytes, bytes, bytes]:  # fmt: skip
    """The same, of one that has nothing else about it: of these there are many that are alike."""
    job = NewJob(id="", task=task, queue=queue, priority=priority, payload=payload, tags=tags, max_attempts=max_attempts,
                 max_losses=max_losses)  # fmt: skip
    return _step_shape(job, RunStep(run_id="", flow=flow, reads=reads), needs, None, begins)


def _written(writes: Writes) -> tuple[list[str] | None, list[Word]]:
    """What is written to a run: the names of attributes, if there are any; and in words their values, then the lookups."""
    values: list[Word] = [*writes.attributes.values()]
    if writes.lookups:
        values.append(_pack(writes.lookups))
    return list(writes.attributes) or None, values


# Tokens and steps.


def nonce_word(nonce: int) -> str:
    return f"{nonce:016x}"


def token_word(token: Token) -> bytes:
    """A token as it stands in a record."""
    return b"\xce%b\xb0%016x" % (token.fence.to_bytes(4), token.nonce)


def ref_of_lease(lease: Lease) -> bytes:
    """The ref of a leased job, which its number is if the id is a UUID."""
    return lease.number.to_bytes(16) if lease.number else ref_of(lease.job.id)


_FINAL = {state: number.to_bytes() for state, number in NUMBERS.items()}
_FINISH, _REQUEUE, _PARK, _HAND_OVER = b"\x0a", b"\x0b", b"\x0c", b"\x0d"


def step_words(step: Transition) -> list[Word]:
    """What becomes of a job, and the jobs that come with it."""
    if (
        type(step) is Finish
        and step.error is None
        and not step.children
        and step.successor is None
        and step.writes is None
        and step.output is None
    ):  # nearly every one; a match takes twice as long
        return [_FINAL[step.state] + _pack(step.result)]
    if (
        type(step) is Finish
        and (step.successor is not None or step.writes is not None)
        and step.state is State.SUCCEEDED
    ):
        return _hand_over_words(step)
    match step:
        case Finish(state, result, error, children):
            left = _brief_word(error) if state is not State.SUCCEEDED else error_word(step.left)
            about = (NUMBERS[state], result, error_word(error), len(children), left)
            word = _FINISH + b"".join(map(_pack, about))
            return [word, *(word for child in children for word in new_words(child))]
        case Requeue(delay, run_at, counts, front, missed, error):
            why = (error_word(error), _brief_word(error))
            return [_REQUEUE + b"".join(map(_pack, (delay, run_at, counts, front, missed, *why)))]
        case Park(timeout, on_timeout):
            return [_PARK + _pack(timeout) + _pack(on_timeout)]


def _brief_word(error: ErrorInfo | None) -> str | None:
    """An error as it is remembered with the attempt, if that is another than the job has."""
    brief = in_brief(error)
    return None if brief is error else error_word(brief)


def _hand_over_words(step: Finish) -> list[Word]:
    """A success that writes to its run or hands over. Of those that are alike the first word is."""
    writes, successor = step.writes or _NO_WRITES, step.successor
    if (
        successor is not None
        and not step.output
        and not step.children
        and not writes.lookups
        and _is_plain_step(successor)
    ):
        return _plain_hand_over_words(step.result, writes.attributes, successor)
    names, values = _written(writes)
    about = (step.result, len(step.children), names, bool(writes.lookups), successor is not None)
    left = (error_word(step.left),) if step.output else ()
    # As it stands in the array, behind the byte that says how long that is.
    words: list[Word] = [_HAND_OVER + _pack((*about, *left))[1:], *values]
    for child in step.children:
        words += new_words(child)
    if successor is not None:
        assert successor.step is not None, "a successor is a step of its run"
        words += _new_step_words(successor, successor.step, writes.attributes)
    return words


def _plain_hand_over_words(result: str | None, attributes: Mapping[str, str], successor: NewJob) -> list[Word]:
    """A hand-over as nearly all of them are: all but the values, the successor's ref and its run is in the first word."""
    step = successor.step
    assert step is not None, "a successor is a step of its run"
    word = _plain_hand_over(
        result, (*attributes,), successor.task, successor.queue, successor.priority, successor.payload, successor.tags,
        successor.max_attempts, successor.max_losses, step.flow, step.reads, step.needs,
    )  # fmt: skip
    return [word, *attributes.values(), ref_of(successor.id), ref_of(step.run_id)]


@lru_cache(maxsize=1000)
def _plain_hand_over(
    result: str | None, names: tuple[str, ...], task: str, queue: str, priority: int, payload: bytes, tags: tuple[str, ...],
    max_attempts: int | None, max_losses: int, flow: str, reads: tuple[str, ...], needs: tuple[str, ...],
) -> bytes:  # fmt: skip
    """That word."""
    missing = _unwritten(needs, names)
    shape = _plain_step_shape(
        task, queue, priority, payload, tags, max_attempts, max_losses, flow, reads, missing, begins=False
    )
    return _HAND_OVER + _pack((result, 0, names or None, False, True, *map(as_text, shape)))[1:]


# Queues.


def lua_expressions(patterns: Sequence[str]) -> str:
    """Lua patterns for the queues that a list serves (`+`), then for those that it excludes (`-`), as `patterns.serves` has it."""
    served = ["+" + _lua(entry) for entry in patterns if not entry.startswith("!")]
    return " ".join(served + ["-" + _lua(entry[1:]) for entry in patterns if entry.startswith("!")])


def _lua(entry: str) -> str:
    return "^" + "".join(map(_lua_part, re.findall(r"\[!?\]?[^\]]*\]|.", entry))) + "$"


def _lua_part(part: str) -> str:
    match part:
        case "*":
            return ".*"
        case "?":
            return "."
        case _ if len(part) > 1:
            return f"[{'^' if part[1] == '!' else ''}{part[1:-1].removeprefix('!')}]"
        case _:
            return part if part.isalnum() else f"%{part}"
