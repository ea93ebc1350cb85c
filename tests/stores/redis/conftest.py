"""A Redis server for each test, links to it, and the event loops that they are tried on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest
import uvloop

from tenure.stores.redis.address import Address
from tenure.stores.redis.link import Link
from tests.servers.certificates import Certificates
from tests.servers.proxy import Proxy, proxied
from tests.servers.server import Server

MakeLink = Callable[..., Link]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Both of them for what speaks to sockets by itself: they disagree about connections that are gone."""
    if item.path.name == "test_topology.py":
        return {"asyncio": asyncio.new_event_loop}
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path).start()
    yield server
    server.kill()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with proxied(server.port) as proxy:
        yield proxy


@pytest.fixture
async def make_link(server: Server) -> AsyncIterator[MakeLink]:
    made: list[Link] = []

    def make(url: str | None = None, **options: object) -> Link:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        made.append(Link(Address.from_url(f"{url or server.url}?{query}"), ["counter"]))
        return made[-1]

    yield make
    for link in made:
        await link.close()


@pytest.fixture
def link(make_link: MakeLink) -> Link:
    return make_link()


@pytest.fixture
def weak_link(make_link: MakeLink, proxy: Proxy) -> Link:
    """One that can be cut."""
    return make_link(f"redis://127.0.0.1:{proxy.port}", timeout=20, connect_timeout=2)


@pytest.fixture
def hasty_link(make_link: MakeLink, proxy: Proxy) -> Link:
    """One that can be cut, and waits no longer than a busy machine may take for a round trip."""
    return make_link(f"redis://127.0.0.1:{proxy.port}", timeout=1, connect_timeout=1)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def clients(server: Server, kind: str = "normal") -> list[dict[str, str]]:
    """Who is connected, apart from the one who asks."""
    with server.client() as client:
        mine = client.client_id()
        return [each for each in client.client_list(_type=kind) if int(each["id"]) != mine]
