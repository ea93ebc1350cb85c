"""The programs in docs/inbox.md enqueue a job in their languages, and a worker runs it.

Those for Bash and Node always run. The others run where the language and its clients are installed;
`test_what_is_not_tried_is_named` warns of those that do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import subprocess
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import psycopg
import pytest

from tenure import App

from .documentation import ROOT, Block, blocks
from .servers.clients import node_modules, psql, redis_cli
from .servers.server import Server

PAGE = ROOT / "docs/inbox.md"

GO = {"GO111MODULE": "off", "GOPATH": os.environ.get("GOPATH", "/usr/share/gocode")}
"""Where Debian has the packages of Go."""


class Language(NamedTuple):
    file: str
    command: tuple[str, ...]
    probe: tuple[str, ...] = ()
    """A command that succeeds where the clients are installed; none: the tests install them, or fail."""

    environment: Mapping[str, str] = {}


LANGUAGES = {
    "bash": Language("snippet.sh", ("bash",)),
    "js": Language("snippet.mjs", ("node",)),
    "ruby": Language("snippet.rb", ("ruby",), ("ruby", "-e", 'require "redis"; require "pg"')),
    "php": Language(
        "snippet.php", ("php",), ("php", "-r", 'exit(array_diff(["redis", "pdo_pgsql"], get_loaded_extensions()) ? 1 : 0);')
    ),
    "go": Language(
        "snippet.go", ("go", "run"), ("go", "list", "github.com/gomodule/redigo/redis", "github.com/lib/pq"), GO
    ),
}  # fmt: skip


def tried(language: Language) -> bool:
    if not language.probe:
        return True
    if shutil.which(language.probe[0]) is None:
        return False
    environment = {**os.environ, **language.environment}
    return subprocess.run(language.probe, env=environment, capture_output=True, check=False).returncode == 0


FOUND = [name for name, language in LANGUAGES.items() if tried(language)]


def snippets(section: str) -> dict[str, Block]:
    """The programs of one section of the page, by language."""
    text = PAGE.read_text()
    begin = text.count("\n", 0, text.index(f"\n## {section}\n")) + 1
    headings = [text.count("\n", 0, each.start()) for each in re.finditer(r"^## ", text, re.MULTILINE)]
    end = min((line for line in headings if line > begin), default=len(text))
    found = [block for block in blocks(PAGE) if begin < block.line <= end and block.language in LANGUAGES]
    assert len({block.language for block in found}) == len(found)
    return {block.language: block for block in found}


async def run(block: Block, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a program of the page; what it has printed."""
    language = LANGUAGES[block.language]
    (folder / language.file).write_text(block.code)
    if block.language == "js":
        (folder / "node_modules").symlink_to(node_modules())
    if block.language == "bash":
        (folder / "redis-cli").symlink_to(redis_cli())
        (folder / "psql").symlink_to(psql())
        environment = {**environment, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    process = await asyncio.create_subprocess_exec(
        *language.command,
        language.file,
        cwd=folder,
        env={**os.environ, **language.environment, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        said, errors = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert (process.returncode, errors.decode()) == (0, ""), f"{block}: {said!r}"
    return said.decode()


@contextlib.asynccontextmanager
async def working(url: str) -> AsyncIterator[App]:
    """An app with the task of the page, and a worker that is idle and would not look again for a minute."""
    app = App(url, log=False)

    @app.task(queue="mail")
    def send_receipt(order: int, language: str = "en") -> str:
        return f"receipt for order {order}, in {language}"

    async with app.worker(["mail"], poll=60), asyncio.timeout(50):
        await asyncio.sleep(0.1)  # until it is idle
        yield app
    await app.aclose()


@pytest.fixture(scope="module")
def redis_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server whose default namespace is ours."""
    server = Server(tmp_path_factory.mktemp("redis")).start()
    yield server.url
    server.kill()


@pytest.fixture(scope="module")
def database(postgres_server_url: str) -> Iterator[str]:
    """The URL of a database whose schema `tenure` is ours, with a table of orders."""
    name = f"snippets{secrets.token_hex(4)}"
    with psycopg.connect(postgres_server_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
        url = urlsplit(postgres_server_url)._replace(path=f"/{name}", query="").geturl()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE orders (number integer)")
        yield url
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.parametrize("language", FOUND)
async def test_a_program_wakes_a_worker_with_a_push_to_redis(
    language: str, redis_of_its_own: str, tmp_path: Path
) -> None:
    async with working(redis_of_its_own) as app:
        await run(snippets("Redis and Valkey")[language], tmp_path, {"REDIS_URL": redis_of_its_own})
        while not (found := await app.ajobs()):
            await asyncio.sleep(0.01)

        assert await found[0].aresult() == "receipt for order 42, in de"
        assert found[0].id == "receipt-42"
        assert await app.adelete("receipt-42")


@pytest.mark.parametrize("language", FOUND)
async def test_a_program_enqueues_with_its_data_and_reads_the_result_from_postgres(
    language: str, database: str, tmp_path: Path
) -> None:
    url = urlsplit(database)
    environment = {
        "DATABASE_URL": f"{database}?sslmode=disable",
        "DATABASE_DSN": f"pgsql:host={url.hostname};port={url.port or 5432};dbname={url.path[1:]};user={url.username}"
        + (f";password={unquote(url.password)}" if url.password else ""),
    }
    async with working(database):
        said = await run(snippets("PostgreSQL")[language], tmp_path, environment)

    assert said == 'succeeded|"receipt for order 42, in de"\n'
    with psycopg.connect(database) as connection:
        assert connection.execute("DELETE FROM orders RETURNING number").fetchall() == [(42,)]


@pytest.mark.parametrize("section", ["Redis and Valkey", "PostgreSQL"])
def test_the_page_has_a_program_for_every_language(section: str) -> None:
    assert snippets(section).keys() == LANGUAGES.keys()


def test_what_is_not_tried_is_named() -> None:
    missing = sorted(LANGUAGES.keys() - set(FOUND))
    if missing:
        warnings.warn(f"programs of docs/inbox.md that were not run here: {', '.join(missing)}", stacklevel=1)

    assert not {"bash", "js"} & set(missing)
