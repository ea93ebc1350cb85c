"""The Redis store keeps the contract with no more rights than docs/redis.md asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.servers.server import Server

from . import test_redis

PAGE = Path(__file__).parents[2] / "docs" / "redis.md"
[RULES] = re.findall(r"^user tenure (.*)$", PAGE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("redis")).start()
    server.do("ACL", "SETUSER", "tenure", *RULES.split())
    yield server
    server.kill()


class TestRedisWithFewRights(test_redis.TestRedis):
    @pytest.fixture
    def redis_url(self, server: Server) -> str:
        server.do("FLUSHALL")
        return f"redis://tenure:change-me@127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    "command",
    [
        "GET another",
        "HGET tenure:{other}:jobs x",
        "RPUSH another x",
        "PUBLISH another x",
        "KEYS *",
        "FLUSHALL",
        "CONFIG GET *",
    ],
)
def test_the_rest_of_the_server_is_out_of_reach(server: Server, command: str) -> None:
    with (
        redis.Redis(port=server.port, username="tenure", password="change-me") as client,
        pytest.raises(redis.exceptions.NoPermissionError),
    ):
        client.execute_command(*command.split())
