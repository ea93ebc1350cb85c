"""How a store's URL is read, and how it is shown without its passwords.

Each option is read by a function of its text and its name, which raises ValueError.
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
    """The URL without its user name and passwords, for people and logs.

    Everything between `//` and the last `@` is hidden, before anything is parsed: an unescaped `#`, `/` or `?` in a password would
    otherwise end it too soon. So are the values of all options whose names end in `password`.
    """
    if url.startswith("sqlite:///"):
        return url  # a path, in which an @ is an @
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
    """What `parse` makes of the URL; `InvalidUrl` if it raises ValueError.

    What that error says may contain a part of a password. So the reason given is the one for the masked URL; if that can be parsed,
    the credentials are what is wrong. No error that knows more is left as the context of the one that is raised.
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
    """What the query of a URL says: each option once, and no other than these."""
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
    """Refuse an @ in the path, after a host: a / in a password would end it there, and the rest be shown as a name."""
    refuse_unless(not parts.netloc or "@" not in parts.path, "there is an @ after the host, which must be written %40")


def refuse_unless(true: bool, why: str) -> None:
    if not true:
        raise ValueError(why)


def connection_refused(error: BaseException) -> bool:
    """Whether nothing listens where a driver has tried to connect; some drivers give only the text of the system's error."""
    return isinstance(error, ConnectionRefusedError) or any(
        sign in str(error)
        for sign in (os.strerror(errno.ECONNREFUSED), f"[Errno {errno.ECONNREFUSED}]", f"Error {errno.ECONNREFUSED} ")
    )
