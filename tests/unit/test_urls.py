"""URLs are shown without their passwords, whatever is in those: by reprs, errors, and the command line."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback

import pytest

from tenure import App
from tenure.stores import masked

PASSWORDS = ["1/hush", "1?hush", "1#hush", "1@hush"] + [
    f"hush{special}{after}hush"
    for special in ("#", "/", "?", "@", ":", "%", "[", "]", "//", "?password=", "&", "#@/", "%zz", "℀")
    for after in ("", "6379/", "1")
]

TEMPLATES = [
    "redis://ann:{}@localhost:1/0",
    "redis://:{}@localhost:1/0",
    "rediss://ann:{}@localhost:1",
    "valkey://ann:{}@localhost:1",
    "redis+sentinel://ann:{}@localhost:1,127.0.0.1:1/mymaster",
    "redis+cluster://ann:{}@localhost:1",
    "unix://ann:{}@/nowhere/redis.sock",
    "postgresql://ann:{}@localhost:1/db",
    "postgres://ann:{}@localhost:1,127.0.0.1:1/db?sslmode=disable",
    "sqlite://ann:{}@localhost/jobs.db",
    "mysql://ann:{}@localhost/jobs",
    "ann:{}@localhost",
    "{}@localhost",
]


def shown(error: BaseException) -> str:
    """All that can be seen of an error: of itself, of its causes, and of the contexts of all of them, suppressed or not."""
    found = [str(error), repr(error), "".join(traceback.format_exception_only(error))]
    for other in (error.__cause__, error.__context__):
        if other is not None:
            found.append(shown(other))
    return "\n".join(found)


async def used(url: str) -> str:
    """What is seen of an app that is used with this URL."""
    app = App(url)
    try:
        await app.internals.session.store.layout()
    except Exception as error:
        return f"{app!r} {shown(error)}"
    finally:
        await app.aclose()
    return repr(app)


@pytest.mark.parametrize("template", TEMPLATES)
async def test_no_password_is_shown_whatever_is_in_it(template: str) -> None:
    urls = [template.format(password) for password in PASSWORDS]
    for url, seen in zip(urls, await asyncio.gather(*map(used, urls)), strict=True):
        assert "hush" not in masked(url), url
        assert "hush" not in seen, url


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("redis://ann:hush@host:1/0", "redis://•••@host:1/0"),
        ("redis://host/0?password=hush", "redis://host/0?password=•••"),
        ("redis://host/0?password=hu@sh&db=1", "redis://•••@•••&db=1"),
        ("redis+sentinel://a?sentinel_password=hush&timeout=1", "redis+sentinel://a?sentinel_password=•••&timeout=1"),
        ("postgresql://h/db?sslpassword=hush", "postgresql://h/db?sslpassword=•••"),
        ("postgresql://ann:hush@h/db?password=hush", "postgresql://•••@h/db?password=•••"),
        ("sqlite:////home/ann@work/jobs.db", "sqlite:////home/ann@work/jobs.db"),
        ("memory://name", "memory://name"),
        ("postgresql:///db", "postgresql:///db"),
    ],
)
def test_what_is_no_password_is_shown(url: str, seen: str) -> None:
    assert masked(url) == seen
    assert repr(App(url)) == f"<App {seen}>"


@pytest.mark.parametrize("url", [TEMPLATES[0], TEMPLATES[7], TEMPLATES[9]])
def test_the_command_line_shows_none_either(url: str) -> None:
    for password in ("hush#hush", "hush/hush"):
        ended = subprocess.run(
            [sys.executable, "-m", "tenure", "jobs", "--url", url.format(password)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 2
        assert "•••@localhost" in ended.stderr
        assert "hush" not in ended.stderr + ended.stdout


async def test_what_must_be_escaped_is_told() -> None:
    with pytest.raises(ValueError, match="has a character in it that must be escaped: # is written %23, / is %2F"):
        await App("redis://ann:hush#hush@host").internals.session.store.layout()
