"""Entries of Resque: what is read of those that clients have written, what is written for them, and what a failure shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.bridges.custody import End
from tenure.bridges.resque.entries import payload_of, read_entry, written_entry
from tenure.bridges.resque.records import backtrace, dead_worker, failure_of, seconds_of
from tenure.core.failure import describe_exception
from tenure.core.job import State
from tenure.errors import PayloadError
from tests.bridges.golden import commands, golden

WRAPPER = "ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper"


def pushed(trace: str) -> list[str]:
    """The entries that the clients of a trace have pushed to queues."""
    return [
        words[2] for words in commands(trace) if words[0] == "RPUSH" and words[1].startswith(("resque:queue:", "resque:delayed:"))
    ]  # fmt: skip


@pytest.mark.parametrize("entry", [*pushed("resque-ruby"), *pushed("resque-node"), *pushed("resque-pyres")])
def test_an_entry_of_every_client_is_read_by_its_members(entry: str) -> None:
    written = json.loads(entry)
    if "12345678901234567890" in entry or "12345678901234567000" in entry:
        with pytest.raises(PayloadError, match="more than 64 bits"):
            read_entry(entry.encode())
        return

    call = read_entry(entry.encode())

    assert (call.name, call.args, call.kwargs) == (written["class"], written["args"], {})


def test_the_traces_have_entries_of_three_clients() -> None:
    assert all(len(pushed(trace)) >= 3 for trace in ("resque-ruby", "resque-node", "resque-pyres"))


def test_the_entries_of_rails_are_unwrapped() -> None:
    calls = [read_entry(entry.encode()) for entry in pushed("resque-activejob")]

    assert [(call.name, call.args, call.kwargs) for call in calls] == [
        ("Mail", [1, "ü", {"k": [1.5, None]}], {}),
        ("Mail", [2], {"to": "ann", "at": "2030-01-01T00:00:00.000000000Z"}),
        ("Mail", [], {}),
    ]


def rails(*arguments: Any) -> bytes:
    return json.dumps({"class": WRAPPER, "args": [{"job_class": "Mail", "arguments": arguments}]}).encode()


def serialized(kind: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"_aj_serialized": f"ActiveJob::Serializers::{kind}Serializer", "value": value, **more}


@pytest.mark.parametrize(
    ("argument", "args", "kwargs"),
    [
        ({"to": "ann", "_aj_ruby2_keywords": ["to"]}, [], {"to": "ann"}),
        ({"to": "ann", "_aj_symbol_keys": ["to"]}, [], {"to": "ann"}),
        ({"to": "ann", "at": 1, "_aj_symbol_keys": ["to"]}, [{"to": "ann", "at": 1}], {}),
        ({"_aj_symbol_keys": []}, [{}], {}),
        ({"_aj_ruby2_keywords": []}, [], {}),
        ({"k": 1, "_aj_hash_with_indifferent_access": True}, [{"k": 1}], {}),
        ({"_aj_globalid": "gid://shop/Order/7"}, [{"_aj_globalid": "gid://shop/Order/7"}], {}),
        (serialized("Duration", 90, parts=[]), [90], {}),
        (serialized("Date", "2030-01-01"), ["2030-01-01"], {}),
        (serialized("TimeWithZone", "2030-01-01T00:00:00Z", time_zone="UTC"), ["2030-01-01T00:00:00Z"], {}),
        (serialized("Symbol", "urgent"), ["urgent"], {}),
        ([{"at": serialized("Time", "2030-01-01T00:00:00Z"), "_aj_symbol_keys": ["at"]}],
         [[{"at": "2030-01-01T00:00:00Z"}]], {}),
    ],
)  # fmt: skip
def test_an_argument_of_rails_becomes_a_plain_value(argument: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    call = read_entry(rails(argument))

    assert (call.args, call.kwargs) == (args, kwargs)


@pytest.mark.parametrize(
    ("entry", "args"),
    [
        (b'{"class":"A"}', []),
        (b'{"class":"A","args":null}', []),
        (b'{"class":"A","args":{"k":1}}', [{"k": 1}]),
        (b'{"class":"A","args":"x","other":[1]}', ["x"]),
        (b'  {"args" : [1.5] , "class":"A"}  ', [1.5]),
    ],
)
def test_arguments_that_are_no_list_are_one_argument_and_missing_ones_are_none(entry: bytes, args: list[Any]) -> None:
    assert read_entry(entry).args == args


UNREADABLE = [b"", b"\xff\xfe\x00", b"{", b"[1]", b'"A"', b"{}", b'{"class":7}', b'{"class":"A"} x', b"null"]


@pytest.mark.parametrize("entry", [*UNREADABLE, rails()[:-1], b'{"class":"%s","args":[{}]}' % WRAPPER.encode()])
def test_what_is_no_call_is_refused(entry: bytes) -> None:
    with pytest.raises(PayloadError):
        read_entry(entry)


@pytest.mark.parametrize("entry", UNREADABLE)
def test_an_unreadable_entry_is_shown_as_an_object_that_every_tool_can_show(entry: bytes) -> None:
    shown = json.loads(payload_of(entry))

    assert shown == {"class": "(unreadable)", "args": [entry.decode(errors="backslashreplace")]}


@pytest.mark.parametrize("depth", [63, 64, 65, 3000])
def test_lists_nest_at_most_as_deep_as_in_a_job(depth: int) -> None:
    entry = b'{"class":"A","args":[%s1%s]}' % (b"[" * depth, b"]" * depth)
    if depth <= 64:
        assert len(read_entry(entry).args) == 1
    else:
        with pytest.raises(PayloadError):
            read_entry(entry)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(VALUES, max_size=4), st.sampled_from(["ruby", "node"]), st.booleans())
def test_what_is_written_is_read_again_and_shown_as_it_is(args: list[Any], client: Any, delayed: bool) -> None:
    entry = written_entry("Demo::Job", tuple(args), queue="math", client=client, delayed=delayed)

    assert read_entry(entry).args == args
    assert payload_of(entry) == entry
    assert json.loads(entry).get("queue") == ("math" if delayed or client == "node" else None)


@given(st.binary(max_size=40))
def test_no_bytes_can_do_more_than_be_refused(entry: bytes) -> None:
    try:
        read_entry(entry)
    except PayloadError:
        assert isinstance(json.loads(payload_of(entry))["args"], list)


@pytest.mark.parametrize(
    ("trace", "scene", "client"), [("resque-ruby", "enqueue", "ruby"), ("resque-node", "enqueue", "node")]
)
def test_an_entry_has_the_bytes_of_the_client(trace: str, scene: str, client: Any) -> None:
    [entry] = [words[3] for words in golden(trace, scene).commands if words[1] == "RPUSH"]

    assert written_entry(json.loads(entry)["class"], (1, 2), queue="math", client=client) == entry.encode()


@pytest.mark.parametrize("value", [float("nan"), 2**64, {1, 2}, {1: 2}, object(), b"x"])
def test_an_argument_that_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(PayloadError, match="the arguments of 'A'"):
        written_entry("A", (value,), queue="math")


# Failures.


def raised() -> BaseException:
    try:
        try:
            raise KeyError("inner\nline")
        except KeyError as error:
            raise ValueError("outer\nsecond line\n  third") from error
    except ValueError as error:
        return error


def test_a_backtrace_is_the_lines_of_the_frames_without_title_and_message() -> None:
    lines = backtrace(describe_exception(raised()).traceback)

    assert [line for line in lines if line.startswith("File ")] == [lines[0], lines[-2]]
    assert lines[-1] == '  raise ValueError("outer\\nsecond line\\n  third") from error'
    assert "The above exception was the direct cause of the following exception:" in lines
    assert backtrace(None) == []
    assert not any("Traceback" in line or "^^" in line for line in lines)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELLED])
def test_what_has_not_failed_has_no_entry_in_the_list_of_failures(state: State) -> None:
    assert failure_of(End("1", state)) == b""


def test_a_failure_without_an_error_says_its_state() -> None:
    assert json.loads(b"{%s}" % failure_of(End("1", State.BROKEN))) == {
        "exception": "Broken",
        "error": "",
        "backtrace": [],
    }


def test_a_dead_worker_fails_its_job_with_the_bytes_of_ruby() -> None:
    scene = golden("resque-ruby-prune", "worker-start")
    before = golden("resque-ruby-prune", "before")
    failed = scene.keys["resque:failed"][0]
    worker = "hostr.tenure:999993+1:math"

    dead = dead_worker(worker, before.keys[f"resque:worker:{worker}"].encode())

    assert dead.before + b"2026/11/17 17:45:45 UTC" + dead.after == failed.encode()


@pytest.mark.parametrize("record", [b"", b"{}", b"no JSON", b'{"queue":"math"}', b'{"queue":"math","payload":[]}'])
def test_a_dead_worker_without_a_job_fails_none(record: bytes) -> None:
    assert dead_worker("h:1:math", record).after == b""


@pytest.mark.parametrize(
    ("heartbeat", "seconds"),
    [
        (b"2026-11-17T17:45:23+00:00", 1794937523.0),
        (b"2026-11-17T19:45:23+02:00", 1794937523.0),
        (b"2026-11-17T17:45:23Z", 1794937523.0),
        (b"2026-11-17T17:45:23", None),
        (b"soon", None),
        (b"\xff", None),
    ],
)
def test_a_heartbeat_is_read_with_its_time_zone(heartbeat: bytes, seconds: float | None) -> None:
    assert seconds_of(heartbeat) == seconds
