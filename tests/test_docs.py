"""The documentation is true: its code runs; the tests, commands, variables and files that it names exist."""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import types
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tenure import App
from tenure.observe.http import Answer
from tenure.observe.prometheus import Collector, respond

from .documentation import (
    PAGES,
    ROOT,
    Block,
    blocks,
    command_errors,
    headings,
    name,
    option_errors,
    prose,
    spans,
    variables,
)
from .test_behaviours import missing_tests
from .test_examples import PRINTED

ALL = [block for page in PAGES for block in blocks(page)]
WITH_CODE = sorted({block.page for block in ALL if block.language in ("python", "sh")})


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TENURE_URL", raising=False)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    names = vars(module)
    apps: list[App] = []
    try:
        for block in blocks(page):
            if block.excuse is not None:
                continue
            if block.language == "python":
                run_python(block, names)
                apps += [value for value in names.values() if isinstance(value, App)]
            elif block.language == "sh":
                run_shell(block)
    finally:
        for app in apps:
            app.close()


def run_python(block: Block, names: dict[str, Any]) -> None:
    """Run a block after the earlier blocks of its page. A block that starts with a file name is also written to that file."""
    if file := re.match(r"# (\w+\.py)\n", block.code):
        Path(file[1]).write_text(block.code)
    # Blank lines before it, so that a traceback shows the line of the page.
    exec(compile("\n" * (block.line - 1) + block.code, block.page, "exec", dont_inherit=True), names)


def run_shell(block: Block) -> None:
    """Run a block in a shell. A worker in it ends when no job is left."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-euc", block.code],
        env=os.environ | {"PATH": path, "TENURE_UNTIL_EMPTY": "1"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.returncode == 0, f"{block}:\n{ended.stdout}{ended.stderr}"


# A block that is not run is checked in another way.


def errors(block: Block, folder: Path) -> list[str]:
    """What is wrong with a block that can be found without running it."""
    if block.language in CHECKS:
        return CHECKS[block.language](block, folder)
    if block.excuse is None and block.language not in ("python", "sh"):
        return [f"{block.language or 'a block without a language'} is neither run nor checked"]
    if block.language == "python":
        compile(block.code, block.page, "exec")
    if block.language == "sh":
        lines = [shlex.split(line, comments=True) for line in block.code.splitlines()]
        return [
            error
            for words in lines
            if words[:1] == ["tenure"]
            for error in command_errors(before_redirection(words[1:]))
        ]
    return []


def before_redirection(words: list[str]) -> list[str]:
    """The arguments of a command whose output goes to a file."""
    return words[: words.index(">")] if ">" in words else words


def json_errors(block: Block, folder: Path) -> list[str]:
    json.loads(block.code)
    return []


def text_errors(block: Block, folder: Path) -> list[str]:
    """Check plain text: an example prints it, or a comment says why it is not run."""
    printed = [text for text in PRINTED.values() if isinstance(text, str)]
    return [] if block.excuse is not None or block.code in printed else ["no example prints this"]


def unit_errors(block: Block, folder: Path) -> list[str]:
    """Check a systemd unit with systemd-analyze, if it is installed, and its command with the parser of the command line."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block.code)
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    found = [] if program.endswith("/bin/tenure") else [f"{program} is not tenure"]
    if shutil.which("systemd-analyze"):
        file = folder / "shop.service"
        file.write_text(block.code.replace(program, "/bin/true"))
        said = subprocess.run(
            ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, timeout=20, check=False
        )
        found += [line for line in said.stderr.splitlines() if str(file) in line]
    return [*found, *command_errors(words)]


def dockerfile_errors(block: Block, folder: Path) -> list[str]:
    """Check a Dockerfile: its signals exist, its commands are lists that the command line accepts."""
    found = []
    for instruction, rest in re.findall(r"^(\w+) (.+)$", block.code, re.MULTILINE):
        if instruction == "STOPSIGNAL" and rest not in signal.Signals.__members__:
            found.append(f"there is no signal {rest}")
        if instruction in ("CMD", "ENTRYPOINT", "HEALTHCHECK"):
            words = json.loads(rest[rest.index("[") :])
            if words[0] == "tenure":
                found += command_errors(words[1:])
            elif words[:2] == ["python", "-c"]:
                compile(words[2], str(block.page), "exec")
    return found


def compose_errors(block: Block, folder: Path) -> list[str]:
    """Check services of Compose: each has a command, which is a list that the command line accepts."""
    commands = re.findall(r"^ +command: (.+)$", block.code, re.MULTILINE)
    return (
        [error for command in commands for error in command_errors(json.loads(command)[1:])] if commands else ["none"]
    )


def manifest_errors(block: Block, folder: Path) -> list[str]:
    """Check settings of Prometheus, or an object of Kubernetes: its metrics exist, and the exporter answers its URLs."""
    exporter = Collector(App("memory://"))
    known = {f"{each.name}_total" if each.type == "counter" else each.name for each in exporter.describe()}
    found = [f"there is no metric {each}" for each in set(re.findall(r"tenure_[a-z_]+", block.code)) - known]
    for path, value in re.findall(r'url: "http://[^/]+(/[^"]*)"\n +valueLocation: (\w+)', block.code):
        answer = asyncio.run(answered(respond(exporter)(path)))
        if answer.status != HTTPStatus.OK or value not in json.loads(answer.body):
            found.append(f"{path} has no {value}: {answer.body!r}")
    return found


async def answered(coming: Awaitable[Answer]) -> Answer:
    return await coming


def yaml_errors(block: Block, folder: Path) -> list[str]:
    manifest = re.search(r"^(apiVersion|scrape_configs):", block.code, re.MULTILINE)
    return (manifest_errors if manifest else compose_errors)(block, folder)


def toml_errors(block: Block, folder: Path) -> list[str]:
    """Check settings of pytest: the plugin knows each of them."""
    settings = tomllib.loads(block.code)["tool"]["pytest"]["ini_options"]
    return [f"the plugin has no setting {each}" for each in settings if each != "tenure_app"]


CHECKS: dict[str, Callable[[Block, Path], list[str]]] = {
    "": text_errors,
    "text": text_errors,
    "json": json_errors,
    "ini": unit_errors,
    "dockerfile": dockerfile_errors,
    "toml": toml_errors,
    "yaml": yaml_errors,
}


@pytest.mark.parametrize("block", ALL, ids=str)
def test_every_block_is_run_or_checked_or_says_why_not(block: Block, tmp_path: Path) -> None:
    assert errors(block, tmp_path) == []


@pytest.mark.parametrize(
    ("language", "code", "wrong"),
    [
        ("rust", "fn main() {}", "neither run nor checked"),
        ("", "anything", "no example prints this"),
        ("sh", "tenure wrok shop:app", "no command 'wrok'"),
        ("sh", "tenure work shop:app --colour red", "--colour"),
        ("sh", "tenure work shop:app -c many", "'many' is not a valid integer"),
        ("ini", "[Service]\nExecStart=/x/bin/tenure work shop:app -z", "-z"),
        ("dockerfile", 'STOPSIGNAL SIGGONE\nCMD ["tenure", "work", "shop:app", "-z"]', "SIGGONE"),
        ("yaml", 'services:\n  worker:\n    command: ["tenure", "work", "-z"]', "-z"),
        ("yaml", "apiVersion: v1\nquery: tenure_queue_slot", "no metric tenure_queue_slot"),
        ("yaml", 'apiVersion: v1\nurl: "http://x:1/scale"\n  valueLocation: slots', "/scale has no slots"),
    ],
)
def test_what_is_wrong_with_a_block_would_be_found(language: str, code: str, wrong: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"Text.\n\n```{language}\n{code}\n```\n")
    [block] = blocks(page)

    assert wrong in "".join(errors(block, tmp_path))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_code_hides_from_these_tests(page: Path) -> None:
    """An indented block, or a fence in a list, would not be run."""
    assert [line for line in prose(page).splitlines() if re.match(r"\s*```|    (tenure|pip|python|\$) ", line)] == []


def test_an_excuse_has_a_block() -> None:
    excuses = sum(page.read_text().count("<!-- not run: ") for page in PAGES)

    assert excuses == sum(block.excuse is not None for block in ALL)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_and_option_that_a_page_names_exists(page: Path) -> None:
    named = [span for span in spans(prose(page)) if re.match(r"tenure( |$)", span)]

    assert [error for span in named for error in option_errors(span)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_variable_that_a_page_names_exists(page: Path) -> None:
    of_the_suite = {"TENURE_LONG"}

    assert set(re.findall(r"\bTENURE_[A-Z_]*[A-Z]", page.read_text())) - variables() - of_the_suite == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    assert missing_tests(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("picture", sorted(ROOT.glob("docs/images/*.svg")), ids=name)
def test_a_picture_asks_for_nothing_from_elsewhere(picture: Path) -> None:
    text = picture.read_text()

    assert set(re.findall(r"https?://[^\"'<> ]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|@font-face|<image|<script|href=", text)


def test_the_readme_leads_to_every_guide() -> None:
    links = set(re.findall(r"\]\((docs/[^)#/]+\.md)", (ROOT / "README.md").read_text()))

    assert {name(page) for page in PAGES if page.parent == ROOT / "docs"} - links == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_prose_is_at_most_120_columns_wide(page: Path) -> None:
    """Tables and pictures are one line each. A code span is never broken, because a search would not find it."""
    wide = [line for line in prose(page).splitlines() if len(line) > 120 and not line.startswith(("|", "!", "<!--"))]

    assert [line for line in wide if not re.fullmatch(r"\s*([-*] )?\S*`[^`]+`\S*", line)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_is_plain_english(page: Path) -> None:
    """No riddles: a sentence names the worker, the caller or the number that it means."""
    riddles = r"\b(whoever|somebody|nobody|so many|how-manieth|for those who|nothing but|as far as|comes? to exist)\b"
    text = re.sub(r"`[^`\n]+`", "", prose(page))

    assert re.findall(riddles, text, re.IGNORECASE) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_heading_that_a_link_names_exists(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", prose(page))

    assert [link for link in links if link[1] not in headings(page.parent / link[0] if link[0] else page)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`make ([\w-]+)", page.read_text()))

    assert named - set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) == set()
