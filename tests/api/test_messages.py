"""What first users read when something is wrong: the cause, once, and what to do next."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tenure import App
from tenure.errors import PayloadError, StoreUnavailable
from tests.api.conftest import whatever_the_store


def send(user: int, *, copies: int = 1) -> None: ...


@whatever_the_store
@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"delay": 10}, r"task 'send': got an unexpected keyword argument 'delay', which is an option of the job: write \.using\(delay=10\)"),
        ({"countdown": 10}, r"argument 'countdown', which is an option of the job: write \.using\(delay=10\)"),
        ({"copies": 2, "priority": -1}, r"write \.using\(priority=-1\)"),
        ({"copis": 2}, "task 'send': got an unexpected keyword argument 'copis'$"),
    ],
)  # fmt: skip
def test_an_option_among_the_arguments_points_to_using(app: App, kwargs: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        app.task(send).enqueue(1, **kwargs)


@whatever_the_store
def test_a_parameter_that_has_the_name_of_an_option_is_a_parameter(app: App) -> None:
    def wait(delay: int) -> None: ...

    assert app.task(wait).bind(delay=10).payload == b'{"kwargs":{"delay":10}}'


@whatever_the_store
@pytest.mark.parametrize("value", ["x", object(), float("nan")])
def test_a_wrong_argument_is_one_exception_with_its_cause(app: App, value: Any) -> None:
    with pytest.raises(PayloadError, match="parameter 'user'") as refusal:
        app.task(send).enqueue(value)

    chain: list[BaseException] = [refusal.value]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(before)
    assert [error for error in chain if isinstance(error, PayloadError)] == [refusal.value]
    assert len(chain) <= 3  # the driver's word for it, and what that came from


@pytest.mark.parametrize(("scheme", "server"), [("redis", "Redis"), ("postgresql", "PostgreSQL")])
async def test_a_server_that_is_not_there_is_asked_about(scheme: str, server: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    app = App(f"{scheme}://127.0.0.1:{port}/0")

    with pytest.raises(StoreUnavailable, match=rf"{server} at .*{port}.* refused the connection: is it running\?"):
        await app.ajobs()
    await app.aclose()


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "missing" / "dir"
    app = App(f"sqlite:///{folder}/x.db")

    with pytest.raises(StoreUnavailable, match=f"there is no folder '{folder}' for the SQLite file '{folder}/x.db'"):
        await app.ajobs()
    await app.aclose()
