"""Classes, unions and constraints beyond what msgspec follows: they work, or the true reason is given."""

from __future__ import annotations

import dataclasses
import pathlib
import typing
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypedDict

import annotated_types
import msgspec
import pydantic
import pytest

import tenure
from tenure import App
from tenure.core.codec import ResultCodec
from tenure.errors import InvalidOption, InvalidResult, PayloadError
from tests.unit.test_codec import LIMIT, of_type


@dataclasses.dataclass
class Card:
    number: str
    until: datetime | None = None


@dataclasses.dataclass
class Invoice:
    number: str
    days: int = 30


@dataclasses.dataclass
class Twin:
    number: str
    until: datetime | None = None


class Tagged(msgspec.Struct, tag=True):
    size: int


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    name: str


class Parcel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    number: int
    weights: list[pydantic.PositiveInt] = []


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Place(TypedDict):
    city: str


Pet = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]

WHEN = datetime(2026, 1, 2, tzinfo=UTC)

WORKS: list[tuple[Any, Any]] = [
    (Card | Invoice, Card("1", WHEN)),
    (Card | Invoice, Invoice("1", 14)),
    (Card | Invoice | None, None),
    (list[Card | Invoice], [Invoice("1"), Card("2")]),
    (dict[str, Card | Invoice], {"a": Invoice("1")}),
    (Cat | Dog, Dog(name="Rex")),
    (Pet, Cat(name="Tom")),
    (list[Pet], [Cat(name="Tom"), Dog(name="Rex")]),
    (Card | Cat | int, Cat(name="Tom")),
    (Card | Cat | int, 3),
    (Card | dict[str, int], {"a": 1}),
    (Card | Place, {"city": "Ulm"}),
    (Tagged | Card, Tagged(1)),
    (pathlib.Path, pathlib.Path("/tmp/x")),
    (pathlib.PurePosixPath, pathlib.PurePosixPath("a/b")),
    (pathlib.Path | None, pathlib.Path("x")),
    (list[pathlib.Path], [pathlib.Path("x")]),
    (Iterable[int], [1, 2]),
    (Annotated[int, annotated_types.Ge(1)], 1),
    (Annotated[str, pydantic.Field(max_length=3, pattern="^a")], "abc"),
    (Annotated[int, "whatever others say"], 1),
    (Annotated[int, pydantic.Field(description="a number")], 1),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value"), WORKS)
def test_it_works_as_an_argument_and_as_a_result(annotation: Any, value: Any) -> None:
    arguments, results = of_type(annotation), ResultCodec(annotation, LIMIT)

    (positional,), _ = arguments.decode(arguments.encode((value,), {}))
    _, by_name = arguments.decode(arguments.encode((), {"value": value}))
    result = results.decode(results.encode(value))

    assert positional == by_name["value"] == result == value
    assert type(positional) is type(result) is type(value)


@pytest.mark.parametrize(
    ("annotation", "value", "why"),
    [
        (Annotated[int, annotated_types.Ge(1)], 0, "`int` >= 1"),
        (Annotated[int, annotated_types.Interval(ge=1, lt=3)], 3, "< 3|<= 2"),
        (Annotated[int, pydantic.Field(ge=1)], 0, "`int` >= 1"),
        (pydantic.PositiveInt, 0, "`int` >"),
        (Annotated[str, pydantic.Field(min_length=2)], "a", "length >= 2"),
        (list[Annotated[int, annotated_types.Le(5)]], [6], "`int` <= 5"),
        (Parcel, {"number": "7"}, r"annotation\S*( `.*`)?: number: Input should be a valid integer(: return .*)?$"),
        (Parcel, {"weights": [0]}, "number: Field required; weights.0: Input should be greater than 0"),
        (Parcel, {"weights": [0] * 6}, "weights.3: [^;]*; and 2 more"),
        (list[Parcel], [{}], r"number: Field required - at `\$\[0\]`"),
        (Card | Invoice, {"nothing": 1}, "it fits no member of the union: Card: .*number.*; Invoice: "),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(annotation: Any, value: Any, why: str) -> None:
    with pytest.raises(PayloadError, match=f"parameter 'value'.*({why})"):
        of_type(annotation).encode((value,), {})
    with pytest.raises(InvalidResult, match=f"the result does not fit.*({why})"):
        ResultCodec(annotation, LIMIT).encode(value)


def test_one_of_two_members_that_look_alike_is_refused() -> None:
    with pytest.raises(PayloadError, match="this Twin would come back as Card, because of its annotation"):
        of_type(Card | Twin).encode((Twin("1"),), {})


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (
            Annotated[int, annotated_types.Predicate(bool)],
            "the constraint Predicate.* cannot be checked here: use one of",
        ),
        (Annotated[int, pydantic.AfterValidator(abs)], "the constraint AfterValidator"),
        (Annotated[str, annotated_types.Ge(1)], "constraints cannot be checked: Can only set `ge` on a numeric type"),
    ],
)
def test_a_constraint_that_cannot_be_checked_is_refused_where_the_task_is_declared(annotation: Any, why: str) -> None:
    def takes(value: Any) -> None: ...
    def gives() -> None: ...

    takes.__annotations__["value"] = annotation
    gives.__annotations__["return"] = annotation

    with pytest.raises(InvalidOption, match=f"task 'takes': parameter 'value': .*{why}"):
        App("memory://").task(takes)
    with pytest.raises(InvalidOption, match=f"task 'gives': the result: .*{why}"):
        App("memory://").task(gives)


# Results.


@dataclasses.dataclass
class Order:
    sku: str
    card: Card | None = None
    tags: set[str] = dataclasses.field(default_factory=set)


class Renamed(msgspec.Struct, rename="camel"):
    unit_price: int


@pytest.mark.parametrize(
    ("annotation", "value", "back"),
    [
        (Order, {"sku": "x"}, Order("x")),
        (Order, {"sku": "x", "card": Card("1", WHEN)}, Order("x", Card("1", WHEN))),
        (Order, {"sku": "x", "card": {"number": "1", "until": WHEN}}, Order("x", Card("1", WHEN))),
        (Order, {"sku": "x", "tags": ["a"]}, Order("x", tags={"a"})),
        (list[Order], [{"sku": "x"}, Order("y")], [Order("x"), Order("y")]),
        (Cat, {"name": "Tom"}, Cat(name="Tom")),
        (Pet, {"kind": "dog", "name": "Rex"}, Dog(name="Rex")),
        (Renamed, {"unitPrice": 3}, Renamed(3)),
        (datetime, "2026-01-02T00:00:00+00:00", WHEN),
        (datetime, WHEN, WHEN),
        (pathlib.Path, "/tmp/x", pathlib.Path("/tmp/x")),
        (float, 3, 3.0),
        (set[int], [1, 2], {1, 2}),
        (Iterator[int], [1, 2], [1, 2]),
    ],
)
def test_a_result_that_fits_comes_back_as_annotated(annotation: Any, value: Any, back: Any) -> None:
    results = ResultCodec(annotation, LIMIT)

    result = results.decode(results.encode(value))

    assert result == back
    assert type(result) is type(back)


@pytest.mark.parametrize(
    ("annotation", "value", "why"),
    [
        (Order, {"sku": 3}, r"Expected `str`, got `int` - at `\$\.sku`"),
        (Order, {}, "missing required field `sku`"),
        (Order, {"sku": "x", "skuu": "y"}, r"its value at `\$\.skuu` would be lost"),
        (Order, {"sku": "x", "card": {"number": "1", "cvc": 2}}, r"`\$\.card\.cvc` would be lost"),
        (Order, Card("1"), "missing required field `sku`"),
        (datetime, "not a date", "Invalid RFC3339"),
        (int, None, "Expected `int`, got `null`"),
        (int, "3", "Expected `int`, got `str`"),
        (int, True, "Expected `int`, got `bool`"),
        (str, 3, "Expected `str`, got `int`"),
        (str, WHEN, "this datetime would come back as str"),
        (list[int], [1, "2"], r"Expected `int`, got `str` - at `\$\[1\]`"),
        (float | None, float("nan"), "would come back as NoneType"),
        (list[float | None], [float("nan")], r"`\$\[0\]` would be lost"),
        (Cat, {"kind": "dog", "name": "Rex"}, "kind"),
        (None, 3, "annotated `-> None` and returned a value of type int: return nothing, or correct the annotation"),
        (Any, {1}, "this set would not come back equal"),
    ],
)
def test_a_result_that_does_not_fit_is_refused_with_its_path(annotation: Any, value: Any, why: str) -> None:
    with pytest.raises(InvalidResult, match=why) as refusal:
        ResultCodec(annotation, LIMIT).encode(value)

    assert "\n" not in str(refusal.value)


def test_what_is_no_return_value_may_be_plain_json_beside_the_annotation() -> None:
    results = ResultCodec(Order, LIMIT)

    assert results.decode(results.encode_freely("paid")) == "paid"
    assert results.decode(results.encode_freely({"sku": "x"})) == Order("x")
    with pytest.raises(PayloadError):
        results.encode_freely(object())


# Classes of users.


class Money:
    def __init__(self, text: str) -> None:
        amount, self.currency = text.split()
        self.cents = round(float(amount) * 100)

    def __str__(self) -> str:
        return f"{self.cents / 100} {self.currency}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(str(self))


class Stranger: ...


def test_a_class_that_is_added_can_be_passed_and_returned() -> None:
    with pytest.raises(PayloadError, match="objects of type Money have no JSON form"):
        of_type(Money).encode((Money("1 EUR"),), {})

    tenure.add_type(Money, encode=str, decode=Money)

    for annotation, value in ((Money, Money("1.5 EUR")), (dict[str, Money | None], {"a": Money("2 EUR"), "b": None}),
                              (Card | Money, Money("3 EUR"))):  # fmt: skip
        arguments, results = of_type(annotation), ResultCodec(annotation, LIMIT)
        assert arguments.decode(arguments.encode((value,), {})) == ((value,), {})
        assert results.decode(results.encode(value)) == value
    with pytest.raises(PayloadError, match="'value'"):
        of_type(Money).encode(("no money",), {})


def test_a_class_that_is_not_added_is_refused_and_the_reason_says_how() -> None:
    with pytest.raises(InvalidResult, match=r"Stranger cannot be made from JSON: register it with tenure\.add_type"):
        ResultCodec(Stranger, LIMIT).encode({"a": 1})


@pytest.mark.parametrize("kind", [Card, Cat, Tagged, int, datetime, "Money"])
def test_what_needs_no_adding_cannot_be_added(kind: Any) -> None:
    with pytest.raises(InvalidOption):
        tenure.add_type(kind, encode=str, decode=typing.cast("Any", str))
