"""Arguments and results as JSON: what is accepted comes back equal, everything else is refused before any I/O."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import math
import typing
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.codec import ANY_CALL, RAW_CALL, JsonArguments, RawArguments, ResultCodec
from tenure.errors import PayloadError, PayloadTooLarge

LIMIT = 1 << 20


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int
    when: datetime | None = None


class Account(msgspec.Struct):
    id: uuid.UUID
    balance: Decimal


class Pair(NamedTuple):
    left: int
    right: str


class Model:
    """Behaves like a pydantic model, which Tenure knows only by its methods."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and other.size == self.size

    def __hash__(self) -> int:
        return self.size

    def model_dump(self, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return {"size": self.size}

    @classmethod
    def model_validate_json(cls, data: bytes) -> Model:
        return cls(json.loads(data)["size"])


@dataclasses.dataclass(eq=False)
class Incomparable:
    x: int


def arguments_of(function: Callable[..., Any], limit: int = LIMIT) -> JsonArguments:
    return JsonArguments(inspect.signature(function), typing.get_type_hints(function, include_extras=True), limit)


def takes_anything(value) -> None: ...  # type: ignore[no-untyped-def]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def of_type(annotation: Any) -> JsonArguments:
    """The arguments of a function with one parameter, `value`, of this type."""
    parameter = inspect.Parameter("value", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return JsonArguments(inspect.Signature([parameter]), {"value": annotation}, LIMIT)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 42),
        (int, 2**63 - 1),
        (int, -(2**63)),
        (float, 1.5),
        (float, 3),
        (str, "a\0b\x1b[31m\u202e \U0001f600"),
        (bytes, b"\0\xff"),
        (bool, True),
        (datetime, datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)),
        (datetime, datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30)))),
        (datetime, datetime(2026, 1, 2)),
        (date, date(2026, 1, 2)),
        (timedelta, timedelta(days=-1, microseconds=1)),
        (uuid.UUID, uuid.UUID(int=7)),
        (Decimal, Decimal("0.10")),
        (Colour, Colour.RED),
        (Level, Level.HIGH),
        (Point, Point(1, datetime(2026, 1, 2, tzinfo=UTC))),
        (Account, Account(uuid.UUID(int=7), Decimal("1.10"))),
        (Pair, Pair(1, "a")),
        (Model, Model(3)),
        (tuple[int, ...], (1, 2)),
        (set[int], {1, 2}),
        (frozenset[str], frozenset({"a"})),
        (dict[int, str], {1: "a"}),
        (dict[uuid.UUID, list[Point]], {uuid.UUID(int=1): [Point(1)]}),
        (int | None, None),
        (typing.Annotated[int, msgspec.Meta(ge=1)], 1),
        (Any, {"a": [1, 2.5, None, True, "x"]}),
        (object, {"a": 1}),
    ],
)
def test_an_annotated_value_comes_back_equal_and_of_its_type(annotation: Any, value: Any) -> None:
    arguments = of_type(annotation)

    (positional,), _ = arguments.decode(arguments.encode((value,), {}))
    _, by_name = arguments.decode(arguments.encode((), {"value": value}))

    assert positional == value
    assert by_name == {"value": value}
    assert type(positional) is (float if annotation is float else type(value))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)


@given(st.lists(json_values, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "ü"]), json_values))
def test_plain_json_values_come_back_equal_without_annotations(args: list[Any], kwargs: dict[str, Any]) -> None:
    arguments = JsonArguments(ANY_CALL, {}, LIMIT)

    payload = arguments.encode(tuple(args), kwargs)

    assert arguments.decode(payload) == (tuple(args), kwargs)
    assert json.loads(payload) == {k: v for k, v in (("args", args), ("kwargs", kwargs)) if v}


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.datetimes()
    | st.decimals()
    | st.complex_numbers()
    | st.builds(object)
    | st.just(Point(1))
    | st.just(Incomparable(1)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text() | st.none(), inner, max_size=3)
    ),
    max_leaves=10,
)


def lists_for_tuples(value: Any) -> Any:
    match value:
        case list() | tuple():
            return [lists_for_tuples(item) for item in value]
        case dict():
            return {key: lists_for_tuples(item) for key, item in value.items()}
        case _:
            return value


@given(anything)
def test_whatever_is_accepted_comes_back_equal_but_for_tuples(value: Any) -> None:
    arguments = arguments_of(takes_anything)

    try:
        payload = arguments.encode((value,), {})
    except PayloadError as refusal:
        assert "'value'" in str(refusal)
    else:
        assert arguments.decode(payload) == ((lists_for_tuples(value),), {})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (math.nan, "NaN"),
        ([math.inf], "infinity"),
        ({"a": -math.inf}, "infinity"),
        ("\ud800", "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        (2**63, "64 bits"),
        ([-(2**63) - 1], "64 bits"),
        (10**40, "64 bits"),
        (nested(65), "64 deep"),
        ({1: "a"}, "keys"),
        ({None: "a"}, "NoneType"),
        ({1, 2}, "set"),
        (b"bytes", "bytes"),
        (datetime(2026, 1, 1), "datetime"),
        (Decimal(1), "Decimal"),
        (Point(1), "Point"),
        (Pair(1, "a"), "Pair"),
        (object(), "object"),
        (Incomparable(1), "Incomparable"),
        (len, "builtin"),
    ],
)
def test_what_would_not_come_back_equal_is_refused_naming_the_parameter(value: Any, why: str) -> None:
    arguments = arguments_of(takes_anything)

    with pytest.raises(PayloadError, match=why) as positional:
        arguments.encode((value,), {})
    with pytest.raises(PayloadError, match=why) as by_name:
        arguments.encode((), {"value": value})

    assert "'value'" in str(positional.value)
    assert "'value'" in str(by_name.value)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)

    with pytest.raises(PayloadError, match=r"'value'.*nested too deep, or contains itself"):
        arguments_of(takes_anything).encode((value,), {})


def test_containers_nest_up_to_64_deep_wherever_they_stand() -> None:
    arguments = arguments_of(takes_anything)

    assert arguments.decode(arguments.encode((nested(64),), {})) == ((nested(64),), {})
    assert arguments.decode(arguments.encode((), {"value": nested(64)})) == ((), {"value": nested(64)})


def test_long_digits_in_a_text_are_no_integer() -> None:
    arguments = arguments_of(takes_anything)

    assert arguments.decode(arguments.encode(("9" * 40,), {})) == (("9" * 40,), {})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(int, "42"), (int, 1.5), (float, math.nan), (float | None, math.nan), (Point, {"x": "a"}), (Colour, "blue"),
     (typing.Annotated[int, msgspec.Meta(ge=1)], 0), (datetime, "2026-01-01T00:00:00Z"), (Model, 3)],
)  # fmt: skip
def test_a_value_of_another_type_than_the_annotation_says_is_refused_by_the_producer(
    annotation: Any, value: Any
) -> None:
    with pytest.raises(PayloadError, match="'value'"):
        of_type(annotation).encode((value,), {})


def test_a_tuple_may_come_back_as_a_list() -> None:
    def total(values: Sequence[int], grid: Any) -> None: ...

    arguments = arguments_of(total)

    assert arguments.decode(arguments.encode(((1, 2), ([1], (2,))), {})) == (([1, 2], [[1], [2]]), {})


def test_the_shape_of_a_payload_is_what_the_documentation_says() -> None:
    def f(user: int, lang: str = "en", *rest: int, copies: int = 1, **more: int) -> None: ...

    arguments = arguments_of(f)

    assert arguments.encode((42, "de"), {"copies": 2}) == b'{"args":[42,"de"],"kwargs":{"copies":2}}'
    assert arguments.encode((42,), {}) == b'{"args":[42]}'
    assert arguments.encode((), {"user": 42}) == b'{"kwargs":{"user":42}}'
    assert arguments_of(lambda: None).encode((), {}) == b"{}"


def signatures() -> list[Callable[..., Any]]:
    def nothing() -> None: ...
    def one(a: int) -> None: ...
    def default(a: int, b: str = "x", c: int = 3) -> None: ...
    def only_defaults(a: int = 1, b: int = 2) -> None: ...
    def keyword_only(a: int, *, b: int, c: int = 1) -> None: ...
    def positional_only(a: int, b: int = 1, /) -> None: ...
    def var_positional(a: int, *b: int) -> None: ...
    def var_keyword(a: int = 1, **b: int) -> None: ...
    def everything(a: int, /, b: int = 1, *c: int, d: int = 1, **e: int) -> None: ...

    return [
        nothing,
        one,
        default,
        only_defaults,
        keyword_only,
        positional_only,
        var_positional,
        var_keyword,
        everything,
    ]


@pytest.mark.parametrize("function", signatures(), ids=lambda f: f.__name__)
@given(
    st.lists(st.integers(0, 9), max_size=4), st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9), max_size=4)
)
def test_a_call_is_accepted_exactly_if_python_would_accept_it(
    function: Callable[..., Any], args: list[int], kwargs: dict[str, int]
) -> None:
    signature = inspect.signature(function)
    arguments = JsonArguments(signature, {}, LIMIT)
    payload = msgspec.json.encode({"args": args, "kwargs": kwargs})

    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        with pytest.raises(TypeError):
            arguments.encode(tuple(args), kwargs)
        with pytest.raises(PayloadError):
            arguments.decode(payload)
    else:
        assert arguments.decode(arguments.encode(tuple(args), kwargs)) == (tuple(args), kwargs)
        assert arguments.decode(payload) == (tuple(args), kwargs)


@pytest.mark.parametrize(
    "payload",
    [b"", b"null", b"[]", b"{", b'{"args":{}}', b'{"kwargs":[]}', b'{"arg":[1]}', b'{"args":[1],"x":1}', b"\xff\xfe",
     b'{"args":["x"]}', b'{"args":[]}', b'{"args":[1,2]}', b'{"kwargs":{"b":1}}', b'{"args":[1],"kwargs":{"a":1}}',
     b"[" * 100_000, b'{"args":[' + b"[" * 5_000 + b"]" * 5_000 + b"]}"],
)  # fmt: skip
def test_a_payload_that_is_no_call_of_the_task_is_a_payload_error(payload: bytes) -> None:
    def f(a: int) -> None: ...

    with pytest.raises(PayloadError):
        arguments_of(f).decode(payload)


def test_foreign_producers_may_use_white_space_and_any_order() -> None:  # H1
    def f(a: int, b: int) -> None: ...

    assert arguments_of(f).decode(b' { "kwargs" : { "b" : 2 } , "args" : [ 1 ] } ') == ((1,), {"b": 2})


def test_a_value_that_its_class_refuses_is_a_payload_error_whatever_it_raises() -> None:
    class Picky(msgspec.Struct):
        x: int

        def __post_init__(self) -> None:
            raise KeyError("first line\n" + "x" * 10_000)

    with pytest.raises(PayloadError, match="'value'") as refusal:
        of_type(Picky).decode(b'{"args":[{"x":1}]}')
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 1_000


def test_a_payload_over_the_limit_is_refused_on_both_sides() -> None:
    arguments = arguments_of(takes_anything, limit=100)

    assert len(arguments.encode(("x" * 87,), {})) == 100
    with pytest.raises(PayloadTooLarge) as refusal:
        arguments.encode(("x" * 88,), {})
    assert (refusal.value.size, refusal.value.limit) == (101, 100)
    with pytest.raises(PayloadTooLarge):
        arguments.decode(b'{"args":["' + b"x" * 100 + b'"]}')


def test_an_annotation_that_cannot_be_followed_means_any_and_the_refusal_says_so() -> None:
    both = of_type(str | datetime)

    assert both.decode(both.encode(([1],), {})) == (([1],), {})
    with pytest.raises(
        PayloadError, match="would come back as str, because Tenure cannot use its annotation: Type unions"
    ):
        both.encode((datetime(2026, 1, 1),), {})


def test_equal_arguments_have_one_key_however_they_are_passed() -> None:
    def f(a: float, b: dict[str, int], c: int = 1) -> None: ...

    arguments = arguments_of(f)
    keys = {
        arguments.key(arguments.encode((1, {"x": 1, "y": 2}), {})),
        arguments.key(arguments.encode((1.0, {"y": 2, "x": 1}), {})),
        arguments.key(arguments.encode((), {"b": {"x": 1, "y": 2}, "a": 1})),
    }

    assert len(keys) == 1
    assert arguments.key(arguments.encode((2, {}), {})) not in keys


@given(st.binary())
def test_raw_bytes_come_back_exactly(data: bytes) -> None:  # W6
    raw = RawArguments(RAW_CALL, LIMIT)

    assert raw.encode((data,), {}) == data
    assert raw.encode((bytearray(data),), {}) == data
    assert raw.decode(data) == ((data,), {})


def test_a_raw_task_takes_bytes_up_to_the_limit_and_nothing_else() -> None:
    raw = RawArguments(RAW_CALL, 3)

    with pytest.raises(PayloadError, match=r"'payload'.*bytes, got str"):
        raw.encode(("text",), {})
    with pytest.raises(TypeError):
        raw.encode((b"a", b"b"), {})
    with pytest.raises(TypeError):
        raw.encode((), {})
    with pytest.raises(PayloadTooLarge):
        raw.encode((b"1234",), {})
    with pytest.raises(PayloadTooLarge):
        raw.decode(b"1234")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(None, None), (Any, None), (int | None, None), (set[int], {1}), (Point, Point(1)), (Any, {"a": (1, 2)}), (Model, Model(1)),
     (datetime, datetime(2026, 1, 1, tzinfo=UTC)), (tuple[int, str], (1, "a")), (Any, "a\0b")],
)  # fmt: skip
def test_a_result_comes_back_equal_by_annotation(annotation: Any, value: Any) -> None:
    results = ResultCodec(annotation, LIMIT)

    assert results.decode(results.encode(value)) == (value if value != {"a": (1, 2)} else {"a": [1, 2]})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(Any, math.nan), (float, math.inf), (Any, {1}), (Any, datetime(2026, 1, 1)), (Any, object()), (Any, "\ud800"),
     (Any, 2**63), (Any, nested(65)), (Any, {1: 2})],
)  # fmt: skip
def test_a_result_that_would_not_come_back_equal_is_refused(annotation: Any, value: Any) -> None:  # F19
    with pytest.raises(PayloadError, match="the result"):
        ResultCodec(annotation, LIMIT).encode(value)


def test_a_result_over_the_limit_is_refused() -> None:
    with pytest.raises(PayloadTooLarge):
        ResultCodec(Any, 10).encode("x" * 9)
