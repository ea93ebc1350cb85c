"""Entries of Worqr and hworker are read and written byte for byte as their own clients read and write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure import App
from tenure.bridges import Hworker, Worqr
from tenure.bridges.custody import Custody, End, Taken
from tenure.bridges.hworker import OnException, Verdict, read_entry, time_text, verdict_of, written_entry
from tenure.bridges.worqr import done_message, entry_of, unique_key
from tenure.core.job import ErrorInfo, State
from tenure.errors import PayloadError

LIMIT = 1_000_000
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
RAISED, LOST = ErrorInfo("ValueError", "no", "Traceback"), ErrorInfo("Lost", "its worker died")


@settings(max_examples=40)
@given(VALUES, st.booleans())
def test_the_json_of_an_hworker_job_is_kept_byte_for_byte(value: Any, ascii_only: bool) -> None:
    job = json.dumps(value, ensure_ascii=ascii_only, separators=(" , ", " : ")).encode(errors="surrogatepass")
    entry = b'[ "5c1c7d8e" ,' + job + b" ]"

    assert read_entry(entry, LIMIT) == job.strip()
    assert read_entry(written_entry("5c1c7d8e", job), LIMIT) == job


@settings(max_examples=40)
@given(VALUES)
def test_the_job_of_an_entry_gets_the_value_that_was_queued(value: Any) -> None:
    hworker = Hworker(APP, "redis://localhost")
    made = hworker.read(Taken("1", "any", written_entry("x", msgspec.json.encode(value))))

    assert handle._decode(made.payload) == ((value,), {})
    assert (made.id, made.task, made.queue, made.max_attempts) == ("1", "hworker:any", "hworker:any", 1)


APP = App("memory://")
WORQR = Worqr(APP, "redis://localhost")
WORQR.queue("mail")(lambda task: None)


@Hworker(APP, "redis://localhost").queue("any")
def handle(job: Any) -> None: ...


@pytest.mark.parametrize(
    "entry",
    [
        b"", b"<mail/>", b"false", b"[]", b'["x"]', b'["x",1,2]', b'[7,{"tag":"Send"}]', b'{"x":1}', b'["x",1]]', b'["x",\xff]',
        b'["x",99999999999999999999]', b'["x",' + b"[" * 70 + b"]" * 70 + b"]", b'["x","' + b"a" * LIMIT + b'"]',
    ],
    ids=lambda entry: entry[:20].decode(errors="replace"),
)  # fmt: skip
def test_what_is_no_job_of_hworker_cannot_be_read(entry: bytes) -> None:
    with pytest.raises(PayloadError):
        read_entry(entry, LIMIT)


@given(st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(timezone(timedelta(hours=2)))))
def test_a_time_has_six_digits_and_the_zone_of_utc(when: datetime) -> None:
    written = json.loads(time_text(when))

    assert len(written) == len("2026-11-17T17:53:41.500000Z")
    assert datetime.strptime(written, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC) == when


@pytest.mark.parametrize(
    ("state", "error", "on_exception", "verdict"),
    [
        (State.SUCCEEDED, None, "fail", Verdict.DROP),
        (State.CANCELLED, None, "retry", Verdict.DROP),
        (State.BROKEN, RAISED, "retry", Verdict.BREAK),
        (State.FAILED, ErrorInfo("Retry", ""), "fail", Verdict.RETRY),
        (State.FAILED, ErrorInfo("Retry", "", "Traceback"), "fail", Verdict.FAIL),  # an exception of this name
        (State.FAILED, ErrorInfo("Fail", ""), "retry", Verdict.FAIL),
        (State.FAILED, RAISED, "fail", Verdict.FAIL),
        (State.FAILED, RAISED, "retry", Verdict.RETRY),
        (State.FAILED, LOST, "retry", Verdict.FAIL),
    ],
)
def test_the_end_of_a_job_decides_what_becomes_of_its_entry(
    state: State, error: ErrorInfo | None, on_exception: OnException, verdict: Verdict
) -> None:
    assert verdict_of(End("1", state, error=error), on_exception) is verdict


@given(st.binary())
def test_a_task_of_worqr_is_passed_on_byte_for_byte(task: bytes) -> None:
    made = WORQR.read(Taken("1", "mail", entry_of(task)))

    assert (made.payload, made.raw, made.task, made.queue) == (task, True, "worqr:mail", "worqr:mail")


@given(st.binary(), st.text())
def test_custody_keeps_every_byte(entry: bytes, queue: str) -> None:
    stored = json.dumps(["owner", queue, 7, False]).encode() + b"\n" + entry

    assert Custody.decoded(b"1", stored).taken == Taken("1", queue, entry)


@given(st.text(), VALUES)
def test_what_is_told_of_a_task_is_json_with_its_result(task: str, result: Any) -> None:
    told = json.loads(done_message("w", entry_of(task), msgspec.json.encode(result).decode()))

    assert told == {"workerId": "w", "task": task} | ({} if result is None else {"result": result})


def test_messages_and_keys_are_those_of_the_client() -> None:
    assert done_message("w0", b"t1", None) == b'{"workerId":"w0","task":"t1"}'
    assert done_message("w9", b"t1", '{"ok":1}') == b'{"workerId":"w9","task":"t1","result":{"ok":1}}'
    assert json.loads(done_message("w0", b"\xff", None))["task"] == "\ufffd"
    assert unique_key(b"t1") == "83f1535f99ab0bf4e9d02dfd85d3e3f7"
