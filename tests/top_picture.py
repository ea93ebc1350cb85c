"""Draw docs/images/top.svg: a frame of `tenure top` while real workers run, and one of them has died (`make picture`)."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from tenure import App, Context
from tenure.cli.top.drawing import draw
from tenure.cli.top.frame import Frame
from tenure.cli.top.state import Ui
from tenure.jobs.snapshot_reader import Looking, SnapshotReader

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs/images/top.svg"
WIDTH, HEIGHT = 120, 20

WORKERS = {
    "web-1": (["default", "mail"], 8),
    "web-2": (["default", "mail"], 8),
    "web-3": (["images"], 3),
    "web-4": (["images", "default"], 3),
}
"""The queues and slots of each worker, by the name of the host that it says it runs on."""

app = App("sqlite:///shop.db", release="2026.3")


@app.task(queue="mail", retry=None)
async def send_receipt(order: int) -> None:
    await asyncio.sleep(random.uniform(0.02, 0.2))
    if order % 13 == 0:
        raise TimeoutError("no answer in 5 s") if order % 4 == 0 else ConnectionError("smtp refused")


@app.task(queue="images")
async def resize(ctx: Context, width: int) -> None:
    for done in range(50):
        ctx.progress(done, 50, f"{width} px")
        await asyncio.sleep(random.uniform(0.05, 0.4))


@app.task
async def index(page: int) -> None:
    await asyncio.sleep(0.01)


@app.task(queue="reports")
def report(month: int) -> None: ...


def work(host: str) -> None:
    """Run a worker that takes this for the name of its machine, so that no picture has the name of yours."""
    socket.gethostname = lambda: host
    logging.getLogger("tenure").setLevel(logging.CRITICAL)
    queues, concurrency = WORKERS[host]
    app.worker(queues, concurrency=concurrency).run()


async def film(seconds: float) -> Frame:
    """Enqueue jobs for this time while `tenure top` reads, and kill a worker before the end. Returns the last frame."""
    await app.apause("reports")
    await report.aenqueue_many([(month,) for month in range(12)])
    await send_receipt.using(delay=3600).aenqueue_many([(order,) for order in range(1, 25)])
    await resize.aenqueue_many([(width,) for width in range(100, 2100, 100)])
    await send_receipt.aenqueue_many([(order,) for order in range(1, 300)])
    command = [sys.executable, "-m", __spec__.name]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    workers = {host: subprocess.Popen([*command, host], env=environment) for host in WORKERS}
    reader = SnapshotReader(app.internals.session.store, app.url)
    reader.look(Looking(frozenset({"running", "failed"})))
    reading = asyncio.create_task(reader.run(lambda _: None))
    try:
        orders, end = iter(range(1, 1_000_000)), time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await send_receipt.aenqueue_many([(next(orders),) for _ in range(random.randrange(40, 65))])
            await index.aenqueue_many([(page,) for page in range(random.randrange(20, 40))])
            if random.random() < 0.25:
                await resize.aenqueue(random.randrange(100, 5000))
            if left < 15:
                workers["web-3"].kill()
            await asyncio.sleep(0.5)
        return draw(reader.snapshot, WIDTH, HEIGHT, Ui(queue="mail"))
    finally:
        reading.cancel()
        for worker in workers.values():
            worker.kill()
            worker.wait()
        await app.aclose()


def drawn(frame: Frame) -> str:
    """The frame as an SVG that needs no font and no other file from the network."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(frame, end="")
    form = re.sub(r"\s*@font-face \{\{.*?\}\}|\s*<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = form.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace")
    svg = console.export_svg(title="tenure top", code_format=form, unique_id="top")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def main(seconds: float) -> None:
    """Draw what is to be seen after this time. Workers write their measures every ten seconds."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        frame = asyncio.run(film(seconds))
    PICTURE.write_text(drawn(frame), encoding="utf-8")
    print(frame.plain)


if __name__ == "__main__":
    [argument] = sys.argv[1:] or ["45"]
    work(argument) if argument in WORKERS else main(float(argument))
