"""`tenure dashboard` prints one address, lets only its holder look, and stops on a signal."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import httpx
import pytest

from tenure.cli.dashboard import dashboard

from .conftest import Tenure, run_process

ROOT = Path(__file__).parents[2]
READ, OPERATE = "a-token-for-those-who-look", "a-token-for-those-who-act"
OPTIONS = [each for each in dashboard.params if isinstance(each, click.Option)]


@contextlib.contextmanager
def serving(url: str, *arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A dashboard in a separate process, and the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tenure", "dashboard", "--port", "0", *arguments],
        env={**os.environ, "TENURE_URL": url, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        assert address, process.communicate()[1]
        yield process, address
    finally:
        process.kill()
        process.communicate()


def asked(address: str, path: str = "", **headers: str) -> httpx.Response:
    """The answer to a request, once the server answers at all."""
    end = time.monotonic() + 20
    while True:
        try:
            return httpx.get(address + path, headers=headers)
        except httpx.ConnectError:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_it_prints_one_address_whose_holder_may_look(url: str) -> None:
    with serving(url) as (process, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?key=[\w-]{32}", address)
        base = address.partition("?")[0]

        assert asked(base).status_code == 401
        with httpx.Client(follow_redirects=True) as browser:
            shown = browser.get(address)
            assert (shown.status_code, str(shown.url)) == (200, base)
            assert "Nothing is in this store yet" in shown.text
            assert "(read)" in shown.text
            assert browser.get(f"{base}jobs").status_code == 200
        assert asked(base, "healthz").text == "ok\n"
        assert asked(base, Host="evil.example").status_code == 421
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=10)
    assert printed == ""
    assert said == "tenure: open this address in a browser; Ctrl-C stops the dashboard\n"


def test_with_operate_its_holder_may_act(url: str) -> None:
    with (
        serving(url, "--operate", "--title", "the <shop>") as (_, address),
        httpx.Client(follow_redirects=True) as browser,
    ):
        asked(address)
        shown = browser.get(address).text
    assert "(operate)" in shown
    assert "the &lt;shop&gt;" in shown


def test_tokens_of_the_environment_are_not_printed_and_keep_their_sessions(url: str) -> None:
    tokens = {"TENURE_DASHBOARD_READ_TOKEN": READ, "TENURE_DASHBOARD_OPERATE_TOKEN": OPERATE}
    with serving(url, **tokens) as (_, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        assert asked(address).status_code == 401
        assert asked(address, f"?key={READ}").status_code == 401
        assert "(read)" in asked(address, Authorization=f"Bearer {READ}").text
        assert "(operate)" in asked(address, Authorization=f"Bearer {OPERATE}").text


def test_under_a_root_path_the_address_has_it(url: str) -> None:
    with serving(url, "--root-path", "/ops/") as (_, address), httpx.Client() as browser:
        base, _, key = address.partition("/ops/")
        asked(base)
        entered = browser.get(f"{base}/{key}")  # a proxy takes the path off
    assert entered.headers["location"] == "/ops/"
    assert "; Path=/ops;" in entered.headers["set-cookie"]


@pytest.mark.parametrize("host", ["localhost", "::1", "[::1]"])
def test_it_is_served_on_every_name_of_this_machine(url: str, host: str) -> None:
    with serving(url, "--host", host) as (_, address):
        assert address.startswith("http://[::1]:" if ":" in host else "http://localhost:")
        assert asked(address.partition("?")[0]).status_code == 401


def test_on_all_addresses_it_prints_a_name_that_it_answers_to(url: str) -> None:
    arguments = ["--host", "0.0.0.0", "--allow-host", "jobs.example.org"]
    with serving(url, *arguments, TENURE_DASHBOARD_READ_TOKEN=READ) as (_, address):
        found = re.fullmatch(r"http://jobs\.example\.org:(\d+)/", address)
        assert found is not None
        base = f"http://127.0.0.1:{found[1]}/"
        assert asked(base, Host="jobs.example.org", Authorization=f"Bearer {READ}").status_code == 200
        assert asked(base, Host="other.example.org", Authorization=f"Bearer {READ}").status_code == 421


@pytest.mark.parametrize("proxy", [(), ("--proxy", "127.0.0.1")], ids=["without", "with"])
def test_a_proxy_is_believed_only_if_it_is_named(url: str, proxy: tuple[str, ...]) -> None:
    with serving(url, *proxy) as (_, address):
        asked(address)
        entered = httpx.get(address, headers={"X-Forwarded-Proto": "https", "X-Forwarded-For": "10.9.9.9"})
    assert ("; Secure" in entered.headers["set-cookie"]) is bool(proxy)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "jobs.example.org"])
def test_other_addresses_are_refused_without_tokens(tenure: Tenure, host: str) -> None:
    refused = tenure("dashboard", "--host", host, "--port", "0")

    assert refused.exit_code == 2
    assert f"a dashboard on {host} needs tokens: set TENURE_DASHBOARD_READ_TOKEN" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "why"),
    [
        (["--root-path", "jobs"], {}, "begins with a slash"),
        ([], {"TENURE_DASHBOARD_READ_TOKEN": "short"}, "at least 20 characters"),
        ([], {"TENURE_DASHBOARD_READ_TOKEN": READ, "TENURE_DASHBOARD_OPERATE_TOKEN": READ}, "must differ"),
        (["--operate"], {"TENURE_DASHBOARD_READ_TOKEN": READ}, "TENURE_DASHBOARD_OPERATE_TOKEN"),
        (["--show", "all"], {}, "'all' is not one of 'redacted', 'hidden'"),
        (["--slow-after", "0"], {}, "--slow-after"),
        (["--proxy", "not an address"], {}, "--proxy"),
        (["shop:app", "--url", "memory://"], {}, "TARGET has its own store"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(
    tenure: Tenure, arguments: list[str], environment: dict[str, str], why: str
) -> None:
    refused = tenure("dashboard", "--port", "0", *arguments, **environment)

    assert refused.exit_code == 2
    assert why in refused.stderr
    assert "Traceback" not in refused.output


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "jinja2"])
def test_without_the_extra_it_says_what_to_install(tmp_path: Path, url: str, missing: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\n"
        f"class Missing:\n"
        f"    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {missing!r}:\n"
        f"            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)\n"
        f"sys.meta_path.insert(0, Missing())\n"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])

    for command in (["dashboard"], ["demo", "--dashboard"]):
        refused = run_process(*command, TENURE_URL=url, PYTHONPATH=paths)

        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr == f"tenure: the dashboard needs {missing}: pip install 'tenure[web]'\n"


def test_it_ends_at_once_though_pages_are_open(url: str) -> None:
    with serving(url) as (process, address), httpx.Client(follow_redirects=True) as browser:
        asked(address)
        browser.get(address)
        base = address.partition("?")[0]
        with browser.stream("GET", f"{base}live?topic=/") as live:
            assert "retry" in next(live.iter_text())
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=10)
        assert time.monotonic() - began < 3
    assert process.returncode == 0
    assert "Traceback" not in said
    assert said.count("\n") == 1


def test_a_port_that_is_taken_is_refused_in_a_sentence(url: str, tenure: Tenure) -> None:
    with serving(url) as (_, address):
        port = address.split(":")[2].partition("/")[0]
        refused = tenure("dashboard", "--port", port)
    assert refused.exit_code == 2
    assert f"--port {port} on 127.0.0.1 cannot be used" in refused.stderr


def test_open_opens_the_address_in_a_browser(url: str, tmp_path: Path) -> None:
    seen, browser = tmp_path / "seen", tmp_path / "xdg-open"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    browser.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with serving(url, "--open", PATH=path, BROWSER=str(browser)) as (_, address):
        end = time.monotonic() + 10
        while not (seen.exists() and seen.read_text()) and time.monotonic() < end:
            time.sleep(0.05)
    assert seen.read_text().strip() == address


# Options.


SAME = {
    "url": ("memory://x", ["--url", "memory://x"]),
    "port": ("99", ["--port", "99"]),
    "host": ("::1", ["--host", "::1"]),
    "operate": ("1", ["--operate"]),
    "allowed_hosts": ("a b", ["--allow-host", "a", "--allow-host", "b"]),
    "proxies": ("10.0.0.1 10.1.0.0/16", ["--proxy", "10.0.0.1", "--proxy", "10.1.0.0/16"]),
    "root_path": ("/jobs", ["--root-path", "/jobs"]),
    "title": ("shop", ["--title", "shop"]),
    "show": ("hidden", ["--show", "hidden"]),
    "slow_after": ("5", ["--slow-after", "5"]),
    "opens": ("1", ["--open"]),
}


def variable(option: click.Option) -> str:
    """The variable that an option comes from: named for the option, as it is written."""
    assert isinstance(option.envvar, str), option.name
    return option.envvar


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_an_option_comes_from_the_environment_as_from_the_command_line(
    option: click.Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert option.name is not None
    said, arguments = SAME[option.name]
    given = dashboard.make_context("dashboard", list(arguments)).params[option.name]
    monkeypatch.setenv(variable(option), said)

    assert dashboard.make_context("dashboard", []).params[option.name] == given
    assert given != dashboard.make_context("dashboard", [], auto_envvar_prefix=None).params.get("nothing", None)


def test_every_option_is_in_the_table_with_its_variable_and_default() -> None:
    page = (ROOT / "docs/dashboard.md").read_text()
    rows = dict(re.findall(r"^\| `(--[\w-]+)[^|]*\| `(TENURE_\w+)` \|", page, re.MULTILINE))

    assert rows == {option.opts[0]: variable(option) for option in OPTIONS}
    for option in OPTIONS:
        if option.show_default and option.default is not None:
            default = f"{option.default:g}" if isinstance(option.default, float) else option.default
            assert re.search(rf"^\| `{option.opts[0]}[^|]*\| `\w+` \| `{default}`", page, re.MULTILINE), option.name


def test_the_example_of_an_environment_has_every_variable() -> None:
    example = (ROOT / ".env.example").read_text()
    named = set(re.findall(r"^#(TENURE_DASHBOARD_\w+)=", example, re.MULTILINE))

    options = {variable(option) for option in OPTIONS if option.name != "url"}
    assert named == {*options, "TENURE_DASHBOARD_READ_TOKEN", "TENURE_DASHBOARD_OPERATE_TOKEN"}
