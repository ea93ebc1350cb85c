"""The options of `tenure work`: from the command line, from the environment, and in the table that documents them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from tenure.cli.work import size, work
from tenure.core.options import WorkerOptions

from .conftest import Tenure

ROOT = Path(__file__).parents[2]

OPTIONS = [each for each in work.params if isinstance(each, click.Option) and not each.hidden]

# For each option: what the environment says, the same on the command line, and what that means.
SAME: Mapping[str, tuple[str, list[str], Any]] = {
    "queues": ("mail, !x,*", ["-q", "mail", "--queues", "!x,*"], ("mail", "!x", "*")),
    "tasks": ("send,greet", ["--tasks", "send", "--tasks", "greet"], ("send", "greet")),
    "concurrency": ("7", ["-c", "7"], 7),
    "until_empty": ("1", ["--until-empty"], True),
    "poll": ("0.5", ["--poll", "0.5"], 0.5),
    "id": ("me", ["--id", "me"], "me"),
    "reap": ("0", ["--no-reap"], False),
    "processes": ("3", ["-p", "3"], 3),
    "max_jobs": ("1000", ["--max-jobs", "1000"], 1000),
    "max_age": ("3600", ["--max-age", "3600"], 3600.0),
    "max_memory": ("512M", ["--max-memory", "512M"], 512 << 20),
    "reload": ("true", ["--reload"], True),
    "background": ("yes", ["--background"], True),
    "pidfile": ("/run/tenure.pid", ["--pidfile", "/run/tenure.pid"], "/run/tenure.pid"),
    "isolation": ("process", ["--isolation", "process"], "process"),
    "isolated": ("4", ["--isolated", "4"], 4),
    "run_atexit": ("on", ["--run-atexit"], True),
    "term_timeout": ("10", ["--term-timeout", "10"], 10.0),
    "pre_shutdown_timeout": ("2.5", ["--pre-shutdown-timeout", "2.5"], 2.5),
    "term_child": ("false", ["--no-term-child"], False),
    "graceful_term": ("1", ["--graceful-term"], True),
    "fail_interrupted": ("1", ["--fail-interrupted"], True),
    "health_port": ("8080", ["--health-port", "8080"], 8080),
    "health_host": ("0.0.0.0", ["--health-host", "0.0.0.0"], "0.0.0.0"),
    "verbose": ("2", ["-vv"], 2),
    "log_level": ("error", ["--log-level", "error"], "error"),
    "log_format": ("json", ["--log-format", "json"], "json"),
}


def parsed(arguments: list[str]) -> dict[str, Any]:
    return work.make_context("work", [*arguments, "module:app"], auto_envvar_prefix="TENURE_WORK").params


def variable(option: click.Option) -> str:
    assert isinstance(option.envvar, str)
    return option.envvar


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in OPTIONS:
        monkeypatch.delenv(variable(option), raising=False)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_an_option_comes_from_the_environment_as_from_the_command_line(  # R12
    option: click.Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert option.name is not None
    said, arguments, meant = SAME[option.name]
    given = parsed(arguments)

    monkeypatch.setenv(variable(option), said)

    assert given[option.name] == parsed([])[option.name] == meant


def test_the_command_line_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_CONCURRENCY", "7")
    monkeypatch.setenv("TENURE_REAP", "0")

    given = parsed(["-c", "3", "--reap"])

    assert (given["concurrency"], given["reap"]) == (3, True)


def test_the_target_comes_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_APP", "shop:app")

    assert work.make_context("work", []).params["target"] == "shop:app"


def test_a_value_of_the_environment_that_is_none_is_refused_naming_the_variable(tenure: Tenure, program: str) -> None:
    refused = tenure("work", program, "--until-empty", TENURE_TERM_TIMEOUT="soon")

    assert refused.exit_code == 2
    assert "TENURE_TERM_TIMEOUT" in refused.stderr


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("500000", 500_000), ("64k", 64 << 10), ("512M", 512 << 20), ("512 MB", 512 << 20), ("2GiB", 2 << 30)],
)
def test_a_size_has_a_unit_or_is_in_bytes(text: str, number: int) -> None:
    assert size(text) == number


@pytest.mark.parametrize("text", ["", "M", "-1", "1.5G", "1X", "lots"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="number of bytes"):
        size(text)


def test_the_defaults_are_those_of_a_worker_in_python() -> None:
    given = parsed([])
    shared = WorkerOptions.__dataclass_fields__.keys() & given.keys() - {"queues", "tasks"}

    assert {name: given[name] for name in shared} == {name: getattr(WorkerOptions(), name) for name in shared}
    assert len(shared) > 15


def rows() -> dict[str, list[str]]:
    """The table of docs/options.md, by variable."""
    found = re.findall(
        r"^\| (`-.+?) \| `(TENURE_\w+)` \| (.*?) \| (.+) \|$", (ROOT / "docs/options.md").read_text(), re.MULTILINE
    )
    return {name: [option, default, meaning] for option, name, default, meaning in found}


def test_the_documented_table_has_every_option_with_its_variable_and_default() -> None:
    table = rows()

    assert list(table) == [variable(option) for option in OPTIONS]
    for option in OPTIONS:
        spelt, default, meaning = table[variable(option)]
        assert re.findall(r"`(-[\w-]+)", spelt) == [*option.opts, *option.secondary_opts], option.name
        assert default == documented_default(option), option.name
        assert len(meaning) > 10


def documented_default(option: click.Option) -> str:
    default = parsed([])[str(option.name)]
    if option.is_flag:
        return "on" if default else "off"
    return f"{default:g}" if isinstance(default, float | int) else str(default or "")


def test_the_example_environment_shows_every_variable_with_its_default_or_a_value_that_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = dict(re.findall(r"^#(TENURE_(?!DASHBOARD_)\w+)=(.+)$", (ROOT / ".env.example").read_text(), re.MULTILINE))
    defaults = parsed([])

    assert list(shown) == ["TENURE_URL", "TENURE_APP", "TENURE_RELEASE", *map(variable, OPTIONS)]

    for option in OPTIONS:
        monkeypatch.setenv(variable(option), shown[variable(option)])
    given = parsed([])
    assert {name: given[name] for name, default in defaults.items() if default not in (None, ())} == {
        name: default for name, default in defaults.items() if default not in (None, ())
    }
    assert not any(given[name] in (None, ()) for name in SAME)
