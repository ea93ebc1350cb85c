"""Encodes the arguments and results of tasks as JSON and decodes them by annotation.

The payload of a job is one JSON object, which programs in other languages may write as well:

    {"args": [42, "de"], "kwargs": {"copies": 2}}

`args` holds the positional arguments, `kwargs` those given by name. An empty member is left out, so a call without
arguments is `{}`. `v` is the version of the payload, if it is not 1 (`core/versions.py`). Other members are refused. A result is any JSON value. The payload of a raw task is its bytes.

One rule decides what may be stored: **a value is accepted if reading back what was written, by the annotation of its
parameter, gives an equal value.** So a datetime, a set, a dataclass or a dict with integer keys needs its annotation.
NaN and the infinities are refused, because JSON lacks them. A tuple may come back as a list. Integers have at most 64
bits and containers nest at most 64 deep, because some stores and readers of the payload cannot hold more. The producer
checks all of this before any I/O.

A result need not be of the annotated type: it fits if the return annotation can read what was written without losing
anything. It then comes back as the annotated type. For example, a mapping becomes the dataclass that it describes.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from tenure.core.annotations import (
    ANY_DECODER,
    Decode,
    UntypedDecoder,
    decode_hook,
    decoder_of,
    encode_hook,
    lost_path,
    reason,
    to_msgspec,
)
from tenure.core.checks import named
from tenure.errors import InvalidOption, InvalidResult, NewerPayload, PayloadError, PayloadTooLarge

__all__ = [
    "ANY_CALL",
    "ANY_DECODER",
    "RAW_CALL",
    "ArgsKwargs",
    "Arguments",
    "Decode",
    "JoinArguments",
    "JsonArguments",
    "Payload",
    "RawArguments",
    "ResultCodec",
    "check_limits",
    "decoder_of",
    "digest",
    "read",
    "reason",
    "written",
]

MAX_DEPTH = 64
MAX_INTEGER = 2**63 - 1
MIN_INTEGER = -(2**63)

ArgsKwargs = tuple[tuple[Any, ...], dict[str, Any]]


class Arguments(Protocol):
    """Turns calls of one task into payloads, and payloads into calls."""

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """Encode a call; `TypeError` if it does not fit the signature, `PayloadError` if it cannot be stored exactly."""
        ...

    def decode(self, payload: bytes) -> ArgsKwargs:
        """Decode a call, with its arguments converted by annotation; `PayloadError` if that fails."""
        ...

    def key(self, payload: bytes) -> str:
        """A string that is the same for equal arguments, passed by position or by name; defaults are not filled in."""
        ...


class Payload(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The JSON object of a payload, its arguments not yet decoded."""

    args: list[msgspec.Raw] = []
    kwargs: dict[str, msgspec.Raw] = {}
    v: int = 1


class JsonArguments:
    """The arguments of a task with this signature, converted by these type hints; a missing hint means Any."""

    def __init__(self, signature: inspect.Signature, hints: Mapping[str, Any], limit: int) -> None:
        self._signature = signature
        self._limit = limit
        parameters = signature.parameters.values()
        self._positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
        self.by_position = tuple(p.name for p in self._positional if p.kind is p.POSITIONAL_ONLY)
        """Names of the parameters that take no argument by name."""

        self._named = frozenset(p.name for p in parameters if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY})
        self._more = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
        self._others = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")
        self._decoders = {p.name: _decoder_of(f"parameter {p.name!r}", hints.get(p.name, Any)) for p in parameters}
        self._shapes = [self._shape(count) for count in range(len(self._positional) + 1)]
        self._may_be_empty = self._misfit((), {}) is None
        self._hints = hints
        self._plain = self.plain_decoder()

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        if not args and not kwargs and self._may_be_empty:
            return b"{}"
        if (misfit := self._misfit(args, kwargs)) is not None:
            raise misfit
        call: dict[str, Any] = {}
        if args:
            call["args"] = args
        if kwargs:
            call["kwargs"] = kwargs
        refusal = None
        try:
            # Two levels more: the payload object and its list or object of arguments are not the user's nesting.
            data = _write(call, MAX_DEPTH + 2)
            exact = _same(self.decode(data), (args, kwargs))
        except PayloadError as error:
            exact, refusal = False, error
        # Outside of the handler, so that the error about an argument has one cause and no context.
        if not exact:
            self._check_each(args, kwargs)
            if refusal is not None:
                raise refusal
        return data

    def decode(self, payload: bytes) -> ArgsKwargs:
        if len(payload) > self._limit:
            raise PayloadTooLarge(len(payload), self._limit)
        if payload == b"{}" and self._may_be_empty:
            return (), {}
        # It ends like a payload that has positional arguments only.
        if self._plain is not None and payload.endswith(b"]}"):
            try:
                return self._plain(payload), {}
            except Exception:  # noqa: BLE001, S110 - decoding one by one says what is wrong
                pass
        return self._decode_each(payload)

    def key(self, payload: bytes) -> str:
        args, kwargs = self.decode(payload)
        bound = self._signature.bind(*args, **kwargs)
        return digest(msgspec.json.encode(bound.arguments, enc_hook=encode_hook, order="deterministic"))

    def plain_decoder(self, version: int = 1) -> Callable[[bytes], tuple[Any, ...]] | None:
        """A decoder for calls with positional arguments only, as most calls are: takes 0.4 µs; one by one takes 4 µs.

        It reads payloads of this version and no other. None if the task cannot be called so.
        """
        if not self._positional or self._misfit(self._positional, {}) is not None:
            return None
        try:
            kinds = [to_msgspec(self._hints.get(p.name, Any)) for p in self._positional]
            given = [(f"p{n}", kinds[n], p.default is p.empty) for n, p in enumerate(self._positional)]
            fields = [(name, kind) if required else (name, kind, msgspec.UNSET) for name, kind, required in given]
            args = msgspec.defstruct("Args", fields, array_like=True, forbid_unknown_fields=True)
            stamp = [] if version == 1 else [("v", Literal[version])]
            call = msgspec.defstruct("Call", [("args", args), *stamp], forbid_unknown_fields=True)
            decode: Callable[[bytes], Any] = msgspec.json.Decoder(call, dec_hook=decode_hook).decode
        except Exception:  # noqa: BLE001 - as in `decoder_of`
            return None  # msgspec cannot use an annotation
        values = msgspec.structs.astuple

        def plain(payload: bytes) -> tuple[Any, ...]:
            args = values(decode(payload).args)
            return args if args[-1] is not msgspec.UNSET else args[: args.index(msgspec.UNSET)]

        return plain

    def _decode_each(self, payload: bytes) -> ArgsKwargs:
        try:
            call = _PAYLOAD.decode(payload)
        except Exception as error:
            raise PayloadError(f"the payload is not a call of a task: {reason(error)}") from error
        if call.v > 1:
            raise NewerPayload(call.v, 1)
        if (misfit := self._misfit(call.args, call.kwargs)) is not None:
            raise PayloadError(f"the payload does not fit the task: {misfit}") from misfit
        values = [read(self._decoders[name], raw, what) for name, what, raw in self._each(call.args, call.kwargs)]
        count = len(call.args)
        return tuple(values[:count]), dict(zip(call.kwargs, values[count:], strict=True))

    def _check_each(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise `PayloadError` about the first argument that would not come back equal; tuples may come back as lists."""
        for name, what, value in self._each(args, kwargs):
            written(value, self._decoders[name], what)

    def _each(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
        """Each argument, with the name of the parameter that takes it and its name for error messages."""
        for position, value in enumerate(args):
            name = self._positional[position].name if position < len(self._positional) else self._more
            yield name, f"parameter {name!r}", value
        for name, value in kwargs.items():
            yield name if name in self._named else self._others, f"parameter {name!r}", value

    def _shape(self, count: int) -> tuple[frozenset[str], frozenset[str]] | None:
        """Names that must and must not be keywords after `count` positional arguments; None if `count` is too low."""
        taken = {p.name for p in self._positional[:count]}
        left = [p for p in self._signature.parameters.values() if p.name not in taken and p.default is p.empty]
        if any(p.kind is p.POSITIONAL_ONLY for p in left):
            return None
        return frozenset(p.name for p in left if p.name in self._named), self._named & taken

    def _misfit(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError | None:
        """The error of calling the function with these arguments; None if they fit."""
        # Signature.bind costs 3 µs, so it is called only for its error message.
        if self._more or len(args) <= len(self._positional):
            shape = self._shapes[min(len(args), len(self._positional))]
            if shape is not None:
                (must, must_not), given = shape, kwargs.keys()
                if must <= given and given.isdisjoint(must_not) and (self._others or given <= self._named):
                    return None
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as misfit:
            return misfit
        return None


class JoinArguments:
    """The arguments of a task that may be enqueued without the parameter `filled_in`, which the worker fills in."""

    def __init__(self, signature: inspect.Signature, hints: Mapping[str, Any], limit: int, filled_in: str) -> None:
        others = [p for p in signature.parameters.values() if p.name != filled_in]
        self._all = JsonArguments(signature, hints, limit)
        self._taken = signature.replace(parameters=others)
        self._others = JsonArguments(self._taken, hints, limit)

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        try:
            return self._all.encode(args, kwargs)
        except TypeError as misfit:
            try:
                return self._others.encode(args, kwargs)
            except TypeError:
                raise misfit from None

    def decode(self, payload: bytes) -> ArgsKwargs:
        try:
            return self._all.decode(payload)
        except PayloadError as misfit:
            try:
                args, kwargs = self._others.decode(payload)
            except PayloadError:
                raise misfit from None
            bound = self._taken.bind(*args, **kwargs)
            # By name, because the parameter that is filled in may stand before them.
            return (), {**{name: bound.arguments[name] for name in list(self._taken.parameters)[: len(args)]}, **kwargs}

    def key(self, payload: bytes) -> str:
        try:
            return self._all.key(payload)
        except PayloadError:
            return self._others.key(payload)


class RawArguments:
    """The one argument of a raw task: bytes, possibly empty, stored and passed on unchanged."""

    def __init__(self, signature: inspect.Signature, limit: int) -> None:
        self._signature = signature
        self._limit = limit

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        ((name, payload),) = self._signature.bind(*args, **kwargs).arguments.items()
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise PayloadError(f"parameter {name!r}: a raw task takes bytes, got {type(payload).__name__}")
        self._check_size(len(data := bytes(payload)))
        return data

    def decode(self, payload: bytes) -> ArgsKwargs:
        self._check_size(len(payload))
        return (payload,), {}

    def key(self, payload: bytes) -> str:
        return digest(payload)

    def _check_size(self, size: int) -> None:
        if size > self._limit:
            raise PayloadTooLarge(size, self._limit)


class ResultCodec:
    """Encodes and decodes the results of a function with this return annotation.

    A result fits if the annotation can read its JSON without losing anything. It comes back as the annotated type.
    """

    def __init__(self, annotation: Any, limit: int) -> None:
        self._annotation = annotation
        self._decoder = _decoder_of("the result", annotation)
        self._limit = limit
        self._may_be_none = self._reads_none()

    def encode(self, value: Any) -> str:
        """Encode a result; `InvalidResult` if it does not fit the annotation or has no JSON form; `PayloadTooLarge`."""
        if value is None and self._may_be_none:
            return "null"
        try:
            data = _write(value, MAX_DEPTH)
            made = self._decoder(data)
        except Exception as error:  # noqa: BLE001 - as in `decode`
            raise self._misfit(value, error) from error.__cause__ or error
        if not _same(made, value):
            self._check_fit(value, made)
        if len(data) > self._limit:
            raise PayloadTooLarge(len(data), self._limit)
        return data.decode()

    def encode_freely(self, value: Any) -> str:
        """Encode a result that need not fit the annotation, such as that of `Done`: by annotation, else as plain JSON."""
        try:
            return self.encode(value)
        except InvalidResult:
            data = written(value, ANY_DECODER, "the result")
            if len(data) > self._limit:
                raise PayloadTooLarge(len(data), self._limit) from None
            return data.decode()

    def decode(self, text: str) -> Any:
        """Decode a result by annotation, or as plain JSON if it does not fit, because other code may have written it."""
        try:
            return self._decoder(text)
        except Exception:  # noqa: BLE001 - a user's class may raise anything about a foreign value
            return ANY_DECODER(text)

    def _reads_none(self) -> bool:
        try:
            return self._decoder(b"null") is None
        except Exception:  # noqa: BLE001 - as above
            return False

    def _check_fit(self, value: Any, made: Any) -> None:
        """Raise `InvalidResult` unless `value` describes `made`, such as a mapping an object, or a string a date."""
        plain = self._decoder is ANY_DECODER or isinstance(self._decoder, UntypedDecoder)
        if not plain and isinstance(value, Mapping | list | tuple | str) and (where := lost_path(made, value)) is None:
            return
        if not plain and isinstance(value, Mapping | list | tuple):
            raise InvalidResult(f"the result does not fit {self._shown()}: its value at `{where}` would be lost")
        raise InvalidResult(_changed("the result", value, made, self._decoder))

    def _misfit(self, value: Any, error: Exception) -> InvalidResult:
        if isinstance(error, PayloadError):
            return InvalidResult(f"the result: {error}")
        if self._annotation in (None, type(None)):
            kind = type(value).__name__
            return InvalidResult(
                f"the function is annotated `-> None` and returned a value of type {kind}: return nothing, or correct the annotation"
            )
        return InvalidResult(
            f"the result does not fit {self._shown()}: {reason(error)}: return a value of that type, or correct the annotation"
        )

    def _shown(self) -> str:
        return f"the annotation `-> {inspect.formatannotation(self._annotation)}`"[:200]


def _decoder_of(what: str, annotation: Any) -> Decode:
    try:
        return decoder_of(annotation)
    except InvalidOption as error:
        raise named(error, what) from None


def written(value: Any, decode: Decode, what: str) -> bytes:
    """Encode a value that comes back equal, or raise `PayloadError` that says why it would not."""
    try:
        data = _write(value, MAX_DEPTH)
    except PayloadError as error:
        raise PayloadError(f"{what}: {error}") from error.__cause__
    made = read(decode, data, what)
    if not _same(made, value):
        raise PayloadError(_changed(what, value, made, decode))
    return data


def _changed(what: str, value: Any, made: Any, decode: Decode) -> str:
    """The error message about a value that would come back as another value."""
    kind, other = type(value).__name__, type(made).__name__
    if isinstance(decode, UntypedDecoder):
        return (
            f"{what}: this {kind} would come back as {other}, because Tenure cannot use its annotation: {decode.reason}"
        )
    if decode is not ANY_DECODER and kind != other:
        return f"{what}: this {kind} would come back as {other}, because of its annotation: pass a value of that type"
    return (
        f"{what}: this {kind} would not come back equal (it is or holds NaN, an infinity, a set, keys that are "
        "not strings, or an object without its type): annotate it with its exact type, or use plain JSON values"
    )


def _write(value: Any, depth: int) -> bytes:
    try:
        data = _ENCODER.encode(value)
    except Exception as error:
        raise PayloadError(f"it cannot be written as JSON: {reason(error)}") from error
    # A cheap test first: most payloads have no long sequence of digits and few brackets.
    if _LONG_NUMBER.search(data) or data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        check_limits(msgspec.json.decode(data), depth)
    return data


def read(decode: Decode, data: bytes | str | msgspec.Raw, what: str) -> Any:
    """Decode a value, or raise `PayloadError` that says why it does not fit."""
    try:
        return decode(data)
    except Exception as error:
        raise PayloadError(f"{what}: it does not fit its annotation: {reason(error)}") from error


def check_limits(value: Any, depth: int) -> None:
    """Raise `PayloadError` about a JSON value nested more than `depth` deep, or an integer of more than 64 bits."""
    if isinstance(value, int) and not MIN_INTEGER <= value <= MAX_INTEGER:
        raise PayloadError("an integer has more than 64 bits: pass it as a string")
    if isinstance(value, list | dict):
        if depth == 0:
            raise PayloadError(f"lists and objects are nested more than {MAX_DEPTH} deep: pass a flatter value")
        for item in value.values() if isinstance(value, dict) else value:
            check_limits(item, depth - 1)


def _same(read: Any, written: Any) -> bool:
    """Whether two values are equal; a list equals a tuple of the same members."""
    try:
        if read == written:
            return True
    except Exception:  # noqa: BLE001 - a user's class whose `==` raises cannot be checked, so it is refused
        return False
    if type(written) in {list, tuple} and type(read) in {list, tuple}:
        return len(read) == len(written) and all(map(_same, read, written))
    if isinstance(written, dict) and isinstance(read, dict):
        return read.keys() == written.keys() and all(_same(read[key], written[key]) for key in written)
    return False


def digest(data: bytes) -> str:
    """A hash of these bytes, as 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


_LONG_NUMBER = re.compile(rb"\d{19}")
_ENCODER = msgspec.json.Encoder(enc_hook=encode_hook)
_PAYLOAD = msgspec.json.Decoder(Payload)
ANY_CALL = inspect.Signature(
    [
        inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ]
)
"""The signature of a task whose code is not in this process: any arguments."""

RAW_CALL = inspect.Signature([inspect.Parameter("payload", inspect.Parameter.POSITIONAL_OR_KEYWORD)])
"""The signature of a raw task whose code is not in this process: one payload."""
