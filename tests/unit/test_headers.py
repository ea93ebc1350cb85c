"""The headers of a job: what a producer may give, and what is refused."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from tenure.core.checks import HEADER_BYTES, HEADERS, headers
from tenure.errors import InvalidOption


@pytest.mark.parametrize(
    "given",
    [
        {"tenant": "t1"},
        {"a": ""},
        {"traceparent": "00-0af7-b7ad-01", "x-1": "Zoë “quoted” 😀 \n\t\\"},
        {"-" * 64: "x"},
        {f"h{number}": "" for number in range(HEADERS)},
        {"h": "x" * (HEADER_BYTES - 1)},
        {"h": "ä" * ((HEADER_BYTES - 1) // 2)},
    ],
)
def test_short_texts_by_name_are_headers(given: dict[str, str]) -> None:
    assert headers(given) == given


@pytest.mark.parametrize("given", [None, {}, MappingProxyType({})])
def test_no_headers_are_none(given: object) -> None:
    assert headers(given) is None


def test_headers_are_a_copy_of_what_was_given() -> None:
    given = {"tenant": "t1"}
    checked = headers(MappingProxyType(given))
    given["tenant"] = "t2"

    assert checked == {"tenant": "t1"}
    assert type(checked) is dict


@pytest.mark.parametrize("given", ["tenant", 7, [("tenant", "t1")], {"tenant"}, b"x", True])
def test_what_is_no_mapping_is_refused(given: object) -> None:
    with pytest.raises(InvalidOption, match="headers must be a mapping of names to texts, not"):
        headers(given)


@pytest.mark.parametrize(
    "name", ["", "Tenant", "a b", "a_b", "a.b", "ä", "٣", "a\n", "x" * 65, None, 7, b"a", ("a",), "a\0", "\x1b[31m"]
)
def test_any_other_name_of_a_header_is_refused(name: object) -> None:
    with pytest.raises(InvalidOption, match="a name in headers must be 1 to 64 of a-z, 0-9 and -, not") as refusal:
        headers({name: "t1"})

    assert "\x1b" not in str(refusal.value)


@pytest.mark.parametrize("text", [None, 7, b"t1", ["t1"], "a\0b", "\ud800"])
def test_a_value_that_a_store_might_not_keep_is_refused_naming_its_header(text: object) -> None:
    with pytest.raises(InvalidOption, match=r"headers\['tenant'\] must be a text, not"):
        headers({"a": "fine", "tenant": text})


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        ({f"h{number}": "" for number in range(HEADERS + 1)}, f"not {HEADERS + 1} with 41"),
        ({"h": "x" * HEADER_BYTES}, f"not 1 with {HEADER_BYTES + 1:,}"),
        ({"h": "ä" * (HEADER_BYTES // 2)}, f"not 1 with {HEADER_BYTES + 1:,}"),
        ({"n" * 64: "x" * (HEADER_BYTES - 63)}, f"not 1 with {HEADER_BYTES + 1:,}"),
    ],
)
def test_too_many_or_too_long_headers_are_refused_with_advice(given: dict[str, str], fact: str) -> None:
    with pytest.raises(
        InvalidOption, match=f"at most 16 with 2,000 bytes in all, {fact}: store what is larger elsewhere"
    ):
        headers(given)


def test_a_refusal_names_the_option() -> None:
    with pytest.raises(InvalidOption, match=r"^a name in stamp "):
        headers({"A": "x"}, "stamp")
