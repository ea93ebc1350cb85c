"""The command dashboard: serves the dashboard of a store to a browser."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenure.cli.audit import operator_name
from tenure.cli.connection import choose_app
from tenure.cli.messages import CommandError, print_message

if TYPE_CHECKING:
    from tenure.web.access import Role

__all__ = ["dashboard", "server"]

F = TypeVar("F", bound=Callable[..., Any])


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """An option that can also come from the environment: --allow-host is TENURE_DASHBOARD_ALLOW_HOST."""
    variable = f"TENURE_DASHBOARD_{names[0].removeprefix('--').replace('-', '_').upper()}"
    return click.option(*names, envvar=variable, **settings)


def _networks(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG001
    for each in value:
        try:
            ipaddress.ip_network(each, strict=False)
        except ValueError:
            raise click.BadParameter(f"{each!r} is no address or network, such as 10.0.0.1 or 10.0.0.0/8.") from None
    return value


@click.command()
@click.argument("target", required=False, metavar="[TARGET]")
@option("--url", metavar="URL", help="The store, such as sqlite:///jobs.db. Default: TENURE_URL, else sqlite:///tenure.db.")  # fmt: skip
@option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True, help="Port to serve on; 0 takes any free one.")  # fmt: skip
@option("--host", default="127.0.0.1", show_default=True, help="Address to serve on; any other needs tokens.")
@option("--operate", is_flag=True, help="Let the holder of the printed address act too.")
@option("--allow-host", "allowed_hosts", multiple=True, metavar="NAME", help="A host name that it answers to; may be given several times.")  # fmt: skip
@option("--proxy", "proxies", multiple=True, callback=_networks, metavar="ADDRESS", help="Address or network of a proxy whose X-Forwarded-For and X-Forwarded-Proto are believed; may be given several times.")  # fmt: skip
@option("--root-path", default="", metavar="PATH", help="Path under which a proxy serves it, such as /jobs.")
@option("--title", metavar="TEXT", help="Name in the head. Default: the last part of the store's URL.")
@option("--show", type=click.Choice(["redacted", "hidden"]), default="redacted", show_default=True, help="How arguments are shown.")  # fmt: skip
@option("--slow-after", type=click.FloatRange(0, min_open=True), default=60.0, show_default=True, metavar="SECONDS", help="Age of the oldest job in line that needs attention.")  # fmt: skip
@option("--open", "opens", is_flag=True, help="Open it in the browser of this machine.")
def dashboard(
    target: str | None,
    url: str | None,
    port: int,
    host: str,
    operate: bool,
    allowed_hosts: tuple[str, ...],
    proxies: tuple[str, ...],
    root_path: str,
    title: str | None,
    show: str,
    slow_after: float,
    opens: bool,
) -> None:
    """Show the store in a browser: what runs, waits and fails, and why. Ctrl-C stops it.

    TARGET (module:app or file.py:app) gives it the code of the tasks too. The printed address carries a key. Its holder may
    look; with --operate, act too. For other machines, set TENURE_DASHBOARD_READ_TOKEN and TENURE_DASHBOARD_OPERATE_TOKEN instead.
    """
    import asyncio

    serve = server()
    if root_path and not root_path.startswith("/"):
        raise CommandError("--root-path begins with a slash, such as /jobs")
    tokens = _tokens()
    if operate and tokens and "operate" not in tokens:
        raise CommandError(
            "--operate is for the key that is drawn without tokens: set TENURE_DASHBOARD_OPERATE_TOKEN instead"
        )
    if target and url:
        raise CommandError("give TARGET or --url, not both: TARGET has its own store")
    app = choose_app(url, target or os.environ.get("TENURE_APP"))

    def started(address: str) -> None:
        click.echo(address)
        print_message("open this address in a browser; Ctrl-C stops the dashboard")
        if opens:
            click.launch(address)

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            serve(
                app,
                host=host,
                port=port,
                root_path=root_path.rstrip("/"),
                allowed_hosts=allowed_hosts,
                proxies=proxies,
                tokens=tokens,
                operate=operate,
                who=operator_name(),
                started=started,
                title=title,
                show=show,
                slow_after=slow_after,
            )
        )


def server() -> Callable[..., Coroutine[Any, Any, None]]:
    """The function that serves a dashboard. `CommandError` if the packages that it needs are not installed."""
    try:
        from tenure.web.server import serve
    except ModuleNotFoundError as error:
        raise CommandError(f"the dashboard needs {error.name}: pip install 'tenure[web]'") from None
    return serve


def _tokens() -> dict[Role, str]:
    """The tokens in the environment. They are no options, because a list of processes shows those."""
    roles: tuple[Role, ...] = ("read", "operate")
    return {role: token for role in roles if (token := os.environ.get(f"TENURE_DASHBOARD_{role.upper()}_TOKEN"))}
