"""Browses a dashboard as browsers do: starts one, loads its pages, keeps streams open, and waits for a change."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlsplit

__all__ = ["PAGES", "Browser", "dashboard_of"]

PAGES = (
    "/",
    "/jobs",
    "/jobs?state=failed",
    "/jobs?state=failed&text=unused",
    "/queues",
    "/tasks",
    "/workers",
    "/failed",
    "/flows",
    "/health",
)


class Browser:
    """One viewer of a dashboard, logged in by the key of its address."""

    def __init__(self, address: str, pid: int) -> None:
        self.pid = pid
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "", parts.port or 0
        connection = HTTPConnection(self._host, self._port)
        connection.request("GET", f"/?{parts.query}")
        self._cookie = (connection.getresponse().getheader("set-cookie") or "").partition(";")[0]
        connection.close()

    def get(self, path: str) -> tuple[float, bytes]:
        """Seconds that the server takes for a page, and the page."""
        connection = HTTPConnection(self._host, self._port)
        begun = time.perf_counter()
        connection.request("GET", path, headers={"Cookie": self._cookie, "Accept": "text/html"})
        response = connection.getresponse()
        body = response.read()
        spent = time.perf_counter() - begun
        connection.close()
        assert response.status == 200, f"{path}: {response.status}"
        return spent, body

    def weight(self, path: str) -> tuple[int, int]:
        """Bytes of a page with its styles and scripts, and of the scripts alone."""
        page = self.get(path)[1].decode()
        names = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
        folder = next(iter(names)).rpartition("/")[0]
        scripts: dict[str, int] = {}
        waiting = [name for name in names if name.endswith(".js")]
        while waiting:
            name = waiting.pop()
            if name not in scripts:
                body = self.get(name)[1]
                scripts[name] = len(body)
                waiting += [f"{folder}/{other}" for other in re.findall(r'"\./([\w.]+\.js)"', body.decode())]
        others = sum(len(self.get(name)[1]) for name in names if not name.endswith(".js"))
        return len(page.encode()) + others + sum(scripts.values()), sum(scripts.values())

    @asynccontextmanager
    async def stream(self, topic: str) -> AsyncIterator[asyncio.StreamReader]:
        """The live stream of a page."""
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=1 << 20)
        head = f"GET /live?topic={quote(topic, safe='')} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nCookie: {self._cookie}\r\n\r\n"
        writer.write(head.encode())
        try:
            yield reader
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def read_for(self, topics: list[str], seconds: float) -> None:
        """Keep these streams open and read what comes."""
        async with contextlib.AsyncExitStack() as stack:
            readers = [await stack.enter_async_context(self.stream(topic)) for topic in topics]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.gather(*[_read_on(reader) for reader in readers])

    def memory(self) -> int:
        """Resident memory of the dashboard's process, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024


async def _read_on(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


@contextmanager
def dashboard_of(url: str) -> Iterator[Browser]:
    """A dashboard of this store in a separate process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tenure", "dashboard", "--url", url, "--port", "0", "--operate"],
        env=os.environ | {"TENURE_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield Browser(process.stdout.readline().strip(), process.pid)
    finally:
        process.terminate()
        process.wait()
