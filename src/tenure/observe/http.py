"""`serve`: a small HTTP server for monitoring, which answers each request with what a function returns for its path."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple, NoReturn

from tenure.errors import InvalidOption

__all__ = ["Answer", "json_answer", "listener", "serve", "text_answer"]

REQUEST_WITHIN = 2.0
"""Seconds within which a client must have sent its request."""

READ_WITHIN = 10.0
"""Seconds within which a client must have read the answer."""


class Answer(NamedTuple):
    """What is sent for a request."""

    status: HTTPStatus
    content_type: str
    body: bytes


Respond = Callable[[str], Answer | Awaitable[Answer]]
"""Makes the answer for a path with its query, such as `/scale?queue=mail`."""


def json_answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return Answer(status, "application/json", json.dumps(value).encode() + b"\n")


def text_answer(text: str, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """A text, which may be metrics in the exposition format."""
    return Answer(status, "text/plain; version=0.0.4; charset=utf-8", text.encode())


def listener(host: str, port: int, option: str) -> socket.socket:
    """A listening socket. Raises `InvalidOption`, which names this option, if the port cannot be used."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (while")[0]  # Python repeats the address there
        raise InvalidOption(f"{option} {port} on {host} cannot be used: {reason}; choose another") from error


async def serve(listening: socket.socket, respond: Respond) -> NoReturn:
    """Answer HTTP requests, one for each connection. Runs until cancelled."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_WITHIN):
                request = await reader.readuntil(b"\r\n\r\n")
            made = respond(_path(request))
            writer.write(_encoded(made if isinstance(made, Answer) else await made))
            async with asyncio.timeout(READ_WITHIN):
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, sock=listening, limit=8192)
    async with server:
        while True:
            await server.serve_forever()


def _path(request: bytes) -> str:
    words = request.partition(b"\r\n")[0].split()
    return words[1].decode("ascii", "replace") if len(words) > 1 else "/"


def _encoded(answer: Answer) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + answer.body
