"""`CodeRecord`: names, versions and parameters of an app's tasks, as `tenure check --record` writes them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.cli.check.schemas import annotation_text, schema_of
from tenure.cli.messages import CommandError
from tenure.core.options import Unset
from tenure.core.versions import VersionedArguments

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.tasks.task import Task

__all__ = ["CodeRecord", "ParameterRecord", "TaskRecord", "parameters_of", "read_record", "record_of", "write_record"]

FORMAT = 1
"""The format of the file. A program reads its own and no other."""


class ParameterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a task."""

    name: str
    kind: str
    """`positional`, `any` (by position or by name), `named`, `more` (`*args`) or `others` (`**kwargs`)."""

    required: bool
    annotation: str
    """The annotation, for people."""

    schema: dict[str, Any]
    """What it reads, as a JSON schema."""


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One task, or one step of a flow."""

    version: int
    queue: str
    raw: bool
    aliases: list[str]
    flow: str | None
    """The name of the flow; None if it is not a step."""

    max_attempts: int | str | None
    """`"default"` if the task leaves it to the worker or the app."""

    lease: float | str
    parameters: list[ParameterRecord]


class CodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of an app by name."""

    tenure: int
    tasks: dict[str, TaskRecord]


KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "any",
    inspect.Parameter.KEYWORD_ONLY: "named",
    inspect.Parameter.VAR_POSITIONAL: "more",
    inspect.Parameter.VAR_KEYWORD: "others",
}


def parameters_of(signature: inspect.Signature, hints: Any) -> list[ParameterRecord]:
    """The parameters of this signature. `results`, which the worker fills in, is not required."""
    return [
        ParameterRecord(
            name=each.name,
            kind=KINDS[each.kind],
            required=each.default is each.empty
            and each.name != "results"
            and each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD},
            annotation=annotation_text(hints.get(each.name, Any)),
            schema=dict(schema_of(hints.get(each.name, Any))),
        )
        for each in signature.parameters.values()
    ]


def record_of(app: App) -> CodeRecord:
    """The record of the tasks that are registered."""
    tasks = {task.name: _record(task) for task in app.tasks.values()}
    return CodeRecord(tenure=FORMAT, tasks=dict(sorted(tasks.items())))


def _record(task: Task[..., Any]) -> TaskRecord:
    options = task.options
    flow = getattr(task, "flow", None)
    return TaskRecord(
        version=options.version,
        queue=options.queue,
        raw=options.raw,
        aliases=[*task.aliases],
        flow=None if flow is None else flow.name,
        max_attempts="default" if isinstance(options.max_attempts, Unset) else options.max_attempts,
        lease="default" if isinstance(options.lease, Unset) else float(options.lease),  # type: ignore[arg-type]
        parameters=parameters_of(task._signature.call, task._signature.hints),
    )


def upcasters_of(task: Task[..., Any]) -> dict[int, list[ParameterRecord]]:
    """The parameters of each upcaster of a task, by the version that it reads."""
    if not isinstance(task._arguments, VersionedArguments):
        return {}
    return {
        version: parameters_of(upcaster.signature, upcaster.hints)
        for version, upcaster in task._arguments.upcasters.items()
    }


def write_record(record: CodeRecord, path: Path) -> None:
    """Write a record as JSON that is easy to compare line by line. `CommandError` if that fails."""
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(record, order="sorted"), indent=1) + b"\n")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror or error}") from error


def read_record(path: Path) -> CodeRecord:
    """Read a record. `CommandError` if there is none that this program can read."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=CodeRecord)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror or error}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} is no file of tenure check --record: {error}") from error
    if record.tenure != FORMAT:
        raise CommandError(f"{path} was written by another Tenure: write it again with tenure check --record {path}")
    return record
