"""`compare` finds what jobs of recorded code would not survive in the present code. No store is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tenure.cli.check.findings import Finding, close_to
from tenure.cli.check.record import CodeRecord, ParameterRecord, TaskRecord, record_of, upcasters_of
from tenure.cli.check.schemas import accepts

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["compare", "misfits"]

UPCAST = "raise the version and upcast"


def compare(before: CodeRecord, app: App, is_served: Callable[[str], bool]) -> list[Finding]:
    """What was found about each task of the record: whether the present code runs its jobs, and what has changed."""
    now = record_of(app)
    findings: list[Finding] = []
    for name, old in before.tasks.items():
        found = [*_task(name, old, now, app)]
        queues = {old.queue} | ({now.tasks[name].queue} if name in now.tasks else set())
        found += [
            Finding(
                name=name,
                verdict="bad",
                text=f"no worker serves its queue {queue!r}",
                advice="Add it to --queues of a worker.",
            )
            for queue in sorted(queues)
            if not is_served(queue)
        ]
        if all(each.verdict == "note" for each in found):
            found.append(Finding(name=name, verdict="fine", text="fine"))
        findings += found
    findings += [Finding(name=name, verdict="fine", text="new") for name in now.tasks if name not in before.tasks]
    return findings


def _task(name: str, old: TaskRecord, now: CodeRecord, app: App) -> list[Finding]:
    def bad(text: str, advice: str) -> Finding:
        return Finding(name=name, verdict="bad", text=text, advice=advice)

    task = app.tasks.get(name)
    if task is None:
        return [_gone(name, old, now)]
    new = now.tasks[task.name]
    if new.flow != old.flow:
        kinds = [f"a step of flow {each.flow!r}" if each.flow is not None else "a task" for each in (old, new)]
        return [bad(f"was {kinds[0]} and is {kinds[1]}", "Give one of them another name.")]
    if old.raw != new.raw:
        text = "took raw bytes and takes JSON" if old.raw else "took JSON and takes raw bytes"
        return [bad(text, "Make a new task, and keep this one until its jobs are done.")]
    found = [*_settings(name, old, new)]
    if old.raw:
        return found
    if new.version < old.version:
        return [*found, bad(f"had version {old.version} and has version {new.version}", "Versions only rise.")]
    if old.flow is not None:
        return [*found, *(bad(*each) for each in _step_misfits(old.parameters, new.parameters))]
    if new.version == old.version:
        return [*found, *(bad(*each) for each in misfits(old.parameters, new.parameters))]
    upcasters = upcasters_of(task)
    for version in range(old.version, new.version):
        if version not in upcasters:
            return [*found, bad(f"nothing reads its jobs of version {version}", f"Add @….upcast({version}).")]
    wrong = misfits(old.parameters, upcasters[old.version])
    advice = f"Give upcast({old.version}) the parameters that the task had in that version."
    return [*found, *(bad(f"upcast({old.version}): {text}", advice) for text, _ in wrong)]


def _gone(name: str, old: TaskRecord, now: CodeRecord) -> Finding:
    if old.flow is None:
        advice = f'Add aliases=["{name}"] to the task that runs its jobs, or keep it until they are done.'
        return Finding(name=name, verdict="bad", text=f"no such task{close_to(name, now.tasks)}", advice=advice)
    step = name.removeprefix(f"{old.flow}.")
    if not any(each.flow == old.flow for each in now.tasks.values()):
        return Finding(
            name=name, verdict="bad", text=f"no such flow: {old.flow!r}", advice="Keep it until its runs are done."
        )
    advice = f'Add aliases=["{step}"] to the step that replaces it, or keep it until no run is there.'
    return Finding(name=name, verdict="bad", text="a step that the flow has no longer", advice=advice)


def _settings(name: str, old: TaskRecord, new: TaskRecord) -> list[Finding]:
    """Settings that have changed and that operators may want to know of."""
    pairs: Mapping[str, tuple[Any, Any]] = {
        "max_attempts": (old.max_attempts, new.max_attempts),
        "lease": (old.lease, new.lease),
        "queue": (old.queue, new.queue),
    }
    after = {
        "max_attempts": "it applies to stored jobs too",
        "lease": "stored jobs keep theirs",
        "queue": "stored jobs stay in theirs",
    }
    return [
        Finding(name=name, verdict="note", text=f"{setting} was {was!s:.40} and is {is_!s:.40}; {after[setting]}")
        for setting, (was, is_) in pairs.items()
        if was != is_
    ]


def _step_misfits(old: Sequence[ParameterRecord], new: Sequence[ParameterRecord]) -> list[tuple[str, str]]:
    """Why a run may not have what the present step reads. A step reads attributes by name, so their order does not matter."""
    before = {each.name: each for each in old}
    found = []
    for each in new:
        if (was := before.get(each.name)) is None or (each.required and not was.required):
            if each.required:
                found.append(
                    (f"attribute {each.name!r} is needed now", "Give the parameter a default, or use a new step.")
                )
        elif not _reads(each, was):
            found.append((_changed("attribute", was, each), "Accept both, or use a new attribute."))
    return found


def misfits(old: Sequence[ParameterRecord], new: Sequence[ParameterRecord]) -> list[tuple[str, str]]:
    """Why the present parameters may not read a call of the old ones, with what to do; none if they surely do."""
    before, after = {each.name: each for each in old}, {each.name: each for each in new}
    found: list[tuple[str, str]] = []
    for each in new:
        if each.name not in before and each.required:
            found.append((f"parameter {each.name!r} is missing in its jobs", f"Give it a default, or {UPCAST}."))
        elif each.name not in before and any(was.kind == "others" for was in old) and each.kind != "others":
            found.append((f"parameter {each.name!r} may take what `**` took", f"Use another name, or {UPCAST}."))
    for was in old:
        each_now = after.get(was.name)
        if each_now is None:
            found.append((f"parameter {was.name!r} is gone", f"Take it again, or {UPCAST}."))
        elif each_now.required and not was.required:
            found.append((f"parameter {was.name!r} has no default any more", f"Give it one, or {UPCAST}."))
        elif not _same_way(was, each_now, old):
            found.append((f"parameter {was.name!r} is passed in another way", f"Take it as before, or {UPCAST}."))
        elif not _reads(each_now, was):
            found.append((_changed("parameter", was, each_now), f"Accept both, or {UPCAST}."))
    if not found and (moved := _moved(old, new)) is not None:
        found.append((f"parameter {moved!r} has another position", f"Put new parameters behind it, or {UPCAST}."))
    return found


def _changed(what: str, was: ParameterRecord, now: ParameterRecord) -> str:
    if was.annotation == now.annotation:
        return f"{what} {was.name!r} is {was.annotation!s:.80}, which has changed"
    return f"{what} {was.name!r} was {was.annotation!s:.80} and is {now.annotation!s:.80}"


def _reads(now: ParameterRecord, was: ParameterRecord) -> bool:
    # A set and a list have the same schema, but not every list can become a set.
    sets = "set[" in now.annotation.lower() and "set[" not in was.annotation.lower()
    return not sets and accepts(now.schema, was.schema)


def _same_way(was: ParameterRecord, now: ParameterRecord, old: Sequence[ParameterRecord]) -> bool:
    """Whether a call may pass the argument in each way in which the old code let it be passed."""
    if was.kind == now.kind:
        return True
    takes_any_name = any(each.kind == "others" for each in old)
    return now.kind == "any" and was.kind in {"positional", "named"} and not takes_any_name


def _moved(old: Sequence[ParameterRecord], new: Sequence[ParameterRecord]) -> str | None:
    """The first parameter that another position has now; None if each is where it was."""
    places = [each.name for each in new if each.kind in {"positional", "any"}]
    for index, was in enumerate(each for each in old if each.kind in {"positional", "any"}):
        if index >= len(places) or places[index] != was.name:
            return was.name
    more = next((each.name for each in old if each.kind == "more"), None)
    return more if more is not None and len(places) != sum(each.kind in {"positional", "any"} for each in old) else None
