"""Reads the URL of a store and its options, and masks its passwords.

Each option has a function that reads its text, given text and name of the option, and raises ValueError.
"""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl

from tenure.core import checks
from tenure.errors import InvalidName, InvalidUrl

__all__ = [
    "Read",
    "connection_refused",
    "count",
    "masked",
    "name",
    "number",
    "options",
    "parsed",
    "refuse_at_in",
    "refuse_unless",
    "seconds",
    "text",
    "yes",
]

Read = Callable[[str, str], Any]

T = TypeVar("T")

HIDDEN = "•••"


def masked(url: str) -> str:
    """The URL with user name and passwords hidden, for people and logs.

    Hides everything between `//` and the last `@` before it parses anything, because an unescaped `#`, `/` or `?` in a
    password would otherwise end it too soon. Also hides the values of options whose names end in `password`.
    """
    if url.startswith("sqlite:///"):
        return url  # in a path, an @ is just an @
    credentials, at, rest = url.rpartition("@")
    if not at:
        return _without_options(url)
    scheme = re.match("[A-Za-z0-9+.-]+://", credentials)
    if "password=" in credentials:  # the @ may be within its value
        rest = HIDDEN + rest[rest.find("&") :] if "&" in rest else HIDDEN
    return f"{scheme[0] if scheme else ''}{HIDDEN}@{_without_options(rest)}"


def _without_options(text: str) -> str:
    return re.sub("password=[^&]*", f"password={HIDDEN}", text)


def parsed(url: str, parse: Callable[[str], T], what: str) -> T:
    """The URL as `parse` reads it; `InvalidUrl` if `parse` raises ValueError.

    The text of that ValueError may contain a part of a password. So the reason given is that for the masked URL; if
    that one can be parsed, the credentials are wrong. `InvalidUrl` has no other error as its context, because that
    would show the password.
    """
    try:
        return parse(url)
    except ValueError:
        pass
    raise InvalidUrl(f"{masked(url)!r} names no {what}: {_why(url, parse)}")


def _why(url: str, parse: Callable[[str], object]) -> str:
    user_only = ":" not in url.rpartition("@")[0].partition("://")[2]
    try:
        parse(masked(url) if user_only else masked(url).replace(f"//{HIDDEN}@", f"//{HIDDEN}:{HIDDEN}@"))
    except ValueError as error:
        return str(error)
    return (
        "its user name or password has a character in it that must be escaped: "
        "# is written %23, / is %2F, ? is %3F, @ is %40, : is %3A, % is %25, [ is %5B, ] is %5D"
    )


def options(query: str, known: Mapping[str, Read]) -> dict[str, Any]:
    """The options in the query of a URL. ValueError if one is given twice or is not `known`."""
    found: dict[str, Any] = {}
    for option, value in parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)):
        refuse_unless(option in known, f"it has no option {option!r}, only {', '.join(sorted(known))}")
        refuse_unless(option not in found, f"{option} is given twice")
        found[option] = known[option](value, option)
    return found


def text(value: str, option: str) -> str:
    refuse_unless(value != "", f"{option} is empty")
    return value


def name(value: str, option: str) -> str:
    try:
        return checks.name(option, value)
    except InvalidName as error:
        raise ValueError(str(error)) from None


def number(value: str, option: str) -> int:
    refuse_unless(value.isascii() and value.isdigit(), f"{option} must be a number, got {value!r}")
    return int(value)


def count(value: str, option: str) -> int:
    found = number(value, option)
    refuse_unless(found > 0, f"{option} must be at least 1")
    return found


def seconds(value: str, option: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    refuse_unless(0 < found < math.inf, f"{option} must be a number of seconds, got {value!r}")
    return found


def yes(value: str, option: str) -> bool:
    refuse_unless(value in {"true", "false"}, f"{option} must be true or false, got {value!r}")
    return value == "true"


def refuse_at_in(parts: SplitResult) -> None:
    """Refuse an @ in the path after a host: with an unescaped / in a password, the rest of it would be shown as a name."""
    refuse_unless(not parts.netloc or "@" not in parts.path, "there is an @ after the host, which must be written %40")


def refuse_unless(true: bool, why: str) -> None:
    if not true:
        raise ValueError(why)


def connection_refused(error: BaseException) -> bool:
    """Whether a driver failed to connect because nothing listens there.

    Some drivers give only the text of the system's error.
    """
    return isinstance(error, ConnectionRefusedError) or any(
        sign in str(error)
        for sign in (os.strerror(errno.ECONNREFUSED), f"[Errno {errno.ECONNREFUSED}]", f"Error {errno.ECONNREFUSED} ")
    )
