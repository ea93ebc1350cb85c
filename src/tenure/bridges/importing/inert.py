"""`read_pickle`: reads the plain data of a pickle without unpickling it. Nothing that it names is imported or run."""

from __future__ import annotations

import datetime as dt
import decimal
import pickletools
import reprlib
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["MOST_BYTES", "InertError", "Record", "read_pickle"]

MOST_BYTES = 16 * 1024 * 1024
"""Bytes that a pickle may have, and that its data may have once everything that it refers to twice is written twice."""

MOST_OPCODES = 500_000
MOST_DEPTH = 100
MOST_HASHED = 10_000
"""Bytes that a key of a dict, or a member of a set, may have once it is written out."""

NODE = 32
"""Bytes that every value counts for, beside those of a text or a long number."""

SHOWN = 200
"""Characters of a value that is not plain data, in the error about it."""


class InertError(Exception):
    """A pickle has something in it that is not plain data, or is damaged; says what."""


@dataclass(frozen=True, slots=True)
class Name:
    """A class or function that the pickle names. It is not looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    def __repr__(self) -> str:
        return f"<{self}>"[:SHOWN]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unread:
    """What the pickle would have called or made."""

    name: Any
    shown: str
    """Its arguments. Written at once, because what they hold may be shared so often that it has no end once it is written out."""

    def __repr__(self) -> str:
        what = str(self.name) if isinstance(self.name, Name) else "something"
        return f"<{what} of {self.shown}>"[:SHOWN]


@dataclass(frozen=True, slots=True)
class Record:
    """A named tuple that the caller of `read_pickle` accepts by name: its fields in order."""

    name: str
    fields: tuple[Any, ...]


_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxtuple, _REPR.maxlist, _REPR.maxdict, _REPR.maxset, _REPR.maxfrozenset = 3, 4, 4, 4, 4, 4
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80


def _unread(name: Any, args: Any) -> Unread:
    return Unread(name, _REPR.repr(args))


def read_pickle(data: bytes, records: Collection[str] = ()) -> Any:
    """The value of a pickle of plain data. Raises `InertError` if there is anything else in it, or too much.

    Plain data is None, booleans, numbers, texts, bytes, lists, tuples, dicts and sets of these, and dates, times, durations, decimals
    and UUIDs. `records` names named tuples that are accepted too. The opcodes are those that `pickletools` lists, which runs none of
    them; those that build plain data are carried out on a stack of our own, and the others end the reading.
    """
    if len(data) > MOST_BYTES:
        raise InertError(f"the pickle has {len(data):,} bytes, more than {MOST_BYTES:,}")
    machine = _Machine(frozenset(records))
    try:
        end: int | None = 0
        for count, (opcode, argument, end) in enumerate(pickletools.genops(data)):  # noqa: B007
            if count > MOST_OPCODES:
                raise InertError(f"the pickle has more than {MOST_OPCODES:,} operations")
            step = _STEPS.get(opcode.name)
            if step is None:
                raise InertError(f"the pickle has an operation that is never read, {opcode.name}")
            step(machine, argument)
        [value] = machine.stack
        if machine.below or end != len(data) - 1:
            raise InertError("the pickle is damaged, or something such as a signature follows it")
    except InertError:
        raise
    except Exception as error:
        raise InertError(f"the pickle is damaged: {type(error).__name__}: {error!s:.100}") from error
    _check(value, MOST_BYTES)
    return value


class _Machine:
    """The stack, the marks on it and the memo of a pickle."""

    def __init__(self, records: frozenset[str]) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        """The stacks below each mark."""

        self.memo: dict[int, Any] = {}
        self.records = records

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def pop_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def replace_top(self, count: int, make: Callable[..., Any]) -> None:
        """Replace the last `count` values by what `make` makes of them."""
        if len(self.stack) < count:
            raise IndexError("the stack is too short")
        values = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        self.stack.append(make(*values))

    def called(self, name: Any, args: Any, keywords: Any = None) -> Any:
        """What a call gives, if it is one of those that make plain data; else a note of it."""
        if isinstance(name, Name) and type(args) is tuple and not keywords:
            if str(name) in self.records:
                return Record(str(name), args)
            make = _MAKERS.get(str(name))
            if make is not None:
                return make(*args)
        return _unread(name, args)

    def built(self, value: Any, state: Any) -> Any:
        """A value with its state set. Only a UUID has one that is plain data."""
        if isinstance(value, Unread) and str(value.name) == "uuid.UUID" and isinstance(state, dict):
            number = state.get("int")
            if type(number) is int and 0 <= number < 1 << 128:
                return uuid.UUID(int=number)
        return value if isinstance(value, Unread) else _unread(Name("object", "with_state"), (state,))

    # Steps that need more than a line.

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise InertError(f"the pickle would add to {_REPR.repr(target)}")
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict:
            raise InertError(f"the pickle would add to {_REPR.repr(target)}")
        target.update(_paired(items))

    def add_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not set:
            raise InertError(f"the pickle would add to {_REPR.repr(target)}")
        target.update(_hashed(items))

    def remember(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def stack_global(self) -> None:
        self.replace_top(2, _name)

    def built_top(self) -> None:
        # The value that was there is what the memo has too; the last one built wins, as in unpickling.
        before = self.stack[-2]
        self.replace_top(2, self.built)
        for index, value in self.memo.items():
            if value is before:
                self.memo[index] = self.stack[-1]
                break


def _name(module: Any, name: Any) -> Name:
    if type(module) is not str or type(name) is not str:
        raise InertError("the pickle names something that has no name")
    return Name("builtins" if module == "__builtin__" else module, name)


# What may be called, each by a function of our own that takes nothing but plain data.


def _encoded(text: Any = "", encoding: Any = "latin1") -> bytes:
    """`_codecs.encode`, which older protocols write bytes with."""
    if type(text) is not str or encoding != "latin1":
        raise InertError("the pickle encodes text in a way that bytes are not written")
    return text.encode("latin1")


def _bytes(value: Any = b"") -> bytes:
    if type(value) is not bytes:
        raise InertError("the pickle makes bytes of something else")
    return value


def _bytearray(value: Any = b"", encoding: Any = "latin-1") -> bytes:
    return _encoded(value, "latin1") if type(value) is str and encoding == "latin-1" else _bytes(value)


def _set(items: Any = ()) -> set[Any]:
    if type(items) is not list:
        raise InertError("the pickle makes a set of something that is no list")
    return set(_hashed(items))


def _whole(*numbers: Any) -> None:
    if any(type(number) is not int for number in numbers):
        raise InertError("the pickle makes a time of something that is no number")


def _state(value: Any, length: int) -> bytes:
    """The bytes of a date or time."""
    if type(value) is str:
        value = value.encode("latin1")
    if type(value) is not bytes or len(value) != length:
        raise InertError("the pickle makes a date or time of something that is none")
    found: bytes = value
    return found


def _date(state: Any) -> dt.date:
    high, low, month, day = _state(state, 4)
    return dt.date(high * 256 + low, month, day)


def _datetime(state: Any, zone: Any = None) -> dt.datetime | Unread:
    high, low, month, day, hour, minute, second, *micros = _state(state, 10)
    if zone is not None and not isinstance(zone, dt.timezone):
        return _unread(Name("datetime", "datetime"), (state, zone))
    year, micro, fold = high * 256 + low, int.from_bytes(bytes(micros), "big"), month >> 7
    return dt.datetime(year, month & 127, day, hour, minute, second, micro, zone, fold=fold)


def _timedelta(days: Any = 0, seconds: Any = 0, micros: Any = 0) -> dt.timedelta:
    _whole(days, seconds, micros)
    return dt.timedelta(days, seconds, micros)


def _timezone(offset: Any) -> dt.timezone:
    if not isinstance(offset, dt.timedelta):
        raise InertError("the pickle makes a time zone of something that is no duration")
    return dt.timezone(offset)


def _decimal(text: Any) -> decimal.Decimal:
    if type(text) is not str or len(text) > 1000:
        raise InertError("the pickle makes a decimal of something that is no number")
    return decimal.Decimal(text)


def _reconstructed(kind: Any, base: Any, state: Any) -> Unread:
    """`copyreg._reconstructor`, which the oldest protocols make objects with."""
    return _unread(kind, () if base == Name("builtins", "object") and state is None else (state,))


_MAKERS: Final[Mapping[str, Callable[..., Any]]] = {
    "_codecs.encode": _encoded,
    "builtins.bytes": _bytes,
    "builtins.bytearray": _bytearray,
    "builtins.set": _set,
    "builtins.frozenset": lambda items=(): frozenset(_set(items)),
    "copyreg._reconstructor": _reconstructed,
    "copy_reg._reconstructor": _reconstructed,
    "datetime.date": _date,
    "datetime.datetime": _datetime,
    "datetime.timedelta": _timedelta,
    "datetime.timezone": _timezone,
    "decimal.Decimal": _decimal,
}


def _global(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.stack.append(_name(module, name))


def _push(machine: _Machine, argument: Any) -> None:
    machine.stack.append(argument)


def _from_mark(make: Callable[[list[Any]], Any]) -> Callable[[_Machine, Any], None]:
    def step(machine: _Machine, argument: Any) -> None:  # noqa: ARG001
        items = machine.pop_mark()
        machine.stack.append(make(items))

    return step


def _of_top(count: int) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.replace_top(count, lambda *values: values)


def _new(make: Callable[[], Any]) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.stack.append(make())


def _paired(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(_hashed(items[::2]), items[1::2], strict=True))


def _hashed(items: list[Any]) -> list[Any]:
    """The items, which are to be hashed. That takes as long as writing them out, so it is bounded too."""
    for item in items:
        if not isinstance(item, str | int | bytes):
            _check(item, MOST_HASHED)
    return items


def _ignored(machine: _Machine, argument: Any) -> None: ...


_STEPS: Final[Mapping[str, Callable[[_Machine, Any], Any]]] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), _ignored),
    **dict.fromkeys(
        (
            *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
            *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
        ),
        _push,
    ),
    "BYTEARRAY8": lambda machine, argument: machine.stack.append(bytes(argument)),
    "NONE": _new(lambda: None),
    "NEWTRUE": _new(lambda: True),
    "NEWFALSE": _new(lambda: False),
    "EMPTY_LIST": _new(list),
    "EMPTY_DICT": _new(dict),
    "EMPTY_SET": _new(set),
    "EMPTY_TUPLE": _new(tuple),
    "MARK": lambda machine, _: machine.mark(),
    "LIST": _from_mark(list),
    "TUPLE": _from_mark(tuple),
    "DICT": _from_mark(_paired),
    "FROZENSET": _from_mark(lambda items: frozenset(_hashed(items))),
    "TUPLE1": _of_top(1),
    "TUPLE2": _of_top(2),
    "TUPLE3": _of_top(3),
    "APPEND": lambda machine, _: machine.append([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.pop_mark()),
    "SETITEM": lambda machine, _: machine.set_items([machine.stack.pop(), machine.stack.pop()][::-1]),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_mark()),
    "ADDITEMS": lambda machine, _: machine.add_items(machine.pop_mark()),
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine.pop_mark(),
    "DUP": lambda machine, _: machine.stack.append(machine.stack[-1]),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda machine, argument: machine.remember(argument)),
    "MEMOIZE": lambda machine, _: machine.remember(len(machine.memo)),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"), lambda machine, argument: machine.stack.append(machine.memo[argument])
    ),
    "GLOBAL": _global,
    "STACK_GLOBAL": lambda machine, _: machine.stack_global(),
    "REDUCE": lambda machine, _: machine.replace_top(2, machine.called),
    "NEWOBJ": lambda machine, _: machine.replace_top(2, machine.called),
    "NEWOBJ_EX": lambda machine, _: machine.replace_top(3, machine.called),
    "BUILD": lambda machine, _: machine.built_top(),
}
"""What each operation does. Those that are missing here end the reading."""


def _check(value: Any, most: int) -> None:
    """Raise `InertError` unless this is plain data of at most this size. What is referred to twice counts twice."""
    room = most
    levels: list[Iterator[Any]] = [iter([value])]
    while levels:
        for each in levels[-1]:
            room -= _size(each)
            if room < 0:
                raise InertError(f"the pickle's data has more than {most:,} bytes")
            if (inside := _inside(each)) is not None:
                if len(levels) >= MOST_DEPTH:
                    raise InertError(f"the pickle's data is nested more than {MOST_DEPTH} deep")
                levels.append(inside)
                break
        else:
            levels.pop()


def _size(value: Any) -> int:
    match value:
        case str() | bytes():
            return NODE + len(value)
        case int():
            return NODE + value.bit_length() // 8
        case Name() | Unread():
            raise InertError(f"the pickle holds {value!r}, which is not plain data")
        case _:
            return NODE


def _inside(value: Any) -> Iterator[Any] | None:
    match value:
        case Record():
            return iter(value.fields)
        case list() | tuple() | set() | frozenset():
            return iter(value)
        case dict():
            return (each for pair in value.items() for each in pair)
        case _:
            return None
