"""`ScheduleForm` reads the form of a schedule: what it enqueues, when, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.core.after import BoundCall
from tenure.core.checks import name as checked_name
from tenure.core.when import At, Cron, Every, When, zone_of
from tenure.errors import InvalidSchedule, UnknownTask
from tenure.tasks.task import Call

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.core.schedule import Plan

__all__ = ["FIELDS", "ScheduleForm", "fields_of"]

FIELDS = ("name", "kind", "target", "arguments", "first", "queue", "how", "when", "timezone", "overlap", "catch_up")
"""Names of the fields of the form."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class ScheduleForm:
    """What was typed into the form. Each method raises a `TenureError` whose sentence says what is wrong."""

    def __init__(self, app: App, fields: Mapping[str, str]) -> None:
        self._app = app
        self._fields = {name: fields.get(name, "").strip() for name in FIELDS}

    @property
    def name(self) -> str:
        return checked_name("schedule", self._fields["name"])

    @property
    def has_when(self) -> bool:
        return bool(self._fields["when"])

    @property
    def when(self) -> When:
        """When it fires."""
        text, zone = self._fields["when"], self._fields["timezone"] or "UTC"
        if not text:
            raise InvalidSchedule("say when the schedule fires, such as 0 3 * * * for a cron")
        match self._fields["how"]:
            case "cron":
                return Cron(text, zone)
            case "every":
                return Every(_seconds(text))
            case "at":
                return At(_instant(text, zone))
        raise InvalidSchedule("a schedule fires by cron, every or at")

    @property
    def options(self) -> dict[str, Any]:
        """Overlap and catch-up, where they were given."""
        options: dict[str, Any] = {each: self._fields[each] for each in ("overlap", "catch_up") if self._fields[each]}
        if str(options.get("catch_up", "")).isdecimal():
            options["catch_up"] = int(options["catch_up"])
        return options

    @property
    def call(self) -> BoundCall | None:
        """What it enqueues; None if the form names no task or flow."""
        target = self._fields["target"]
        if not target:
            if self._fields["arguments"]:
                raise InvalidSchedule("these are arguments of what? Name the task or the flow")
            return None
        options = {"queue": self._fields["queue"]} if self._fields["queue"] else {}
        try:
            if self._fields["kind"] == "flow":
                return self._start(checked_name("flow", target), options)
            return self._call(checked_name("task", target), options)
        except (TypeError, msgspec.MsgspecError) as error:
            raise InvalidSchedule(f"the arguments do not fit: {error}") from None

    def plan(self) -> Plan:
        """The plan of a new schedule."""
        from tenure.jobs.plans import plan_of

        call = self.call
        if call is None:
            raise InvalidSchedule("say what the schedule enqueues: a task or a flow")
        return plan_of(call, self.when, self.options)  # type: ignore[arg-type]

    def _arguments(self) -> Any:
        text = self._fields["arguments"]
        if not text:
            return {}
        try:
            return msgspec.json.decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidSchedule(f"the arguments are no JSON: {error}") from None

    def _call(self, task: str, options: Mapping[str, Any]) -> BoundCall:
        given = self._arguments()
        if not isinstance(given, dict | list):
            raise InvalidSchedule('arguments are a JSON object by name, such as {"month": "2027-01"}, or a list')
        remote = self._app.remote(task, queue=self._app.options.default_queue or "default")
        payload = (remote.bind(**given) if isinstance(given, dict) else remote.bind(*given)).payload
        if not self._app.tasks:
            return Call(remote.using(**options), payload)
        known = self._app.tasks.get(task)
        if known is None:
            raise UnknownTask(task, self._app.tasks)
        if known.options.raw:
            raise InvalidSchedule(f"task {task} takes raw bytes, not JSON: schedule it from a program")
        if known._is_step:
            known.bind()  # raises, and says that a flow is started instead
        known._call_arguments(payload, None)
        return Call(known.using(**options), payload)

    def _start(self, name: str, options: Mapping[str, Any]) -> BoundCall:
        given = self._arguments()
        if not isinstance(given, dict):
            raise InvalidSchedule('attributes of a flow are a JSON object by name, such as {"customer": "c1"}')
        flow = self._app.internals.flows.get(name)
        if flow is not None:
            return flow.using(**options).bind(**flow._converted(given))
        if self._app.tasks:
            known = ", ".join(sorted(self._app.internals.flows)) or "none"
            raise InvalidSchedule(f"the app has no flow {name!r:.80}: it has {known}")
        if not self._fields["first"]:
            raise InvalidSchedule(f"name the first step of flow {name}, because its code is not here")
        queue = self._app.options.default_queue or "default"
        return self._app.remote_flow(name, first=self._fields["first"], queue=queue).using(**options).bind(**given)


def fields_of(when: When) -> dict[str, str]:
    """The fields of the form that say when an existing schedule fires."""
    match when:
        case Cron():
            return {"how": "cron", "when": when.text, "timezone": when.timezone}
        case Every():
            return {"how": "every", "when": f"{when.seconds:g}s", "timezone": ""}
    return {"how": "at", "when": when.instant.isoformat(timespec="seconds"), "timezone": ""}


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidSchedule(f"every needs a duration, got {text!r:.80}: write seconds, or 90s, 15m, 2h or 1d")
    return float(found[1]) * _UNITS[found[2].lower()]


def _instant(text: str, zone: str) -> datetime:
    """A time in ISO 8601; without an offset, in this time zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidSchedule(f"at needs a time such as 2027-03-01T09:00Z, got {text!r:.80}") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=zone_of(zone))
