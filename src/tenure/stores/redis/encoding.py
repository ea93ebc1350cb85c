"""Encodes jobs, tokens and transitions as arguments of scripts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

import msgspec

from tenure.core.job import ErrorInfo, NewJob, RunStep, State, Writes, in_brief
from tenure.core.lease import Lease, Token
from tenure.core.lifecycle import Finish, Park, Requeue, Transition
from tenure.stores.redis.records import NUMBERS, READS, SPECIAL, STEP, Options, as_text, error_text, ref_of

__all__ = [
    "ScriptArg",
    "lua_expressions",
    "new_job_args",
    "nonce_text",
    "ref_of_lease",
    "token_bytes",
    "transition_args",
]

ScriptArg = str | bytes | int
"""An argument of a script."""

_pack = msgspec.msgpack.Encoder().encode
_json = msgspec.json.Encoder().encode
_NO_OPTIONS = Options()
_NO_WRITES = Writes()
_RUN_PLACEHOLDER = msgspec.Raw(b"\xc2")
"""One byte in place of the ref of the run, for packing everything else beforehand."""

# New jobs.


def new_job_args(job: NewJob) -> list[ScriptArg]:
    """The arguments of a new job: ref, stored part, head, and the refs of its blockers."""
    if job.step is not None:
        return _new_step_args(job, job.step)
    edges = len(job.after)
    special = _special(job)
    options = _NO_OPTIONS
    if special or job.raw or job.tags or job.max_losses != 3 or job.max_attempts is not None or job.headers is not None:
        options = _options(job)
    stored = _pack((special, job.task, job.queue, job.priority, options, job.payload))
    head = _pack((job.queue, job.priority, special, job.delay, job.run_at, edges, job.unique_raises))
    # Without the first byte, which is the array's length: the script writes another one, because it adds two fields.
    return [ref_of(job.id), stored[1:], head, *map(ref_of, job.after)]


def _special(job: NewJob) -> int:
    """`SPECIAL` if the job has options that matter beyond waiting, running and ending, else 0."""
    plain = not job.after and job.unique is None and job.expires is None and job.keep is None and job.lease is None
    return 0 if plain else SPECIAL


def _options(job: NewJob) -> Options:
    return Options(
        job.raw, job.expires, job.unique, job.window, job.tags, job.keep, job.lease, job.max_attempts, job.max_losses,
        len(job.after), job.if_blocker_fails, headers=None if job.headers is None else _json(job.headers).decode(),
    )  # fmt: skip


def _new_step_args(job: NewJob, step: RunStep, written: Collection[str] = ()) -> list[ScriptArg]:
    """The arguments of a new step of a run.

    Like those of any new job, with a longer head. The ref of the run follows, unless the step begins the run, and then
    what it writes to the run. Attributes in `written` are written together with the step, so the script need not check
    them.
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
    """Whether a step has only options that many steps share, so that its packed form is worth caching."""
    return not (
        _special(job)
        or job.raw
        or job.delay
        or job.run_at is not None
        or job.unique_raises
        or len(job.payload) > 2
        or job.headers is not None
    )


def _unwritten(needs: tuple[str, ...], written: Collection[str]) -> tuple[str, ...]:
    """The attributes that a step needs and that are not written together with it."""
    return needs and (*[name for name in needs if name not in written],)


def _step_shape(
    job: NewJob, step: RunStep, needs: tuple[str, ...], names: list[str] | None, begins: bool
) -> tuple[bytes, bytes, bytes]:
    """The stored part of a step before and after the ref of its run (all before, if it begins the run); its head."""
    kind = STEP | _special(job) | (READS if step.reads else 0)
    options = _options(job)
    options.flow, options.reads = step.flow, step.reads
    before = b"".join(map(_pack, (kind, job.task, job.queue, job.priority)))
    if begins:
        before, after = before + _pack(options) + _pack(job.payload), b""
    else:
        options.run = _RUN_PLACEHOLDER
        # The run is the last option.
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
    """`_step_shape` of a plain step, cached because many are alike."""
    job = NewJob(id="", task=task, queue=queue, priority=priority, payload=payload, tags=tags, max_attempts=max_attempts,
                 max_losses=max_losses)  # fmt: skip
    return _step_shape(job, RunStep(run_id="", flow=flow, reads=reads), needs, None, begins)


def _written(writes: Writes) -> tuple[list[str] | None, list[ScriptArg]]:
    """What is written to a run: names of attributes or None; then as arguments their values and the lookups."""
    values: list[ScriptArg] = [*writes.attributes.values()]
    if writes.lookups:
        values.append(_pack(writes.lookups))
    return list(writes.attributes) or None, values


# Tokens and transitions.


def nonce_text(nonce: int) -> str:
    return f"{nonce:016x}"


def token_bytes(token: Token) -> bytes:
    """A token as a record contains it."""
    return b"\xce%b\xb0%016x" % (token.fence.to_bytes(4), token.nonce)


def ref_of_lease(lease: Lease) -> bytes:
    """The ref of a leased job. If its id is a UUID, the lease has the ref as a number."""
    return lease.number.to_bytes(16) if lease.number else ref_of(lease.job.id)


_FINAL = {state: number.to_bytes() for state, number in NUMBERS.items()}
_FINISH, _REQUEUE, _PARK, _HAND_OVER = b"\x0a", b"\x0b", b"\x0c", b"\x0d"


def transition_args(transition: Transition) -> list[ScriptArg]:
    """The arguments of a transition: the transition itself, then the new jobs that come with it."""
    if (
        type(transition) is Finish
        and transition.error is None
        and not transition.children
        and transition.successor is None
        and transition.writes is None
        and transition.output is None
    ):  # nearly all; a match statement takes twice as long
        return [_FINAL[transition.state] + _pack(transition.result)]
    if (
        type(transition) is Finish
        and (transition.successor is not None or transition.writes is not None)
        and transition.state is State.SUCCEEDED
    ):
        return _hand_over_args(transition)
    match transition:
        case Finish(state, result, error, children):
            left = _brief_error_text(error) if state is not State.SUCCEEDED else error_text(transition.left)
            about = (NUMBERS[state], result, error_text(error), len(children), left)
            first = _FINISH + b"".join(map(_pack, about))
            return [first, *(arg for child in children for arg in new_job_args(child))]
        case Requeue(delay, run_at, counts, front, missed, error):
            why = (error_text(error), _brief_error_text(error))
            return [_REQUEUE + b"".join(map(_pack, (delay, run_at, counts, front, missed, *why)))]
        case Park(timeout, on_timeout):
            return [_PARK + _pack(timeout) + _pack(on_timeout)]


def _brief_error_text(error: ErrorInfo | None) -> str | None:
    """The shortened error for the history; None if it equals the job's error."""
    brief = in_brief(error)
    return None if brief is error else error_text(brief)


def _hand_over_args(transition: Finish) -> list[ScriptArg]:
    """A success that writes to its run or hands over. Equal first arguments are parsed once by the script."""
    writes, successor = transition.writes or _NO_WRITES, transition.successor
    if (
        successor is not None
        and not transition.output
        and not transition.children
        and not writes.lookups
        and _is_plain_step(successor)
    ):
        return _plain_hand_over_args(transition.result, writes.attributes, successor)
    names, values = _written(writes)
    about = (transition.result, len(transition.children), names, bool(writes.lookups), successor is not None)
    left = (error_text(transition.left),) if transition.output else ()
    # Without the first byte, which is the array's length.
    args: list[ScriptArg] = [_HAND_OVER + _pack((*about, *left))[1:], *values]
    for child in transition.children:
        args += new_job_args(child)
    if successor is not None:
        assert successor.step is not None, "a successor is a step of its run"
        args += _new_step_args(successor, successor.step, writes.attributes)
    return args


def _plain_hand_over_args(result: str | None, attributes: Mapping[str, str], successor: NewJob) -> list[ScriptArg]:
    """A plain hand-over: only the attribute values and the refs of successor and run follow the first argument."""
    step = successor.step
    assert step is not None, "a successor is a step of its run"
    first = _plain_hand_over(
        result, (*attributes,), successor.task, successor.queue, successor.priority, successor.payload, successor.tags,
        successor.max_attempts, successor.max_losses, step.flow, step.reads, step.needs,
    )  # fmt: skip
    return [first, *attributes.values(), ref_of(successor.id), ref_of(step.run_id)]


@lru_cache(maxsize=1000)
def _plain_hand_over(
    result: str | None, names: tuple[str, ...], task: str, queue: str, priority: int, payload: bytes, tags: tuple[str, ...],
    max_attempts: int | None, max_losses: int, flow: str, reads: tuple[str, ...], needs: tuple[str, ...],
) -> bytes:  # fmt: skip
    """The first argument of a plain hand-over."""
    missing = _unwritten(needs, names)
    shape = _plain_step_shape(
        task, queue, priority, payload, tags, max_attempts, max_losses, flow, reads, missing, begins=False
    )
    return _HAND_OVER + _pack((result, 0, names or None, False, True, *map(as_text, shape)))[1:]


# Queues.


def lua_expressions(patterns: Sequence[str]) -> str:
    """Lua patterns for the queues that these patterns serve (`+`), then exclude (`-`), as in `patterns.serves`."""
    served = ["+" + _lua_pattern(entry) for entry in patterns if not entry.startswith("!")]
    return " ".join(served + ["-" + _lua_pattern(entry[1:]) for entry in patterns if entry.startswith("!")])


def _lua_pattern(entry: str) -> str:
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
