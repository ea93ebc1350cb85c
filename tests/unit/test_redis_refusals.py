"""What a server's refusals mean: written as Redis 6, 7 and Valkey write them."""

from __future__ import annotations

import pytest
from redis.connection import DefaultParser

from tenure.errors import StoreError, StoreFull, StoreUnavailable
from tenure.stores.redis.pool import Forbidden, ForbiddenInScript, ScriptMissing, error_from
from tenure.stores.redis.wire import ErrorReply

IN_6 = "ERR Error running script (call to f_0aa2638): @user_script:1: @user_script: 1: -{} whatever else it says"
IN_7 = "{} whatever else it says script: 0aa2638, on @user_script:1."


def refusal(text: str) -> ErrorReply:
    """What the driver makes of such an answer."""
    found: ErrorReply = DefaultParser.parse_error(text)  # type: ignore[no-untyped-call]
    return found


@pytest.mark.parametrize("form", ["{} whatever else it says", IN_6, IN_7])
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("OOM", StoreFull),
        ("READONLY", StoreUnavailable),
        ("MISCONF", StoreUnavailable),
        ("NOREPLICAS", StoreUnavailable),
        ("WRONGTYPE", StoreError),
    ],
)
def test_a_refusal_means_the_same_inside_a_script(form: str, code: str, kind: type[StoreError]) -> None:
    assert type(error_from(refusal(form.format(code)))) is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NOSCRIPT No matching script. Please use EVAL.", ScriptMissing),
        ("MOVED 3999 127.0.0.1:6381", StoreUnavailable),
        ("ASK 3999 127.0.0.1:6381", StoreUnavailable),
        ("TRYAGAIN Multiple keys request during rehashing of slot", StoreUnavailable),
        ("CLUSTERDOWN Hash slot not served", StoreUnavailable),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", StoreUnavailable),
        ("BUSY Redis is busy running a script.", StoreUnavailable),
        ("UNBLOCKED force unblock from blocking operation", StoreUnavailable),
        ("NOPERM User tenure has no permissions to run the 'evalsha' command", Forbidden),
        (IN_6.format("NOPERM"), ForbiddenInScript),
        (IN_7.format("NOPERM"), ForbiddenInScript),
        (
            "ERR The user executing the script can't run this command or subcommand script: 61, on @user_script:1.",
            ForbiddenInScript,
        ),
        ("ERR ACL failure in script: No permissions to access a key script: on @user_script:1.", ForbiddenInScript),
        ("ERR unknown command 'NOSUCH', with args beginning with: 'x'", StoreError),
    ],
)
def test_a_refusal_says_whether_waiting_helps(text: str, kind: type[StoreError]) -> None:
    assert type(error_from(refusal(text))) is kind
