"""Whatever is stored is shown on every page as text, never as markup; and no template can make an exception."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import jinja2
import pytest

import tenure.web
from tenure import App
from tenure.core.job import ErrorInfo, NewJob, Progress, RunStep, State, Writes, new_id
from tenure.core.lease import new_nonce
from tenure.core.lifecycle import Finish
from tenure.core.schedule import SchedulePut
from tenure.stores.base import Store
from tenure.stores.values import Action, LeaseRequest, Renewal, WorkerInfo
from tenure.web import OPEN, Identity, dashboard
from tenure.web.pages import PAGES
from tenure.web.rendering import Renderer

from .test_safety import OURS, Stream, csrf_of

WEB = Path(tenure.web.__file__).parent
TEMPLATES = sorted((WEB / "templates").rglob("*.html"))
SCRIPTS = sorted((WEB / "static").glob("*.js"))

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "closing": "</pre></code></td></table></title></textarea></script><hostile>",
    "quotes": "\"'`><hostile hostile=hostile onclick=alert(1)>",
    "attribute": '" onmouseover="alert(1)" style="all:unset" hostile="',
    "unquoted": "x onfocus=alert(1) autofocus hostile=1",
    "javascript": "javascript:alert(1)",
    "data": "data:text/html,<script>alert(1)</script>",
    "lines": "%0d%0aSet-Cookie: x=y\r\nSet-Cookie: x=y\r\n\r\n<hostile>",
    "event": "x\n\nevent: patch\ndata: {}\n\n",
    "right to left": "\u202egnp.exe\u2066\u2069\u200f\ufeff",
    "terminal": "\x1b[2J\x9b31m\x07\x7f",
    "nul": "a\x00b",
    "template": "{{ 7*7 }}{% raw %}${7*7}#{7*7}<%= 7*7 %>{{ ''.__class__ }}",
    "svg": '<svg onload=alert(1)><style>*{display:none}</style><image href=x onerror=alert(1)></svg>"/><hostile/>',
    "entities": "&lt;script&gt;&#60;hostile&#62;&amp;quot;",
    "comment": "<!-- --><![CDATA[<hostile>]]>",
    "path": "../../..//evil.example/?key=x#hostile",
    "long word": "w" * 5_000,
    "thousands": "<hostile>" * 20_000,
    "a megabyte": "<b>" + "m" * 1_000_000,
    "other scripts": "Zażółć 日本語 😀 e\u0301\u0327",
}
IN_NAMES = {name: text for name, text in HOSTILE.items() if len(text) < 1000}
"""Names are bounded by the rule of names; stores do not check it."""


async def fill(store: Store, text: str) -> list[str]:
    """Store the text wherever a text can be; returns the ids of the jobs."""
    name = text if len(text) < 1000 else text[:200]
    payload = json.dumps({"args": [text, {"password": text, name: [text]}], "kwargs": {name: text}}).encode()
    common: dict[str, Any] = {"queue": name, "task": name, "tags": (name,), "headers": {name: name}}
    ids = {kind: new_id() for kind in ("failed", "running", "succeeded", "waiting", "blocked", "raw", "step")}
    made = {
        kind: NewJob(id=id_, payload=payload, **common)
        for kind, id_ in ids.items()
        if kind not in {"waiting", "blocked", "raw", "step"}
    }
    await store.enqueue([made["failed"], made["running"], made["succeeded"]])
    leases = {}
    for _ in range(3):
        request = LeaseRequest(queues=(name,), limit=1, worker=name, ttl=300, nonce=new_nonce())
        [lease] = (await store.lease(request)).leases
        leases[lease.job.id] = lease
    error = ErrorInfo(text, text, f"Traceback\n{text}", text)
    await store.settle([(leases[ids["failed"]], Finish(State.FAILED, error=error))])
    await store.settle([(leases[ids["succeeded"]], Finish(State.SUCCEEDED, result=json.dumps(text), output=text))])
    await store.renew([Renewal(leases[ids["running"]], 300, Progress(1.0, 2.0, text))])
    step = RunStep(run_id=ids["step"], flow=name, writes=Writes({name: json.dumps(text)}))
    await store.enqueue(
        [
            NewJob(id=ids["waiting"], payload=payload, unique=name, delay=60, **common),
            NewJob(id=ids["blocked"], payload=payload, after=(ids["waiting"],), **common),
            NewJob(id=ids["raw"], payload=text.encode(), raw=True, **common),
            NewJob(id=ids["step"], payload=payload, step=step, **common),
        ]
    )
    await store.register(
        WorkerInfo(
            id=name, host=name, pid=1, queues=(name,), tasks=(name,), concurrency=1, release=name, trouble=text[:2000],
            missing_after=0.001,
        )
    )  # fmt: skip
    await store.mark(name)
    await store.note_actions([Action(who=name, by=name, what=name, target=name, count=1)])
    settings = {"task": name, "queue": name, "trigger": {"kind": name}, "description": text}
    await store.put_schedules([SchedulePut(name=name, if_version=0, settings=json.dumps(settings), next=0.0)])
    return list(ids.values())


@pytest.fixture
async def app() -> AsyncIterator[App]:
    app = App(f"memory://{new_id()}")
    yield app
    await app.aclose()


def paths(ids: list[str], name: str) -> Iterator[str]:
    """The address of every page: with each id, with the name, and with filters by it."""
    for path in PAGES:
        for value in [*ids, quote(name, safe="")] if "{" in path else [""]:
            yield re.sub(r"{[\w:]+}", lambda _, value=value: value, path)  # type: ignore[misc]
    for state in ("", "waiting", "scheduled", "blocked", "running", "succeeded", "failed"):
        yield f"/jobs?state={state}"
    for filter_ in ("queue", "task", "tag", "error", "worker", "text", "state", "before", "limit", "cursor", "span"):
        yield f"/jobs?{filter_}={quote(name[:60], safe='')}"
    yield f"/?span={quote(name[:60], safe='')}"
    yield f"/{quote(name[:60], safe='')}"


# What may stand in a page: what the templates say.


def written() -> tuple[set[str], set[str]]:
    """The elements and attributes that the templates write."""
    source = "".join(file.read_text() for file in TEMPLATES)
    source = re.sub(r"{{.*?}}|{#.*?#}", "X", source, flags=re.DOTALL)
    source = re.sub(r"{%.*?%}", " ", source, flags=re.DOTALL)
    elements = {found.lower() for found in re.findall(r"<([a-zA-Z][\w-]*)", source)}
    attributes = {
        attribute.lower()
        for tag in re.findall(r"<[a-zA-Z][^<>]*>", source)
        for attribute in re.findall(r"\s([a-zA-Z][\w-]*)", re.sub(r'"[^"]*"', "", tag))
    }
    return elements, attributes


ELEMENTS, ATTRIBUTES = written()
LINKS = {"href", "src", "action", "formaction"}


class Reader(HTMLParser):
    """Notes what is wrong with a page, and its text."""

    def __init__(self, root: str = "") -> None:
        super().__init__()
        self._root = root
        self.wrong: list[str] = []
        self.text = ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        self._open.append(tag)
        if tag not in ELEMENTS:
            self.wrong.append(f"<{tag}>")
        if foreign := names - ATTRIBUTES:
            self.wrong.append(f"<{tag} {sorted(foreign)}>")
        if names & {"style", "srcdoc"} or any(name.startswith("on") for name in names):
            self.wrong.append(f"<{tag} {sorted(names)}>")
        if tag == "script" and "src" not in names:
            self.wrong.append("a script without a source")
        for name, value in attrs:
            if name in LINKS and not re.match(rf"{self._root}/(?![/\\])|#", value or ""):
                self.wrong.append(f'{name}="{value:.80}"')

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"<!--{data:.80}-->")

    def unknown_decl(self, data: str) -> None:
        self.wrong.append(f"<![{data:.80}")


def wrong_with(html: str) -> list[str]:
    """What stands in a page that no template wrote."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    raw = {character for character in html if not character.isprintable()} - set("\n\t\u2009")
    return reader.wrong + [f"the character {character!r}" for character in sorted(raw)]


@pytest.mark.parametrize("kind", HOSTILE)
async def test_hostile_text_is_shown_on_every_page_and_is_never_markup(app: App, kind: str) -> None:
    text = HOSTILE[kind]
    ids = await fill(app.internals.session.store, text)
    made = dashboard(
        app, auth=lambda _: Identity(IN_NAMES.get(kind, "ann"), "operate"), title=IN_NAMES.get(kind, "shop")
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(made), base_url="http://jobs") as client:
        for path in paths(ids, IN_NAMES.get(kind, text[:200])):
            answer = await client.get(path)
            if answer.status_code == 307:  # what the router does with an address that ends in a slash
                continue
            assert answer.status_code in {200, 400, 404}, (path, answer.status_code, answer.text[:300])
            assert wrong_with(answer.text) == [], path
            assert len(answer.content) < 1_000_000, path
            assert answer.headers.get_list("set-cookie") == [] or "x=y" not in answer.headers["set-cookie"]
    await made.aclose()


async def test_hostile_text_is_readable(app: App) -> None:
    """It is escaped: neither removed nor evaluated."""
    text = HOSTILE["quotes"] + HOSTILE["right to left"] + HOSTILE["template"]
    [failed, *_] = await fill(app.internals.session.store, text)
    made = dashboard(app, auth=OPEN)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(made), base_url="http://jobs") as client:
        reader = Reader()
        reader.feed((await client.get(f"/jobs/{failed}")).text)
    for part in (HOSTILE["quotes"], r"\u202egnp.exe\u2066\u2069\u200f\ufeff", HOSTILE["template"]):
        assert part in reader.text
    await made.aclose()


async def test_a_stream_carries_hostile_text_as_one_message(app: App) -> None:
    text = HOSTILE["event"] + HOSTILE["svg"] + HOSTILE["lines"]
    [failed, *_] = await fill(app.internals.session.store, text)
    made = dashboard(app, auth=OPEN)
    for topic in (f"/jobs/{failed}", "/jobs?state=failed", "/"):
        stream = Stream(made, f"/live?topic={quote(topic, safe='')}", {})
        assert await stream.status() == 200
        assert await stream.text() == "retry: 1000\n\n"
        message = await stream.text()
        found = re.fullmatch(r"id: \S+\nevent: patch\ndata: (.*)\n\n", message)
        assert found is not None
        for html in json.loads(found[1])["regions"].values():
            assert wrong_with(html) == []
        await stream.close()
    await made.aclose()


async def test_what_an_action_says_is_text(app: App) -> None:
    await fill(app.internals.session.store, HOSTILE["quotes"])
    made = dashboard(app, auth=OPEN)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(made), base_url="http://jobs") as client:
        csrf = await csrf_of(client)
        for text in HOSTILE.values():
            for action, field in [("pause", "queue"), ("cancel", "id"), ("retry", "id")]:
                form = {"csrf": csrf, field: text[:50_000], "back": "/jobs"}
                done = await client.post(f"/actions/{action}", data=form, headers=OURS)
                assert (done.status_code, done.headers["location"]) == (303, "/jobs")
                shown = await client.get("/jobs")
                assert "toast-bad" in shown.text
                assert wrong_with(shown.text) == []
    await made.aclose()


@pytest.mark.parametrize("text", ["\ud800", "a\udfff\udcffb", "\ud83d"], ids=ascii)
async def test_lone_surrogates_are_shown_as_escapes(app: App, text: str) -> None:
    store = app.internals.session.store
    job = new_id()
    await store.enqueue([NewJob(id=job, task="t", queue="q", payload=json.dumps({"args": [text]}).encode())])
    request = LeaseRequest(queues=("q",), limit=1, worker="w", ttl=300, nonce=new_nonce())
    [lease] = (await store.lease(request)).leases
    await store.settle([(lease, Finish(State.FAILED, error=ErrorInfo("Evil", text, text, text)))])
    made = dashboard(app, auth=OPEN, title=f"shop {text}")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(made), base_url="http://jobs") as client:
        for path in (f"/jobs/{job}", "/jobs", "/"):
            shown = await client.get(path)
            assert (shown.status_code, wrong_with(shown.text)) == (200, [])
        assert repr(text)[1:-1] in (await client.get(f"/jobs/{job}")).text
    await made.aclose()


async def test_login_form_and_refusals_show_hostile_text_as_text(app: App) -> None:
    for text in HOSTILE.values():
        made = dashboard(app, tokens={"read": "r" * 20}, title=text[:200])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(made), base_url="http://jobs") as client:
            closed = await client.get(f"/jobs?x={quote(text[:200])}", headers={"accept": "text/html"})
            form = {"token": text[:200], "name": text[:200], "back": text[:200]}
            failed = await client.post("/login", data=form, headers=OURS)
            entered = await client.post("/login", data={**form, "token": "r" * 20}, headers=OURS)
            shown = await client.get("/")
            for answer, status in [(closed, 401), (failed, 401), (shown, 200)]:
                assert (answer.status_code, wrong_with(answer.text)) == (status, [])
            assert re.fullmatch(r"/[^\s]*", entered.headers["location"])
            assert not entered.headers["location"].startswith("//")
        await made.aclose()


def test_what_no_template_wrote_would_be_found() -> None:
    for text in (
        "<script>1</script>", "<hostile>", '<a onclick="1">', '<a style="1">', '<a href="javascript:1">', "<p hostile>",
        '<a href="//evil.example">', "<!-- -->", "\u202e", "\x00", '<form action="https://evil.example">',
    ):  # fmt: skip
        assert wrong_with(text), text
    assert wrong_with('<p class="empty">Nothing &lt;here&gt; <a href="/jobs?x=1">x</a></p>') == []


# Templates and scripts.


def name_of(file: Path) -> str:
    return file.relative_to(WEB).as_posix()


FORBIDDEN = {
    r"\|\s*safe\b": "a text that is not escaped",
    r"\bMarkup\b": "a text that is not escaped",
    r"autoescape": "a change of escaping",
    r"<[a-zA-Z][^<>]*\sstyle\s*=": "an inline style",
    r"<[a-zA-Z][^<>]*\son[a-z]+\s*=": "an inline script",
    r"<script(?![^>]*\ssrc=)": "a script without a source",
    r"<style": "an inline style",
    r"\bjavascript:": "a script in a link",
    r"""(href|src|action|formaction)="(?!{{ ?(at\.)?root ?}}|{{ ?(at\.with_query|link|view\.\w+|tab\.link|chip\.without|\w+\.link|\w+\.\w+_link)\b|#)""": "a link that leaves the root",
    r"<[a-zA-Z][^<>]*=\s*(?![\"'\s])[^<>\"']*>": "an attribute without quotes",
}


def without_code(source: str) -> str:
    """A template in which expressions and statements are one word each, so that only markup is left."""
    source = re.sub(r"{#.*?#}", "", source, flags=re.DOTALL)
    source = re.sub(r"{%.*?%}", "", source, flags=re.DOTALL)
    return re.sub(r"{{.*?}}", "EXPRESSION", source, flags=re.DOTALL)


def slips(source: str) -> list[str]:
    """What is wrong with a template."""
    found = [what for pattern, what in FORBIDDEN.items() if re.search(pattern, source) and "leaves" not in what]
    markup = without_code(source)
    for tag in re.findall(r"<[a-zA-Z](?:[^<>\"']|\"[^\"]*\"|'[^']*')*>", markup):
        bare = re.sub(r"\"[^\"]*\"", '""', tag)
        if "EXPRESSION" in bare:
            found.append(f"an expression outside of quotes: {tag}")
        if re.search(r"=\s*(?!\")", bare):
            found.append(f"an attribute without quotes: {tag}")
        for name, value in re.findall(r'\s([\w-]+)="([^"]*)"', tag):
            if name in LINKS and not value.startswith(("EXPRESSION", "#")):
                found.append(f"a link that leaves the root: {tag}")
    return found


@pytest.mark.parametrize("template", TEMPLATES, ids=name_of)
def test_a_template_has_no_slip(template: Path) -> None:
    assert slips(template.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "{{ x|safe }}", "{{ x | safe }}", "{{ Markup(x) }}", "{% autoescape false %}{% endautoescape %}",
        "<p class={{ x }}>", "<p {{ x }}>", "<p class=x>", "<p class='x'>", '<p style="x">', '<a onclick="x">', "<script>x</script>",
        "<style>x</style>", '<a href="javascript:x">', '<a href="https://evil.example">', '<a href="/jobs">',
        '<form action="/login">',
    ],
)  # fmt: skip
def test_a_slip_would_be_found(source: str) -> None:
    assert slips(source)


@pytest.mark.parametrize("template", TEMPLATES, ids=name_of)
def test_a_template_compiles_and_asks_for_nothing_undefined(template: Path) -> None:
    environment = Renderer("shop")._environment

    environment.get_template(template.relative_to(WEB / "templates").as_posix())

    assert environment.undefined is jinja2.StrictUndefined
    assert environment.autoescape is True
    known = set(environment.filters) | set(jinja2.Environment().filters)
    assert set(re.findall(r"\|\s*(\w+)", re.sub(r"'[^']*'|\"[^\"]*\"", "", template.read_text()))) <= known


def test_nothing_but_templates_makes_markup() -> None:
    for file in WEB.rglob("*.py"):
        assert not re.search(r"\bMarkup\b|__html__|<[a-z]+[ >]", re.sub(r"Callable\[.*|# .*", "", file.read_text())), (
            file
        )


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_a_script_is_well_formed_and_makes_no_markup_from_texts(script: Path) -> None:
    source = script.read_text()

    assert not re.search(r"\beval\(|new Function|document\.write|insertAdjacentHTML|outerHTML|\.srcdoc", source)
    assert "innerHTML" not in source or script.name == "morph.js"
    assert not re.search(r"https?://(?!www\.w3\.org/)", source)
    node = shutil.which("node")
    if node is not None:
        checked = subprocess.run(
            [node, "--input-type=module", "--check"], input=source, capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stderr
