"""What a PostgreSQL URL may hold."""

from __future__ import annotations

import pytest

from tenure.errors import InvalidUrl
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.expressions import expressions


def test_our_options_are_taken_out_and_the_drivers_are_left_in() -> None:
    address = Address.from_url(
        "postgresql://u:p%40ss@h:5433/shop?schema=jobs&sslmode=require&connections=9&timeout=2.5&auto_schema=false&pooled=true"
    )

    assert address.dsn == "postgresql://u:p%40ss@h:5433/shop?sslmode=require"
    assert (address.schema, address.connections, address.timeout) == ("jobs", 9, 2.5)
    assert (address.auto_schema, address.pooled) == (False, True)


def test_without_options_there_are_the_usual_ones() -> None:
    address = Address.from_url("postgres://h/shop")

    assert (address.dsn, address.schema, address.auto_schema) == ("postgres://h/shop", "tenure", True)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://h/d?sceham=x", "it has no option 'sceham'"),
        ("postgresql://h/d?schema=a%22b", "not a valid schema name"),
        ("postgresql://h/d?schema=pg_jobs", "PostgreSQL's own"),
        ("postgresql://h/d?schema=" + "x" * 64, "at most 63"),
        ("postgresql://h/d?timeout=0", "timeout must be a number of seconds"),
        ("postgresql://h/d?connections=none", "connections must be a number"),
        ("postgresql://h/d?pooled=yes", "pooled must be true or false"),
        ("postgresql://h/d?schema=a&schema=b", "schema is given twice"),
        ("postgresql://h/d#x", "%23"),
    ],
)
def test_what_is_wrong_with_a_url_is_said_in_one_sentence(url: str, why: str) -> None:
    with pytest.raises(InvalidUrl, match="names no PostgreSQL") as raised:
        Address.from_url(url)

    assert why in str(raised.value)


def test_nobody_is_shown_a_password() -> None:
    address = Address.from_url("postgresql://u:secret@h:5433/shop")

    assert (str(address), repr(address)) == ("h:5433/shop", "<PostgreSQL at h:5433/shop>")
    with pytest.raises(InvalidUrl) as raised:
        Address.from_url("postgresql://u:secret@h:5433/shop?x=1")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("patterns", "serves", "excludes"),
    [
        (["mail"], "^(mail)$", "^()$"),
        (["a.b:c-d_e", "*"], r"^(a\.b\:c\-d_e|.*)$", "^()$"),
        (["m?il*", "!mail"], "^(m.il.*)$", "^(mail)$"),
        (["[a-c]x", "[!a]y", "![ab]z"], "^([a-c]x|[^a]y)$", "^([ab]z)$"),
        (["[x"], r"^(\[x)$", "^()$"),
    ],
)
def test_patterns_become_expressions(patterns: list[str], serves: str, excludes: str) -> None:
    assert expressions(patterns) == (serves, excludes)
