"""docs/inbox.schema.json is current, and accepts the entries that workers can read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker, ValidationError  # type: ignore[import-untyped]
from jsonschema.validators import extend  # type: ignore[import-untyped]

from tenure.core.inbox import ENTRY_LIMIT, Entry, read
from tests.inbox_schema import FILE, MORE, written

SCHEMA = json.loads(FILE.read_text())


def pattern(validator: Any, wanted: str, value: Any, schema: Any) -> Iterator[ValidationError]:
    """As JSON Schema has it: in Python `$` also matches before a line feed at the end."""
    if isinstance(value, str) and not re.search(wanted.replace("$", r"\Z"), value):
        yield ValidationError(f"{value!r} does not match {wanted!r}")


VALIDATOR = extend(Draft202012Validator, {"pattern": pattern})(SCHEMA, format_checker=FormatChecker())


def accepted(entry: str) -> bool:
    return bool(VALIDATOR.is_valid(json.loads(entry)))


def readable(entry: str) -> bool:
    return read("q", entry.encode())[1] is None


def test_the_schema_is_current() -> None:
    assert FILE.read_text() == written(), "run: python -m tests.inbox_schema"


def test_it_is_a_schema_of_every_field() -> None:
    Draft202012Validator.check_schema(SCHEMA)

    assert list(SCHEMA["properties"]) == list(Entry.__struct_fields__)
    assert set(MORE) <= set(SCHEMA["properties"])


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,5}", fullmatch=True) | st.sampled_from(["a" * 127, "tenure"])
SECONDS = st.integers(0, 10**9) | st.floats(0, 1e300)
INSTANTS = st.datetimes(timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))))
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)  # fmt: skip

GOOD: dict[str, st.SearchStrategy[Any]] = {
    "args": st.lists(VALUES, max_size=2),
    "kwargs": st.dictionaries(TEXTS, VALUES, max_size=2),
    "version": st.integers(1, 5),
    "id": NAMES,
    "priority": st.integers(-(2**31), 2**31 - 1),
    "delay": SECONDS,
    "run_at": INSTANTS.map(lambda instant: instant.isoformat()),
    "expires": st.none() | SECONDS,
    "unique": st.none() | TEXTS.filter(bool) | st.just("k" * 500),
    "window": st.none() | SECONDS,
    "tags": st.lists(NAMES.filter(lambda name: not name.startswith("tenure:")), max_size=2),
    "keep": st.none() | SECONDS,
    "max_attempts": st.none() | st.integers(1, 2**31 - 1),
    "headers": st.none()
    | st.dictionaries(st.from_regex(r"[a-z0-9-]{1,5}", fullmatch=True), TEXTS, max_size=2)
    | st.just({f"h{n}": "" for n in range(16)}),
}

ODD = st.sampled_from([
    None, True, False, 0, -1, 0.5, -0.5, 2**31, -(2**31) - 1, "", "a b", "a\n", "\n", "-a", "a" * 128, "k" * 501, "a\0b", "ä",
    "tenure:", "2027-01-01T08:00:00", "2027-02-29T08:00:00Z", "2027-13-01T08:00:00Z", "2027-01-01T24:00:00Z", "2027-01-01T08:00:60Z",
    "2027-01-01T08:00Z", "2027-01-01", "2027-01-01T08:00:00+24:00", "2027-01-01T08:00:00Z\n", [], [1], ["a"], ["tenure:a"], [None],
    {}, {"a": "b"}, {"A": "b"}, {"a": 1}, {"a": None}, {"a": "\0"}, {"": ""}, {"a\n": ""}, {"a" * 65: ""},
    {f"h{n}": "" for n in range(17)},
])  # fmt: skip
"""Good for some fields and bad for others."""


@given(
    st.fixed_dictionaries({"task": NAMES}, optional=GOOD),
    st.dictionaries(st.sampled_from(["task", "surplus", *GOOD]), ODD, max_size=2),
    st.booleans(),
)
def test_it_accepts_what_a_worker_can_read_and_nothing_else(
    entry: dict[str, Any], odd: dict[str, Any], ascii_only: bool
) -> None:
    text = json.dumps({**entry, **odd}, ensure_ascii=ascii_only)
    event("accepted" if accepted(text) else "refused")

    assert accepted(text) == readable(text)


@pytest.mark.parametrize(
    "entry", ["{}", "[]", "null", '"t"', '{"args": []}', '{"task": "t", "delay": 1, "run_at": null}']
)
def test_what_is_no_entry_is_refused(entry: str) -> None:
    assert (accepted(entry), readable(entry)) == (False, False)


ONLY_ACCEPTED = {
    "too large": '{"task": "t", "args": ["' + "x" * ENTRY_LIMIT + '"]}',
    "an integer of more than 64 bits": f'{{"task": "t", "args": [{2**64}]}}',
    "nested too deep": '{"task": "t", "args": ' + "[" * 66 + "]" * 66 + "}",
    "too many bytes of headers": '{"task": "t", "headers": {"a": "' + "x" * 2000 + '"}}',
    "too large for a double": '{"task": "t", "delay": 1' + "0" * 400 + "}",
    "half of a pair": '{"task": "t", "args": ["\\ud800"]}',
    "no integer": '{"task": "t", "priority": 2.0}',
}
ONLY_READ = ["2027-01-01 08:00:00Z", "2027-01-01t08:00:00z", "2027-01-01T08:00:00+0100"]


def test_where_the_schema_differs() -> None:
    """As docs/inbox.md says."""
    for why, entry in ONLY_ACCEPTED.items():
        assert (accepted(entry), readable(entry)) == (True, False), why
    no_date = {"task": "t", "run_at": "2027-02-29T08:00:00Z"}
    assert VALIDATOR.evolve(format_checker=None).is_valid(no_date)
    assert (accepted(json.dumps(no_date)), readable(json.dumps(no_date))) == (False, False)
    for run_at in ONLY_READ:
        entry = json.dumps({"task": "t", "run_at": run_at})
        assert (accepted(entry), readable(entry)) == (False, True), run_at
