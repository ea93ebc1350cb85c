"""Entries of an inbox, read into jobs. (What makes one unreadable is in the conformance suite, for every store.)"""

from __future__ import annotations

import pytest

from tenure.core import checks
from tenure.core.codec import ANY_CALL, JsonArguments
from tenure.core.inbox import UNREAD, read
from tenure.errors import InvalidName


@pytest.mark.parametrize(
    ("entry", "payload"),
    [
        (b'{"task":"t"}', b"{}"),
        (b'{"task":"t","args":[],"kwargs":{}}', b"{}"),
        (b'{ "args" : [ 1.10, "\xc3\xa9" ] , "task" : "t" }', b'{"args":[ 1.10, "\xc3\xa9" ]}'),
        (b'{"kwargs":{"a":{"b":[null]}},"task":"t"}', b'{"kwargs":{"a":{"b":[null]}}}'),
        (b'{"task":"t","kwargs":{"x":12345678901.123456789012345},"args":[1]}',
         b'{"args":[1],"kwargs":{"x":12345678901.123456789012345}}'),
        (b'{"task":"t","version":1,"args":[1]}', b'{"args":[1]}'),
    ],
)  # fmt: skip
def test_arguments_become_a_payload_byte_for_byte(entry: bytes, payload: bytes) -> None:
    job, error = read("q", entry)

    assert error is None
    assert (job.task, job.queue, job.payload, job.raw) == ("t", "q", payload, False)
    JsonArguments(ANY_CALL, {}, 1000).decode(payload)


@pytest.mark.parametrize(
    ("entry", "payload"),
    [
        (b'{"task":"t","version":2}', b'{"v":2}'),
        (b'{"args":[1],"kwargs":{"a":2},"version":30,"task":"t"}', b'{"v":30,"args":[1],"kwargs":{"a":2}}'),
    ],
)
def test_an_entry_may_say_its_version(entry: bytes, payload: bytes) -> None:
    job, error = read("q", entry)

    assert error is None
    assert job.payload == payload


@pytest.mark.parametrize("version", [b"0", b"-1", b"1.5", b"true", b'"2"', b"null"])
def test_a_version_is_an_integer_of_at_least_1(version: bytes) -> None:
    job, error = read("q", b'{"task":"t","version":%s}' % version)

    assert error is not None
    assert job.task == UNREAD


def test_every_entry_without_an_id_is_another_job() -> None:
    assert read("q", b'{"task":"t"}')[0].id != read("q", b'{"task":"t"}')[0].id


def test_null_means_what_none_means() -> None:
    job, error = read("q", b'{"task":"t","max_attempts":null,"keep":null,"unique":null,"window":null,"expires":null}')

    assert error is None
    assert (job.max_attempts, job.keep, job.unique, job.window, job.expires) == (0, None, None, None, None)


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2027-01-01T00:00:00.5Z"])
def test_an_instant_may_be_any_that_there_is(at: str) -> None:
    job, error = read("q", b'{"task":"t","run_at":"%s"}' % at.encode())

    assert error is None
    assert job.run_at is not None


def test_an_error_is_one_line_that_every_store_can_hold() -> None:
    _, error = read("q", b'{"task":"t","x\\n\\u0000y":1}')

    assert error is not None
    assert error.message == "the entry is not a call of a task: Object contains unknown field `x \\0y`"


def test_no_task_can_have_the_name_of_what_could_not_be_read() -> None:
    job, _ = read("q", b"nonsense")

    assert job.task == UNREAD
    with pytest.raises(InvalidName):
        checks.name("task", job.task)


def test_the_limit_is_that_of_the_whole_entry() -> None:
    entry = b'{"task":"t","args":[1]}'

    assert read("q", entry, len(entry))[1] is None
    assert read("q", entry, len(entry) - 1)[1] is not None
