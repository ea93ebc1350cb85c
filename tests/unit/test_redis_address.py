"""URLs of Redis stores: what each says, and what is refused in one sentence."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tenure.errors import InvalidUrl
from tenure.stores import masked
from tenure.stores.redis.address import Address, Kind, Node


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://", {"nodes": (Node("localhost", 6379),)}),
        ("redis://host", {"nodes": (Node("host", 6379),)}),
        ("redis://host:7000/3", {"nodes": (Node("host", 7000),), "db": 3}),
        ("redis://[::1]:7000", {"nodes": (Node("::1", 7000),)}),
        ("redis://:secret@host", {"password": "secret", "user": None}),
        ("redis://al%40ice:s%2Fe@host", {"user": "al@ice", "password": "s/e"}),
        ("redis://host?namespace=mail&timeout=0.5", {"namespace": "mail", "timeout": 0.5}),
        ("redis://host?connections=3&connect_timeout=2", {"connections": 3, "connect_timeout": 2.0}),
        ("redis://host?db=4&user=u&password=p", {"db": 4, "user": "u", "password": "p"}),
        ("rediss://host?ca=/ca.pem&verify=false", {"tls": True, "ca": "/ca.pem", "verify": False}),
        ("unix:///run/redis.sock?db=2", {"nodes": (Node("/run/redis.sock"),), "db": 2}),
        ("unix://u:p@/run/redis.sock", {"user": "u", "password": "p", "nodes": (Node("/run/redis.sock"),)}),
        (
            "redis+sentinel://a,b:7000/main/2?sentinel_password=s",
            {
                "kind": Kind.SENTINEL,
                "nodes": (Node("a", 26379), Node("b", 7000)),
                "master": "main",
                "db": 2,
                "sentinel_password": "s",
                "password": None,
            },
        ),
        ("rediss+cluster://u:p@a:1,b:2", {"kind": Kind.CLUSTER, "tls": True, "nodes": (Node("a", 1), Node("b", 2))}),
    ],
)
def test_a_url_says_where_and_how(url: str, expected: dict[str, Any]) -> None:
    address = Address.from_url(url)

    assert {name: getattr(address, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://a,b", "only redis+sentinel:// and redis+cluster:// take several hosts"),
        ("redis://host/first", "the database must be a number, got 'first'"),
        ("redis://host/1/2", "'1/2' is no database"),
        ("redis://host:port", "Port could not be cast"),
        ("redis://host?namespce=mail", "it has no option 'namespce'"),
        ("redis://host?namespace={mail}", "is not a valid namespace name"),
        ("redis://host?namespace=a&namespace=b", "namespace is given twice"),
        ("redis://:p@host?password=q", "password is given twice"),
        ("redis://host?timeout=0", "timeout must be a number of seconds, got '0'"),
        ("redis://host?timeout=inf", "timeout must be a number of seconds, got 'inf'"),
        ("redis://host?connections=0", "connections must be at least 1"),
        ("redis://host?verify=no", "verify must be true or false, got 'no'"),
        ("redis://host?ca=", "ca is empty"),
        ("redis://host#1", "which must be written %23"),
        ("unix://", "write unix:///path/of/the/socket"),
        ("redis+sentinel://a,b", "write the name of the master"),
        ("redis+cluster://a/1", "a cluster has no databases but 0"),
    ],
)
def test_a_url_that_says_nothing_sensible_is_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidUrl) as refusal:
        Address.from_url(url)

    assert why in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://alice:hush@host/none",
        "redis://alice@host/none?password=hush",
        "redis+sentinel://a:1,b:2?sentinel_password=hush&timeout=1",
    ],
)
def test_passwords_are_not_repeated(url: str) -> None:
    assert "hush" not in masked(url)

    with pytest.raises(InvalidUrl) as refusal:
        Address.from_url(url)
    assert "hush" not in str(refusal.value)


def test_a_missing_driver_is_named_in_one_sentence() -> None:
    without = (
        "import sys; sys.modules['redis'] = None; from tenure.stores import open_store; open_store('rediss://host')"
    )

    ended = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)

    assert ended.stderr.splitlines()[-1].endswith(
        'rediss:// stores need a driver that is not installed: pip install "tenure[redis]"'
    )
