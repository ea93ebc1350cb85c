"""Makes decoders of annotations: how JSON becomes what a parameter, an attribute or a result is annotated with.

msgspec does most of the work. This module adds what it leaves out:

1. Classes that msgspec does not know: pydantic models, `pathlib` paths, and classes that users add with `add_type`.
2. Unions that msgspec refuses, of several dataclasses, models and the like. A value becomes the first member that it fits
   without losing a key; if it would lose one with every member, the first member that it fits.
3. Constraints of `annotated_types` and of pydantic's `Field` in `Annotated[...]`. One that cannot be checked is refused.

An annotation that msgspec cannot use means Any; its decoder holds the reason.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import pathlib
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tenure.errors import InvalidOption

__all__ = ["ANY_DECODER", "Decode", "add_type", "decoder_of", "encode_hook", "lost_path", "reason", "to_msgspec"]

T = TypeVar("T")

Decode = Callable[[bytes | str | msgspec.Raw], Any]

ANY_DECODER: Decode = msgspec.json.Decoder().decode

_ADDED: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}


def add_type(kind: type[T], *, encode: Callable[[T], Any], decode: Callable[[Any], T]) -> None:
    """Let values of a class be arguments, results and attributes, wherever they are annotated with it.

    `encode` turns a value into something that JSON can hold; `decode` makes an equal value of that. Call `add_type` in a
    module that both producers and workers import. Classes that Tenure stores anyway (dataclasses, enums, …) cannot be added.
    """
    if not isinstance(kind, type) or not callable(encode) or not callable(decode):
        raise InvalidOption(
            "add_type takes a class and two functions, such as add_type(Money, encode=str, decode=Money)"
        )
    if hasattr(kind, "model_validate_json") or not isinstance(
        msgspec.inspect.type_info(kind), msgspec.inspect.CustomType
    ):
        raise InvalidOption(f"{kind.__qualname__} needs no add_type: Tenure stores its values already")
    _ADDED[kind] = encode, decode


def encode_hook(value: Any) -> Any:
    """The `enc_hook` of msgspec: turn a value of a class that msgspec does not know into one that it does."""
    for kind in type(value).__mro__:
        if kind in _ADDED:
            return _ADDED[kind][0](value)
    if hasattr(type(value), "model_dump"):  # pydantic, which need not be installed
        return value.model_dump(mode="json")
    if isinstance(value, pathlib.PurePath):
        return str(value)
    raise NotImplementedError(f"objects of type {type(value).__qualname__} have no JSON form")


def decode_hook(kind: type, value: Any) -> Any:
    """The `dec_hook` of msgspec: make a value of a class that msgspec does not know from its JSON form."""
    if issubclass(kind, Choice):
        return kind.read(value)
    if kind in _ADDED:
        return _ADDED[kind][1](value)
    if hasattr(kind, "model_validate_json"):  # from JSON: a strict model takes a date from a string only in JSON mode
        try:
            return kind.model_validate_json(msgspec.json.encode(value))
        except ValueError as error:
            raise ValueError(_model_misfit(error)) from error
    if issubclass(kind, pathlib.PurePath) and isinstance(value, str):
        return kind(value)
    raise NotImplementedError(f"{kind.__qualname__} cannot be made from JSON: register it with tenure.add_type")


def _model_misfit(error: ValueError) -> str:
    """What a pydantic model says of a misfit, in a line: each field and its message, without the values and the URLs."""
    if not hasattr(error, "errors"):
        return str(error)
    found = error.errors(include_url=False, include_input=False, include_context=False)
    fields = [(".".join(map(str, each["loc"])), each["msg"]) for each in found]
    shown = "; ".join(f"{field}: {message}" if field else message for field, message in fields[:5])
    return shown + (f"; and {len(fields) - 5} more" if len(fields) > 5 else "")


class UntypedDecoder:
    """The decoder of an annotation that msgspec cannot use: decodes as Any."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __call__(self, data: bytes | str | msgspec.Raw) -> Any:
        return ANY_DECODER(data)


def decoder_of(annotation: Any) -> Decode:
    """The decoder of one annotation; `InvalidOption` if it has a constraint that cannot be checked."""
    if annotation is Any or annotation is object:
        return ANY_DECODER
    try:
        return msgspec.json.Decoder(to_msgspec(annotation), dec_hook=decode_hook).decode
    except InvalidOption:
        raise
    except Exception as error:  # noqa: BLE001 - a TypeError of msgspec, or a name that only type checkers know
        return UntypedDecoder(reason(error))


def to_msgspec(annotation: Any) -> Any:
    """The same annotation with those parts replaced that msgspec does not support, where there is a replacement."""
    if annotation is object:
        return Any
    origin, given = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _constrained(to_msgspec(given[0]), given[1:])
    if origin in _NO_VALUES:
        raise TypeError(f"{_name(annotation)} is not a type of values")
    if annotation in _LISTS or origin in _LISTS:
        return list[tuple(map(to_msgspec, given)) or Any]  # type: ignore[misc]
    if origin is None or origin is typing.Literal or not given:
        return annotation
    if origin in {types.UnionType, typing.Union}:
        members = tuple(map(to_msgspec, given))
        union: Any = typing.Union.__getitem__(members)
        return Choice.of(members) if any(map(_has_fields, members)) and _misfit(union) else union
    inner = tuple(to_msgspec(each) if each is not ... and not isinstance(each, list) else each for each in given)
    return annotation if inner == given else origin[inner]


_LISTS = frozenset({collections.abc.Iterable, collections.abc.Container, collections.abc.Reversible})
"""Types that a list satisfies and msgspec does not know."""

_NO_VALUES = frozenset(
    {collections.abc.Iterator, collections.abc.Generator, collections.abc.Callable, collections.abc.Awaitable}
)
"""Types whose values cannot be stored."""


class _AnyInstance(type):
    """Accepts every instance, because msgspec checks that what its hook returns is an instance of the annotated class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class Choice(metaclass=_AnyInstance):
    """A union that msgspec refuses, as a class that msgspec passes to its hook."""

    members: tuple[Any, ...] = ()

    @classmethod
    def of(cls, members: tuple[Any, ...]) -> Any:
        return _AnyInstance("Choice", (cls,), {"members": members})

    @classmethod
    def read(cls, value: Any) -> Any:
        """Convert the value to the first member that it fits without losing a key; else to the first that it fits."""
        misfits, found = [], []
        for member in cls.members:
            try:
                made = msgspec.convert(value, member, dec_hook=decode_hook, str_keys=True)
            except Exception as error:  # noqa: BLE001 - a user's class may raise anything about a foreign value
                misfits.append(f"{_name(member)}: {reason(error)}")
                continue
            if lost_path(made, value) is None:
                return made
            found.append(made)
        if found:
            return found[0]
        raise ValueError("it fits no member of the union: " + "; ".join(misfits))


def lost_path(made: Any, value: Any, path: str = "$") -> str | None:
    """The path of the first thing in `value` that is missing in `made`, which was decoded from it; None if nothing is.

    A mapping may have become an object, a string a date or another annotated type, and a list a set.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            at = f"{path}.{key}"
            found = _member(made, key)
            if found is _MISSING:
                return at
            if (inner := lost_path(found, item, at)) is not None:
                return inner
        return None if not isinstance(made, str | int | float | None) else path
    try:
        if made == value or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
            return None
    except Exception:  # noqa: BLE001 - a user's class whose `==` raises cannot be checked, so it counts as lost
        return path
    if isinstance(value, list | tuple | set | frozenset):
        if isinstance(made, set | frozenset):
            return None
        if isinstance(made, list | tuple) and len(made) == len(value):
            each = (lost_path(*pair, f"{path}[{n}]") for n, pair in enumerate(zip(made, value, strict=True)))
            return next((where for where in each if where is not None), None)
    return path


_MISSING = object()


def _member(made: Any, key: Any) -> Any:
    """The member of `made`, which was decoded from a mapping, that belongs to this key of the mapping."""
    if isinstance(made, Mapping):
        return next((item for own, item in made.items() if own == key or str(own) == key), _MISSING)
    kind = type(made)
    if isinstance(made, msgspec.Struct):
        names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
        return getattr(made, names.get(key, ""), _MISSING)
    for name, field in getattr(kind, "model_fields", {}).items():
        if key in (field.alias, field.validation_alias):
            return getattr(made, name)
    return getattr(made, key, _MISSING) if isinstance(key, str) else _MISSING


def reason(error: Exception) -> str:
    """The message of this error on one line, of 500 characters at most; errors of users' classes may have many lines."""
    if isinstance(error, RecursionError):
        return "it is nested too deep, or contains itself"
    if isinstance(error, UnicodeEncodeError):
        return "a string has half a character in it (a lone surrogate)"
    return " ".join(str(error).replace("\0", "\\0").split())[:500] or type(error).__name__


def _misfit(annotation: Any) -> str:
    """Why msgspec refuses an annotation; empty if it accepts it."""
    try:
        msgspec.json.Decoder(annotation, dec_hook=decode_hook)
    except Exception as error:  # noqa: BLE001 - as in `decoder_of`
        return reason(error)
    return ""


def _has_fields(annotation: Any) -> bool:
    """Whether values of this type are JSON objects with named members, or are made by a hook."""
    kind = typing.get_origin(annotation) or annotation
    if not isinstance(kind, type):
        return False
    return (
        dataclasses.is_dataclass(kind)
        or issubclass(kind, msgspec.Struct)
        or typing.is_typeddict(kind)
        or hasattr(kind, "__attrs_attrs__")
        or hasattr(kind, "model_validate_json")
        or kind in _ADDED
    )


def _name(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)


# Constraints.

_LIMITS = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")
"""Constraints that `msgspec.Meta` can check; `annotated_types` and pydantic use the same names."""


def _constrained(annotation: Any, metadata: Sequence[Any]) -> Any:
    """The annotation with these constraints, each as `msgspec.Meta`."""
    limits: dict[str, Any] = {}
    kept = []
    for each in metadata:
        if isinstance(each, msgspec.Meta):
            kept.append(each)
        for part in _parts(each):
            given = {name: limit for name in _LIMITS if (limit := getattr(part, name, None)) is not None}
            if not given and not hasattr(part, "documentation"):
                raise InvalidOption(
                    f"the constraint {part!r:.80} cannot be checked here: use one of {', '.join(_LIMITS)}, "
                    "check it in the function, or put it in a pydantic model"
                )
            limits |= given
    if isinstance(limits.get("pattern"), re.Pattern):
        limits["pattern"] = limits["pattern"].pattern
    if not limits and not kept:
        return annotation
    try:
        constrained = typing.Annotated[(annotation, *kept, *([msgspec.Meta(**limits)] if limits else []))]
    except (TypeError, ValueError) as error:
        raise InvalidOption(f"its constraints cannot be checked: {reason(error)}") from None
    if (why := _misfit(constrained)) and not _misfit(annotation):
        raise InvalidOption(f"its constraints cannot be checked: {why}")
    return constrained


def _parts(metadata: Any) -> Iterator[Any]:
    """The single constraints in metadata of `annotated_types` and pydantic; metadata of other libraries is ignored."""
    if type(metadata).__module__.partition(".")[0] not in {"annotated_types", "pydantic"}:
        return
    if isinstance(inner := getattr(metadata, "metadata", None), list):  # pydantic.Field
        for each in inner:
            yield from _parts(each)
    elif hasattr(metadata, "__iter__"):  # annotated_types.Interval and the like
        for each in metadata:
            yield from _parts(each)
    else:
        yield metadata
