"""Pickles of other systems are read as data: whatever `pickle` writes of plain data comes out, and nothing is ever run."""

from __future__ import annotations

import base64
import contextlib
import decimal
import functools
import operator
import os
import pickle
import pickletools
import subprocess
import sys
import uuid
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenure.bridges.importing import inert
from tenure.bridges.importing.inert import InertError, Record, read_pickle

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=5, minutes=30)))),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.uuids(),
)
HASHABLE = st.one_of(st.none(), st.integers(), st.text(), st.binary(), st.dates(), st.uuids())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(HASHABLE, inner, max_size=4),
        st.sets(HASHABLE, max_size=4),
        st.frozensets(HASHABLE, max_size=4),
    ),
    max_leaves=20,
)


@given(value=VALUES, protocol=st.integers(0, pickle.HIGHEST_PROTOCOL))
@example(value=[[], [], {}], protocol=0)
@example(value=bytes(300), protocol=2)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_plain_data_comes_out_as_it_went_in(value: Any, protocol: int) -> None:
    data = pickle.dumps(value, protocol)

    read = read_pickle(data)

    assert (read, type(read)) == (value, type(value))
    assert read_pickle(pickletools.optimize(data)) == value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_is_shared_stays_shared_and_a_bytearray_becomes_bytes(protocol: int) -> None:
    shared = ["x" * 300]
    day = datetime(2030, 1, 1, tzinfo=UTC)
    number = uuid.UUID(int=7)
    value = {"a": shared, "b": (shared, shared), "c": [day, day], "d": [number, number], "e": bytearray(b"\x00\xff")}

    assert read_pickle(pickle.dumps(value, protocol)) == value


class Reduced:
    """Pickles as a call of any function."""

    def __init__(self, function: Any, *args: Any) -> None:
        self._call = function, args

    def __reduce__(self) -> tuple[Any, ...]:
        return self._call


HOSTILE = {
    "system": (Reduced(os.system, "echo hostile > hostile"), "<posix.system of ('echo hostile > hostile',)>"),
    "popen": (Reduced(subprocess.Popen, "touch hostile", -1), ".Popen of ('touch hostile', -1)>"),
    "eval": (Reduced(eval, "open('hostile', 'w')"), "<builtins.eval of"),
    "within": ({"a": [1, (Reduced(os.system, "touch hostile"),)]}, "<posix.system of"),
    "a key": ({Reduced(os.getcwd): 1}, "<posix.getcwd of ()>"),
    "nested": (Reduced(functools.partial, os.system, "touch hostile"), "<functools.partial of (<posix.system>"),
    "method": (Reduced(operator.methodcaller, "system"), "<operator.methodcaller of ('system',)>"),
    "path": (Path("x"), "<pathlib.PosixPath of"),
    "a class": (os.system, "<posix.system>"),
    "a decimal": (Reduced(decimal.Decimal, ("x",)), "decimal"),
    "an encoding": (Reduced(__import__("_codecs").encode, "x", "rot13"), "encodes text"),
    "an import": (Reduced(__import__, "hostile"), "<builtins.__import__ of ('hostile',)>"),
}


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", HOSTILE)
def test_a_pickle_that_would_call_something_is_named_and_runs_nothing(
    name: str, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    value, says = HOSTILE[name]

    with pytest.raises(InertError) as caught:
        read_pickle(pickle.dumps(value, protocol))

    assert says in str(caught.value)
    assert list(tmp_path.iterdir()) == []


HAND_MADE = {
    "inst": b"(S'touch hostile'\nios\nsystem\n.",
    "obj": b"(cos\nsystem\nX\x0d\x00\x00\x00touch hostileo.",
    "persistent": b"Phostile\n.",
    "binary persistent": b"X\x01\x00\x00\x00xQ.",
    "extension": b"\x82\x01.",
    "buffer": b"\x80\x05\x97.",
    "string of Python 2": b"S'x'\n.",
    "no end": b"\x80\x04K\x01",
    "empty": b"",
    "nothing on the stack": b"\x80\x04.",
    "two values": b"\x80\x04K\x01K\x02.",
    "a mark that is not there": b"\x80\x04t.",
    "an open mark": b"\x80\x04(K\x01.",
    "a memo that is not there": b"\x80\x04h\x07.",
    "added to a number": b"\x80\x04K\x01K\x02a.",
    "a list in a set": b"\x80\x04\x8f(]\x90.",
    "half a pair": b"\x80\x04}(K\x01u.",
    "names that are numbers": b"\x80\x04K\x01K\x02\x93.",
    "a state for a list": b"\x80\x04]}b.",
    "no such month": pickle.dumps(date(2030, 1, 1), 4).replace(b"\x07\xee\x01\x01", b"\x07\xee\x0d\x01"),
    "text as a duration": pickle.dumps(timedelta(1), 0).replace(b"I1\n", b"Vx\n"),
}


@pytest.mark.parametrize("name", HAND_MADE)
def test_a_pickle_that_pickle_never_writes_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InertError):
        read_pickle(HAND_MADE[name])

    assert list(tmp_path.iterdir()) == []


@given(data=st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(InertError):
        read_pickle(b"\x80\x04" + data)


@given(seed=VALUES, cuts=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=4))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_pickle_is_read_or_refused(seed: Any, cuts: list[tuple[int, int]]) -> None:
    data = bytearray(pickle.dumps(seed, 2))
    for position, byte in cuts:
        data[position % len(data)] = byte
    with contextlib.suppress(InertError):
        read_pickle(bytes(data))


def laughs(kind: type, times: int = 60) -> Any:
    """A small pickle of something that has no end once it is written out."""
    value = kind(["ha"])
    for _ in range(times):
        value = kind([value, value])
    return value


@pytest.mark.parametrize(
    "value",
    [
        laughs(list),
        laughs(tuple),
        {"key": laughs(tuple)},
        Reduced(os.system, laughs(tuple)),
        [Reduced(os.system, [laughs(list)] * 9)] * 9,
        Reduced(decimal.Decimal, laughs(list)),
    ],
    ids=["lists", "tuples", "in a dict", "in a call", "in many calls", "in a decimal"],
)
def test_data_that_grows_when_it_is_written_out_is_refused_at_once(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inert, "MOST_BYTES", 100_000)

    with pytest.raises(InertError):
        read_pickle(pickle.dumps(value))


def test_a_key_that_takes_for_ever_to_hash_is_refused_at_once() -> None:
    # pickle itself would never come back from this, so it is written by hand: the tuple twice, 60 times, as a key.
    data = b"\x80\x04}K\x01" + b"2\x86" * 60 + b"K\x01s."

    with pytest.raises(InertError, match="bytes"):
        read_pickle(data)


def test_size_depth_and_operations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: list[Any] = []
    for _ in range(inert.MOST_DEPTH + 1):
        deep = [deep]
    around: list[Any] = []
    around.append(around)

    for value in (deep, around):
        with pytest.raises(InertError, match="deep"):
            read_pickle(pickle.dumps(value))
    monkeypatch.setattr(inert, "MOST_OPCODES", 100)
    with pytest.raises(InertError, match="operations"):
        read_pickle(pickle.dumps(list(range(200))))
    with pytest.raises(InertError, match="more than"):
        read_pickle(bytes(inert.MOST_BYTES + 1))


def test_a_record_that_is_accepted_by_name_comes_out_as_its_fields() -> None:
    data = base64.b64decode(
        "gAWVcwAAAAAAAACMDWh1ZXkucmVnaXN0cnmUjAdNZXNzYWdllJOUKIwkOWM3MTdhNDgtZTNlMy00NWYyLWE2NmYtOGI1ZWVhZDNjNjdilIwMX19t"
        "YWluX18uYWRklE5LAksFTksBhZR9lIwBYpRLAnNOTk5OTk5LAHSUgZQu"
    )

    assert isinstance(found := read_pickle(data, {"huey.registry.Message"}), Record)
    assert found.fields[1:8] == ("__main__.add", None, 2, 5, None, (1,), {"b": 2})
    with pytest.raises(InertError, match=r"<huey.registry.Message of"):
        read_pickle(data)


def test_the_reader_does_not_know_the_module_pickle() -> None:
    program = "import sys, tenure.bridges.importing.inert as i; print(hasattr(i, 'pickle'), 'loads' in dir(i))"

    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        == "False False\n"
    )
