"""The command metrics: serves the metrics of a store to Prometheus, or prints them, alert rules or a dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.messages import CommandError, print_message

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.observe.prometheus import Collector

__all__ = ["metrics"]


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=9464, show_default=True, metavar="PORT", help="Port to serve on; 0 takes any free one.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to serve on.")
@click.option(
    "--target",
    "within",  # `target` is the app
    envvar="TENURE_METRICS_TARGET",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time within which everything in line should have run; tenure_queue_slots_wanted is computed by it.",
)
@click.option("--once", is_flag=True, help="Print the metrics and stop. The exit code is 1 if the store is down.")
@click.option("--rules", is_flag=True, help="Print alert rules for Prometheus and stop.")
@click.option("--grafana", is_flag=True, help="Print a dashboard for Grafana and stop.")
@with_app(empty=True)
async def metrics(app: App, port: int, host: str, within: float, once: bool, rules: bool, grafana: bool) -> None:
    """Serve the metrics of the whole system to Prometheus, on /metrics. Ctrl-C stops it.

    The numbers come from the store, so one exporter is enough, and two show the same. There is no authentication.

    /scale?queue=mail&target=60 tells an autoscaler how many slots a queue needs.
    """
    if once + rules + grafana > 1:
        raise CommandError("give only one of --once, --rules and --grafana")
    if rules or grafana:
        return click.echo(_shipped("alerts.yml" if rules else "grafana.json"), nl=False)
    from tenure.observe.prometheus import Collector

    collector = Collector(app, target=within)
    return await (_print(collector) if once else _serve(app, collector, host, port))


def _shipped(name: str) -> str:
    """The text of a file that comes with the package."""
    from importlib.resources import files

    return files("tenure.observe").joinpath(name).read_text(encoding="utf-8")


async def _print(collector: Collector) -> None:
    import asyncio

    text = await asyncio.to_thread(collector.exposition)
    click.echo(text.decode(), nl=False)
    if b"\ntenure_store_up 0" in text:
        raise click.exceptions.Exit(1)


async def _serve(app: App, collector: Collector, host: str, port: int) -> None:
    """Answer requests until a signal ends this."""
    import asyncio
    import contextlib
    import signal

    from tenure.observe.http import listener, serve
    from tenure.observe.prometheus import respond
    from tenure.stores import masked

    here = asyncio.current_task()
    assert here is not None
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, here.cancel)
    with listener(host, port, "--port") as listening, contextlib.suppress(asyncio.CancelledError):
        address = f"[{host}]" if ":" in host else host
        place = f"http://{address}:{listening.getsockname()[1]}/metrics"
        print_message(f"the metrics of {masked(app.url)} are at {place}, Ctrl-C stops it")
        await serve(listening, respond(collector))
