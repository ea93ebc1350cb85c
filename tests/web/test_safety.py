"""Who may look and act, and what is refused: each row of the safety table in docs/dashboard.md."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Mount

from tenure import App
from tenure.core.job import State, new_id
from tenure.errors import InvalidOption
from tenure.web import OPEN, Identity, access, dashboard, entrance, site, topics
from tenure.web.actions import ACTIONS
from tenure.web.guard import HEADERS, POLICY
from tenure.web.pages import PAGES
from tenure.web.site import Dashboard
from tests.conftest import KINDS, a_url

READ, OPERATE = "a-token-for-those-who-look", "a-token-for-those-who-act"
TOKENS: Mapping[access.Role, str] = {"read": READ, "operate": OPERATE}
OURS = {"sec-fetch-site": "same-origin"}
"""What a browser says of a form on our own page."""

HOST = "http://jobs.example.org"


@pytest.fixture
async def app() -> AsyncIterator[App]:
    app = App(f"memory://{new_id()}")
    yield app
    await app.aclose()


@contextlib.asynccontextmanager
async def visiting(
    made: Any, *, base: str = HOST, address: str = "10.0.0.1", errors: bool = True
) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without a session, at this address."""
    transport = httpx.ASGITransport(made, client=(address, 4711), raise_app_exceptions=errors)
    async with httpx.AsyncClient(transport=transport, base_url=base) as client:
        yield client


@pytest.fixture
async def made(app: App) -> AsyncIterator[Dashboard]:
    made = dashboard(app, tokens=TOKENS)
    yield made
    await made.aclose()


@pytest.fixture
async def client(made: Dashboard) -> AsyncIterator[httpx.AsyncClient]:
    async with visiting(made) as client:
        yield client


async def log_in(client: httpx.AsyncClient, token: str = OPERATE, root: str = "", **fields: str) -> httpx.Response:
    return await client.post(f"{root}/login", data={"token": token, "name": "ann", **fields}, headers=OURS)


async def csrf_of(client: httpx.AsyncClient, path: str = "/") -> str:
    """The token that the forms of a page carry."""
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', (await client.get(path)).text)
    assert found is not None
    return found[1]


async def a_job(app: App) -> str:
    """A job in line."""
    return (await app.remote("send", queue="mail").aenqueue()).id


async def cancel(client: httpx.AsyncClient, job: str, csrf: str = "", root: str = "", **headers: str) -> httpx.Response:
    return await client.post(f"{root}/actions/cancel", data={"id": job, "csrf": csrf, "back": "/jobs"}, headers=headers)


async def state_of(app: App, job: str) -> State:
    [found] = await app.internals.session.store.get([job])
    assert found is not None
    return found.state


# Addresses: closed by default.


def test_without_saying_who_may_look_there_is_no_dashboard(app: App) -> None:
    with pytest.raises(InvalidOption, match=r"auth=….*tokens=.*auth=OPEN"):
        dashboard(app)


async def test_without_a_token_every_page_is_closed(client: httpx.AsyncClient) -> None:
    paths = ["/", "/live?topic=/", "/search?q=x", "/nothing", *(re.sub(r"{\w+}", "x", path) for path in PAGES)]
    for path in paths:
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
        assert "log in first" in answer.text
    for action in ACTIONS:
        assert (await client.post(f"/actions/{action}", data={"id": "x"}, headers=OURS)).status_code == 401


async def test_a_browser_without_a_session_gets_the_form_and_comes_back_to_where_it_was(
    client: httpx.AsyncClient,
) -> None:
    shown = await client.get("/jobs?state=failed", headers={"accept": "text/html"})

    assert shown.status_code == 401
    assert 'value="/jobs?state=failed"' in shown.text
    assert (await log_in(client, back="/jobs?state=failed")).headers["location"] == "/jobs?state=failed"


async def test_a_link_of_another_site_asks_once_more_with_the_cookie(client: httpx.AsyncClient) -> None:
    """Browsers do not send a strict cookie with the first request. The second one is of our own page, so this ends."""
    asks = [
        "refresh" in (await client.get("/", headers={"accept": "text/html", "sec-fetch-site": origin})).text
        for origin in ("cross-site", "same-origin", "none")
    ]
    assert asks == [True, False, False]


async def test_static_files_and_health_are_for_everybody(made: Dashboard, client: httpx.AsyncClient) -> None:
    assert (await client.get(made.site.renderer.static_path("style.css"))).status_code == 200
    assert (await client.get("/healthz")).text == "ok\n"


async def test_the_key_comes_in_the_url_once_then_a_cookie_does(made: Dashboard, client: httpx.AsyncClient) -> None:
    made.site.access.key_holder = "ann@db1"

    opened = await client.get(f"/jobs?key={READ}")

    assert (opened.status_code, opened.headers["location"]) == (303, "/jobs")
    assert READ not in opened.headers["set-cookie"]
    assert (await client.get("/jobs")).status_code == 200


async def test_tokens_that_were_not_drawn_for_the_printed_address_never_come_in_a_url(
    client: httpx.AsyncClient,
) -> None:
    assert (await client.get(f"/?key={READ}")).status_code == 401


async def test_two_dashboards_on_one_host_do_not_share_a_session(app: App, made: Dashboard) -> None:
    other = dashboard(app, tokens={"read": READ + "2"})
    async with visiting(made) as client, visiting(other) as second:
        await log_in(client)
        second.cookies = client.cookies
        await log_in(second, READ + "2")
        client.cookies = second.cookies
        assert [(await each.get("/")).status_code for each in (client, second)] == [200, 200]


# Roles.


async def test_read_sees_disabled_buttons_and_cannot_act(app: App, client: httpx.AsyncClient) -> None:
    job = await a_job(app)
    await log_in(client, READ)
    csrf = await csrf_of(client, f"/jobs/{job}")

    shown = (await client.get(f"/jobs/{job}")).text
    buttons = re.findall(r"<button[^>]*>(\w+)</button>", shown)
    assert {"cancel", "delete"} <= set(buttons)
    assert all("disabled" in each for each in re.findall(r"<form[^>]*/actions/.*?(<button[^>]*)", shown, re.DOTALL))
    for action in ACTIONS:
        refused = await client.post(f"/actions/{action}", data={"id": job, "csrf": csrf}, headers=OURS)
        assert (refused.status_code, "ask for the role operate" in refused.text) == (403, True)
    assert await state_of(app, job) is State.WAITING


async def test_operate_acts(app: App, client: httpx.AsyncClient) -> None:
    job = await a_job(app)
    await log_in(client)

    done = await cancel(client, job, await csrf_of(client, f"/jobs/{job}"), **OURS)

    assert (done.status_code, done.headers["location"]) == (303, "/jobs")
    assert await state_of(app, job) is State.CANCELLED
    assert "1 job cancelled." in (await client.get("/jobs")).text
    assert "1 job cancelled." not in (await client.get("/jobs")).text


async def test_actions_narrow_what_an_operator_may_do(app: App) -> None:
    job = await a_job(app)
    made = dashboard(app, auth=lambda _: Identity("ann", "operate", ("pause",)))
    async with visiting(made) as client:
        csrf = await csrf_of(client, f"/jobs/{job}")
        refused = await cancel(client, job, csrf, **OURS)
        paused = await client.post("/actions/pause", data={"queue": "mail", "csrf": csrf}, headers=OURS)
    assert (refused.status_code, paused.status_code) == (403, 303)
    assert not Identity("ann", "operate", ()).may("pause")
    assert not Identity("ann", "read", ("pause",)).may("pause")


@pytest.mark.parametrize(
    "options", [{"role": "admin"}, {"role": "operate", "actions": "retry"}, {"actions": ["retry"]}]
)
def test_an_identity_that_means_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Identity("ann", **options)


async def test_an_action_that_does_not_exist_is_refused(app: App, client: httpx.AsyncClient) -> None:
    await a_job(app)
    await log_in(client)
    csrf = await csrf_of(client)

    assert (await client.post("/actions/explode", data={"csrf": csrf}, headers=OURS)).status_code == 404


# The user's own function.


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_function_says_who_looks(app: App, kind: str) -> None:
    def who(request: Request) -> Identity | None:
        name = request.headers.get("x-user")
        return Identity(name) if name else None

    async def later(request: Request) -> Identity | None:
        await asyncio.sleep(0)
        return who(request)

    async with visiting(dashboard(app, auth=who if kind == "sync" else later)) as client:
        closed, shown = await client.get("/"), await client.get("/", headers={"x-user": "ann <b>"})
    assert (closed.status_code, shown.status_code) == (401, 200)
    assert "ann &lt;b&gt;" in shown.text
    assert "Log out" not in shown.text  # they have no session here that could end


async def test_a_function_that_fails_lets_nobody_in(app: App) -> None:
    def fails(_: Request) -> Identity:
        raise RuntimeError("secret detail")

    def forbids(_: Request) -> Identity:
        raise HTTPException(403, "staff only")

    async with visiting(dashboard(app, auth=fails), errors=False) as client:
        failed = await client.get("/")
    async with visiting(dashboard(app, auth=forbids)) as client:
        forbidden = await client.get("/")
    assert (failed.status_code, "secret" in failed.text) == (500, False)
    assert (forbidden.status_code, forbidden.text) == (403, "staff only")
    assert failed.headers["content-security-policy"] == POLICY


async def test_forms_of_viewers_without_a_session_of_ours_are_bound_to_cookie_and_name(app: App) -> None:
    job = await a_job(app)
    made = dashboard(app, auth=lambda request: Identity(request.headers["x-user"], "operate"))
    async with visiting(made) as ann, visiting(made) as bob:
        ann.headers["x-user"], bob.headers["x-user"] = "ann", "bob"
        csrf = await csrf_of(ann)
        await bob.get("/")
        others = await cancel(bob, job, csrf, **OURS)
        bob.cookies = ann.cookies
        same_cookie = await cancel(bob, job, csrf, **OURS)
        right = await cancel(ann, job, csrf, **OURS)
    assert [each.status_code for each in (others, same_cookie, right)] == [403, 403, 303]


async def test_a_form_is_accepted_by_every_process_that_serves_the_address(app: App) -> None:
    job = await a_job(app)
    async with visiting(dashboard(app, auth=OPEN)) as first, visiting(dashboard(app, auth=OPEN)) as second:
        csrf = await csrf_of(first)
        second.cookies = first.cookies
        assert (await cancel(second, job, csrf, **OURS)).status_code == 303


async def test_open_lets_everybody_operate_but_no_other_site(app: App) -> None:
    job = await a_job(app)
    async with visiting(dashboard(app, auth=OPEN)) as client:
        csrf = await csrf_of(client)
        foreign = await cancel(client, job, csrf, **{"sec-fetch-site": "cross-site"})
        ours = await cancel(client, job, csrf, **OURS)
    assert (foreign.status_code, ours.status_code) == (403, 303)


# Tokens.


@pytest.mark.parametrize(
    "tokens",
    [
        {"read": "x" * 19},
        {"admin": "x" * 20},
        {"read": "x" * 20, "operate": "x" * 20},
        {"read": "\udcff" * 20},
        {"read": " " + "x" * 20},
    ],
    ids=["short", "role", "same", "surrogates", "space"],
)
def test_a_bad_token_is_refused(app: App, tokens: Any) -> None:
    with pytest.raises(InvalidOption):
        dashboard(app, tokens=tokens)


async def test_all_tokens_are_compared_in_constant_time(
    made: Dashboard, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[bytes] = []

    def compare(given: bytes, right: bytes) -> bool:
        compared.append(right)
        return hmac.compare_digest(given, right)

    monkeypatch.setattr(access, "hmac", type("Hmac", (), {"compare_digest": staticmethod(compare), "new": hmac.new}))

    for token in (READ, OPERATE, "wrong"):
        compared.clear()
        await client.get("/", headers={"authorization": f"Bearer {token}"})
        assert compared[:2] == [READ.encode(), OPERATE.encode()]
    del made


async def test_a_bearer_token_needs_no_session(app: App, client: httpx.AsyncClient) -> None:
    job = await a_job(app)
    reader, operator = {"authorization": f"Bearer {READ}"}, {"authorization": f"bearer {OPERATE}"}

    assert (await client.get("/", headers=reader)).status_code == 200
    assert (await cancel(client, job, **reader)).status_code == 403
    assert (await cancel(client, job, **operator)).status_code == 303
    assert await state_of(app, job) is State.CANCELLED
    assert set(client.cookies) <= {"tenure_said"}


async def tries(client: httpx.AsyncClient, way: str, token: str) -> int:
    if way == "form":
        return (await log_in(client, token)).status_code
    return (await client.get("/", headers={"authorization": f"Bearer {token}"})).status_code


@pytest.mark.parametrize("way", ["form", "bearer"])
async def test_five_wrong_tokens_are_enough_for_a_while(
    made: Dashboard, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "FAILURES_SECONDS", 0.5)
    async with visiting(made) as client, visiting(made, address="10.0.0.2") as other:
        assert [await tries(client, way, f"wrong {number}") for number in range(5)] == [401] * 5
        assert await tries(client, way, OPERATE) == 429
        assert await tries(other, way, OPERATE) in {200, 303}  # another address does not wait
        await asyncio.sleep(0.6)
        assert await tries(client, way, OPERATE) in {200, 303}


async def test_addresses_with_wrong_tokens_are_remembered_within_bounds(
    made: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "ADDRESSES", 10)
    for number in range(30):
        async with visiting(made, address=f"10.0.0.{number}") as client:
            await tries(client, "bearer", "wrong")
    assert len(made.site.access._failures) == 10


@pytest.mark.parametrize("token", ["ÿ" * 20, "\x00" * 20, "x" * 100_000, ""])
async def test_an_odd_token_is_a_wrong_one(client: httpx.AsyncClient, token: str) -> None:
    assert (await log_in(client, token)).status_code == 401


# Sessions.


async def test_the_cookie_of_a_session(client: httpx.AsyncClient) -> None:
    cookie = (await log_in(client)).headers["set-cookie"]

    assert re.fullmatch(
        r"tenure_session_[0-9a-f]{8}=[\w-]+\.[0-9a-f]{64}; HttpOnly; Max-Age=43200; Path=/; SameSite=strict", cookie
    )


async def test_the_cookie_is_secure_under_https(made: Dashboard) -> None:
    async with visiting(made, base="https://jobs.example.org") as client:
        assert "; Secure" in (await log_in(client)).headers["set-cookie"]


async def test_a_changed_cookie_is_no_session(made: Dashboard, client: httpx.AsyncClient) -> None:
    await log_in(client, READ)
    name, value = made.site.access.cookie, client.cookies[made.site.access.cookie]
    body, _, seal = value.partition(".")
    other = "1" if seal.endswith("0") else "0"
    changed = [
        f"A{body[1:]}.{seal}",
        f"{body}.{seal[:-1]}{other}",
        f"{body}.",
        body,
        "",
        ".",
        f"{body}.ÿ",
        "ÿ.ÿ",
        "x" * 7000,
    ]
    client.cookies.clear()
    for each in changed:
        header = f"{name}={each}".encode("latin-1")
        assert (await client.get("/", headers={b"cookie": header})).status_code == 401, each


async def test_a_session_expires(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "SESSION_SECONDS", 0.5)
    await log_in(client)
    assert (await client.get("/")).status_code == 200
    await asyncio.sleep(0.6)
    assert (await client.get("/")).status_code == 401


async def test_new_tokens_end_all_sessions_and_a_restart_ends_none(app: App, client: httpx.AsyncClient) -> None:
    await log_in(client)
    for tokens, status in [(TOKENS, 200), ({**TOKENS, "read": "x" * 20}, 401)]:
        async with visiting(dashboard(app, tokens=tokens)) as later:
            later.cookies = client.cookies
            assert (await later.get("/")).status_code == status


async def test_a_log_out_ends_the_session_and_every_copy_of_it(client: httpx.AsyncClient, made: Dashboard) -> None:
    await log_in(client)
    assert 'action="/logout"' in (await client.get("/")).text
    async with visiting(made) as copy:
        copy.cookies.update(client.cookies)
        foreign = await client.post("/logout", headers={"sec-fetch-site": "cross-site"})
        assert (foreign.status_code, (await client.get("/")).status_code) == (403, 200)

        left = await client.post("/logout", headers=OURS)

        assert (left.status_code, left.headers["location"]) == (303, "/login")
        assert not client.cookies
        assert (await copy.get("/")).status_code == 401


# Forgery.


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 303),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": HOST}, 403),
        ({"origin": HOST}, 303),
        ({"origin": "https://jobs.example.org"}, 303),
        ({"origin": "HTTP://JOBS.example.org"}, 303),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://jobs.example.org.evil.example"}, 403),
        ({"origin": "http://jobs.example.org:8080"}, 403),
        ({"origin": "file://jobs.example.org"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://[::1"}, 403),
        ({"origin": ""}, 403),
        ({}, 403),
    ],
)
async def test_only_our_own_pages_change_something(
    app: App, client: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    job = await a_job(app)
    await log_in(client)

    assert (await cancel(client, job, await csrf_of(client), **headers)).status_code == status
    assert await state_of(app, job) is (State.CANCELLED if status == 303 else State.WAITING)


async def test_a_form_carries_the_token_of_its_session(app: App, made: Dashboard, client: httpx.AsyncClient) -> None:
    job = await a_job(app)
    await log_in(client)
    csrf = await csrf_of(client)
    async with visiting(made) as other:
        await log_in(other)
        foreign = await csrf_of(other)
    for wrong in (foreign, "", "x", "ÿ", csrf[:-1], csrf + "0", made.site.placeholder):
        assert (await cancel(client, job, wrong, **OURS)).status_code == 403
    await client.post("/logout", headers=OURS)
    await log_in(client)

    assert (await cancel(client, job, csrf, **OURS)).status_code == 403  # a page from before the log out
    assert (await cancel(client, job, await csrf_of(client), **OURS)).status_code == 303


async def test_a_log_in_cannot_be_forged(client: httpx.AsyncClient) -> None:
    for headers in ({}, {"sec-fetch-site": "cross-site"}, {"origin": "http://evil.example"}):
        refused = await client.post("/login", data={"token": OPERATE}, headers=headers)
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)


async def test_what_changes_something_is_a_post(app: App, client: httpx.AsyncClient) -> None:
    job = await a_job(app)
    await log_in(client)
    csrf = await csrf_of(client)

    for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = await client.request(method, f"/actions/cancel?id={job}&csrf={csrf}", headers=OURS)
        assert answer.status_code in {404, 405}, method
    assert await state_of(app, job) is State.WAITING


async def test_pages_answer_head_and_refuse_other_methods(client: httpx.AsyncClient) -> None:
    await log_in(client)

    for path in ("/", "/jobs", "/live?topic=/"):
        head = await asyncio.wait_for(client.head(path), 5)
        assert (head.status_code, head.content) == (200, b"")
    for method in ("OPTIONS", "PUT", "DELETE", "TRACE", "MADE-UP"):
        answer = await client.request(method, "/jobs")
        assert (answer.status_code, answer.headers["x-content-type-options"]) == (405, "nosniff")


# Hosts and proxies.


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("jobs.example.org", 200),
        ("JOBS.example.org", 200),
        ("jobs.example.org:8443", 200),
        ("[::1]", 200),
        ("[::1]:8787", 200),
        ("only.example.org:81", 200),
        ("only.example.org", 421),
        ("evil.example", 421),
        ("jobs.example.org.evil.example", 421),
        ("jobs.example.org:80@evil.example", 421),
        ("jobs.example.org:²", 421),
        ("[::1]:x", 421),
        ("::1", 421),
        ("", 421),
    ],
)
async def test_the_dashboard_answers_to_its_hosts_only(app: App, host: str, status: int) -> None:
    made = dashboard(app, auth=OPEN, allowed_hosts=["jobs.example.org", "[::1]", "Only.example.org:81"])
    async with visiting(made) as client:
        answer = await client.get("/jobs", headers={b"host": host.encode()})
    assert answer.status_code == status
    assert status == 200 or "--allow-host" in answer.text


async def test_what_a_proxy_would_say_is_not_believed(made: Dashboard) -> None:
    forwarded = {"x-forwarded-proto": "https", "x-forwarded-host": "evil.example", "x-forwarded-prefix": "/evil"}
    async with visiting(made) as client:
        client.headers.update(forwarded)
        cookie = (await log_in(client)).headers["set-cookie"]
        assert "Secure" not in cookie
        assert "evil" not in (await client.get("/")).text
        await client.post("/logout", headers=OURS)
        for number in range(5):
            await client.get("/", headers={"authorization": "Bearer wrong", "x-forwarded-for": f"10.9.9.{number}"})
        assert await tries(client, "form", OPERATE) == 429


async def test_the_host_is_no_part_of_an_address(app: App) -> None:
    async with visiting(dashboard(app, auth=OPEN)) as client:
        answer = await client.get("/jobs", headers={b"host": b"evil.example/x?y#z"})
    assert (answer.status_code, "evil" in answer.text) == (200, False)


# Headers.


async def test_every_answer_has_the_headers(made: Dashboard, client: httpx.AsyncClient) -> None:
    static = made.site.renderer.static_path("style.css")
    closed = [await client.get(path) for path in ("/", "/login", "/nothing", "/healthz", static, "/static/x/y.css")]
    closed += [await client.get("/" + "x" * 9000), await client.post("/login"), await log_in(client, "wrong")]
    await log_in(client)
    shown = [await client.get(path) for path in ("/", "/jobs", "/jobs/gone", "/jobs?limit=0", "/nothing")]
    for answer in [*closed, *shown]:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        immutable = answer.url.path == static
        assert answer.headers["cache-control"] == ("public, max-age=31536000, immutable" if immutable else "no-store")
    assert [answer.status_code for answer in shown] == [200, 200, 404, 400, 404]


def test_the_policy_allows_nothing_but_our_own_files() -> None:
    assert POLICY.split("; ") == [
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
        "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'",
        "trusted-types tenure",
    ]  # fmt: skip


# Input.


@pytest.fixture(params=KINDS)
async def anywhere(request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    """A dashboard with a job, on each store."""
    app = App(a_url(request))
    await a_job(app)
    made = dashboard(app, auth=OPEN)
    async with visiting(made) as client:
        yield client
    await made.aclose()
    await app.aclose()


GARBAGE = [
    "x", "", "0", "-1", "²", "%00", "[1e999]", "[1]", "[1,2,3,4]", '["a",2,3]', "[9e30,9e30,9e30]", "NaN", "null", "{}",
    "1 2 3 4", "a b c", "1 nan 3", "1 inf 3", "² ² ²", "9" * 30, "99999999999999999999 1 1", "[" * 1000, "%F0%9F%98%80",
]  # fmt: skip


async def test_a_cursor_that_no_store_has_made_is_refused(anywhere: httpx.AsyncClient) -> None:
    for path in [path for path in PAGES if "{" not in path]:
        for state in ("", "waiting", "failed"):
            for cursor in GARBAGE:
                answer = await anywhere.get(f"{path}?state={state}&cursor={cursor}")
                assert answer.status_code in {200, 400}, (path, state, cursor, answer.text)
    assert (await anywhere.get("/jobs?cursor=x")).status_code == 400


BAD = [
    "limit=0", "limit=201", "limit=-1", "limit=x", "limit=²", "limit=" + "9" * 100, "limit=" + "9" * 5000,
    "limit=1e9", "text=" + "x" * 201, "text=" + "%F0%9F%98%80" * 51, "text=a%00b", "text=a%0d%0ab", "queue=%3Cb%3E",
    "queue=" + "x" * 200, "task=../../etc", "worker=a%20b", "tag=" + "x" * 201, "state=gone", "before=tomorrow",
    "before=999999d", "before=²h", "x" * 300 + "=1", "x%00=1",
]  # fmt: skip


async def test_parameters_are_checked(anywhere: httpx.AsyncClient) -> None:
    for query in BAD:
        answer = await anywhere.get(f"/jobs?{query}")
        assert (answer.status_code, "That cannot be shown" in answer.text) == (400, True), query
    for span in ("2h", "6h", "1h ", "x", "%00"):
        assert (await anywhere.get(f"/?span={span}")).status_code == 400, span
    assert (await anywhere.get("/?span=24h")).status_code == 200
    assert (await anywhere.get("/jobs?limit=200")).status_code == 200


async def test_odd_paths_and_searches_find_nothing_and_break_nothing(anywhere: httpx.AsyncClient) -> None:
    odd = [
        "%00",
        "%F0%9F%98%80",
        "x" * 3000,
        "..%2f..%2fetc%2fpasswd",
        "a%0d%0aX:y",
        "%ff%fe",
        "'--",
        "%22",
        "a:b",
        "?",
    ]
    for word in odd:
        for path in PAGES:
            answer = await anywhere.get(re.sub(r"{\w+}", word, path))
            assert answer.status_code in {200, 400, 404}, (path, word)
        answer = await anywhere.get(f"/search?q={word}")
        assert answer.status_code in {303, 400}
        assert "\n" not in answer.headers.get("location", "")


async def test_an_address_has_at_most_8_kilobytes(made: Dashboard, client: httpx.AsyncClient) -> None:
    assert (await client.get("/" + "x" * 7900)).status_code == 401
    assert (await client.get("/" + "x" * 8100)).status_code == 414
    assert (await client.get("/?" + "x" * 8100)).status_code == 414
    assert (await asked(made, "GET", "/?" + "x" * 10_000_000))[0]["status"] == 414


@pytest.mark.parametrize("counted", [True, False], ids=["with a length", "without a length"])
async def test_a_body_has_at_most_a_megabyte(client: httpx.AsyncClient, counted: bool) -> None:
    await log_in(client)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x=" + b"y" * 100_000 + b"&"

    body = b"x=" + b"y" * (1 << 20) if counted else pieces()
    headers = {**OURS, "content-type": "application/x-www-form-urlencoded"}
    for path in ("/actions/cancel", "/login"):
        answer = await client.post(path, content=body, headers=headers)
        assert (answer.status_code, answer.headers["x-content-type-options"]) == (413, "nosniff")
        body = b"x=" + b"y" * (1 << 20) if counted else pieces()


@pytest.mark.parametrize("length", ["-1", "x", "²", "9" * 5000, "", "1e3"])
async def test_a_length_that_is_no_number_is_refused(made: Dashboard, length: str) -> None:
    sent = await asked(made, "POST", "/login", {"content-length": length})
    assert sent[0]["status"] == 413


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data; boundary=x", b"--x--"),
        ("application/json", b"{}"),
        ("", b""),
        ("application/x-www-form-urlencoded", b"a&" * 5000),
    ],
)
async def test_what_is_no_form_is_refused(client: httpx.AsyncClient, kind: str, body: bytes) -> None:
    await log_in(client)
    for path in ("/actions/cancel", "/login"):
        answer = await client.post(path, content=body, headers={**OURS, "content-type": kind})
        assert answer.status_code == 400


@pytest.mark.parametrize(
    "back",
    ["//evil.example", "/\\evil.example", "https://evil.example", "evil.example", "/\t/evil.example", "/\r\nX: y", "",
     "javascript:alert(1)", "/\u202eevil", "\\\\evil.example", "/" + "x" * 9000],
)  # fmt: skip
async def test_no_form_leads_elsewhere(app: App, client: httpx.AsyncClient, back: str) -> None:
    assert (await log_in(client, back=back)).headers["location"] == "/"
    job, csrf = await a_job(app), await csrf_of(client)
    done = await client.post("/actions/cancel", data={"id": job, "csrf": csrf, "back": back}, headers=OURS)
    assert (done.status_code, done.headers["location"]) == (303, "/")


@pytest.mark.parametrize(
    "path",
    ["/static/VERSION/../site.py", "/static/VERSION/%2e%2e%2fsite.py", "/static/VERSION/..%5csite.py",
     "/static/VERSION//etc/passwd", "/static/VERSION/style.css%00.png", "/static/%2e%2e/style.css", "/static/old/style.css"],
)  # fmt: skip
async def test_static_files_are_those_of_the_dashboard(made: Dashboard, client: httpx.AsyncClient, path: str) -> None:
    sent = await asked(made, "GET", path.replace("VERSION", made.site.renderer.version))
    assert sent[0]["status"] in {401, 404}
    assert b"import" not in b"".join(message.get("body", b"") for message in sent[1:])
    del client


async def test_what_was_said_cannot_be_made_up(made: Dashboard, client: httpx.AsyncClient) -> None:
    await log_in(client)
    for value in (b"call 555-1234 now".hex(), f"{b'x'.hex()}.{'0' * 64}", "zz.zz", "ÿ", "<b>", "x" * 5000):
        header = f"{made.site.access.cookie}={client.cookies[made.site.access.cookie]}; tenure_said={value}"
        shown = await client.get("/jobs", headers={b"cookie": header.encode("latin-1")})
        assert (shown.status_code, "toast" in shown.text, "555" in shown.text) == (200, False, False)


# Secrets, the audit, and the load on the store.


SECRET = "hunter2-is-no-good-password"


async def test_values_that_may_be_secrets_are_not_shown_and_cannot_be_probed(app: App) -> None:
    task = app.remote("send", queue="mail")
    headers = {"api-key": SECRET, "trace": "visible-trace"}
    nested = {"list": [{"Authorization": SECRET}], "plain": "visible-value"}
    job = (await task.using(headers=headers).aenqueue(password=SECRET, data=nested)).id
    made = dashboard(app, auth=OPEN)
    async with visiting(made) as client:
        page = (await client.get(f"/jobs/{job}")).text
        for path in ("/jobs", f"/jobs/{job}", f"/jobs?text={SECRET}", f"/jobs?text={SECRET[:8]}"):
            shown = (await client.get(path)).text
            assert SECRET not in shown.replace(f"text={SECRET}", "").replace(f'value="{SECRET}"', "").replace(
                f"</span> {SECRET}", ""
            ).replace(f"with text {SECRET}", ""), path
            assert f"job-{job}" not in shown or "text=" not in path
        found = (await client.get("/jobs?text=visible-value")).text
    assert page.count("•••") >= 3
    assert all(text in page for text in ("visible-trace", "visible-value"))
    assert f"job-{job}" in found
    await made.aclose()


async def test_hidden_shows_no_arguments_at_all(app: App) -> None:
    job = (await app.remote("send", queue="mail").aenqueue("visible-value")).id
    made = dashboard(app, auth=OPEN, show="hidden")
    async with visiting(made) as client:
        for path in ("/jobs", f"/jobs/{job}"):
            assert "visible-value" not in (await client.get(path)).text
    await made.aclose()


async def test_every_action_is_in_the_audit_with_who_did_it(app: App, client: httpx.AsyncClient) -> None:
    job = await a_job(app)
    await log_in(client)
    await cancel(client, job, await csrf_of(client), **OURS)
    await cancel(client, job, "forged", **OURS)

    [entry] = (await app.internals.session.store.actions()).actions

    assert (entry.who, entry.by, entry.what, entry.target, entry.count) == ("ann", "dashboard", "cancel", job, 1)


async def test_a_store_that_does_not_answer_is_given_up_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site, "READ_TIMEOUT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never says a word
        app = App(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        made = dashboard(app, auth=OPEN)
        async with visiting(made) as client:
            for path in ("/", "/jobs", "/jobs/x", "/healthz", "/search?q=abc"):
                answer = await asyncio.wait_for(client.get(path), 5)
                assert (answer.status_code, "does not answer" in answer.text) == (503, True), path
        await made.aclose()
        await app.aclose()


# The JSON API: the same tokens, limits and headers.


async def test_the_api_is_as_closed_as_the_pages(app: App, made: Dashboard) -> None:
    job = await a_job(app)
    body = {"action": "cancel", "ids": [job]}
    path = "/api/v1/jobs/actions"
    async with visiting(made, address="10.0.0.7") as client:
        assert (await client.get("/api/v1/jobs")).status_code == 401
        assert (await client.post(path, json=body)).status_code == 401
        reader = {"authorization": f"Bearer {READ}"}
        assert (await client.post(path, json=body, headers=reader)).status_code == 403
        await log_in(client)
        csrf = await csrf_of(client)
        for headers in ({}, OURS, {"sec-fetch-site": "cross-site", "x-csrf-token": csrf}, {"x-csrf-token": csrf}):
            assert (await client.post(path, json=body, headers=headers)).status_code == 403
        assert await state_of(app, job) is State.WAITING
        large = await client.post(path, content=b"x" * (1 << 21), headers={**OURS, "x-csrf-token": csrf})
        done = await client.post(path, json=body, headers={**OURS, "x-csrf-token": csrf})
        assert (large.status_code, done.status_code) == (413, 200)
        assert {name: done.headers[name] for name in HEADERS} == HEADERS
        assert await state_of(app, job) is State.CANCELLED
        client.cookies.clear()
        wrong = {"authorization": "Bearer wrong"}
        assert [(await client.get("/api/v1/jobs", headers=wrong)).status_code for _ in range(6)] == [401] * 5 + [429]


# Mounted under a path.


async def through_starlette(made: Dashboard) -> Any:
    return Starlette(routes=[Mount("/ops/jobs", made)])


async def through_scope(made: Dashboard) -> Any:
    """As uvicorn with --root-path, or a program that dispatches by itself, passes requests on."""

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        await made({**scope, "root_path": "/ops/jobs"}, receive, send)

    return outer


@pytest.mark.parametrize("mounted", [through_starlette, through_scope])
async def test_under_a_path_everything_stays_below_it(app: App, made: Dashboard, mounted: Any) -> None:
    job = await a_job(app)
    root = "/ops/jobs"
    async with visiting(await mounted(made)) as client:
        shown = await client.get(f"{root}/jobs?state=failed", headers={"accept": "text/html"})
        assert 'value="/jobs?state=failed"' in shown.text
        entered = await log_in(client, root=root, back="/jobs?state=failed")
        assert entered.headers["location"] == f"{root}/jobs?state=failed"
        assert f"; Path={root};" in entered.headers["set-cookie"]
        for path in ("/", "/jobs", f"/jobs/{job}"):
            page = await client.get(root + path)
            assert page.status_code == 200
            links = re.findall(r'(?:href|src|action|formaction)="([^"]*)"', page.text)
            assert [link for link in links if not link.startswith((f"{root}/", "#"))] == []
        done = await cancel(client, job, await csrf_of(client, f"{root}/"), root=root, **OURS)
        assert (done.headers["location"], await state_of(app, job)) == (f"{root}/jobs", State.CANCELLED)
        assert f"; Path={root};" in done.headers["set-cookie"]
        assert (await client.get(f"{root}/search?q={job}")).headers["location"] == f"{root}/jobs/{job}"
        assert (await client.get(root, follow_redirects=True)).status_code == 200
        assert (await client.post(f"{root}/logout", headers=OURS)).headers["location"] == f"{root}/login"


async def test_a_job_whose_page_has_the_name_of_the_root_is_found(app: App, made: Dashboard) -> None:
    async with visiting(Starlette(routes=[Mount("/jobs", made)])) as client:
        entered = await log_in(client, root="/jobs", back="/jobs?state=failed")
    assert entered.headers["location"] == "/jobs/jobs?state=failed"
    del app


# Streams.


class Stream:
    """One open stream, as a server passes it on."""

    def __init__(self, made: Any, path: str, headers: Mapping[str, str]) -> None:
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._gone = asyncio.Event()
        scope = scope_of("GET", path, headers)
        self.task = asyncio.create_task(made(scope, self._receive, self._messages.put))

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def status(self) -> int:
        started = await asyncio.wait_for(self._messages.get(), 5)
        self.headers = {name.decode(): value.decode() for name, value in started["headers"]}
        return int(started["status"])

    async def text(self) -> str:
        return str((await asyncio.wait_for(self._messages.get(), 5)).get("body", b"").decode())

    async def close(self) -> None:
        self._gone.set()
        await asyncio.wait_for(self.task, 5)


def scope_of(method: str, target: str, headers: Mapping[str, str]) -> dict[str, Any]:
    path, _, query = target.partition("?")
    return {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": httpx.URL(path).path,
        "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "client": ("10.0.0.1", 1),
        "headers": [(b"host", b"jobs.example.org"), *((k.encode(), v.encode("latin-1", "replace")) for k, v in headers.items())],
    }  # fmt: skip


async def asked(made: Any, method: str, path: str, headers: Mapping[str, str] = {}) -> list[dict[str, Any]]:
    """What is answered to a request that no client library would send."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await made(scope_of(method, path, headers), receive, send)
    return sent


def cookies(client: httpx.AsyncClient) -> dict[str, str]:
    return {"cookie": "; ".join(f"{name}={value}" for name, value in client.cookies.items())}


async def test_a_stream_carries_the_headers_and_the_viewers_own_form_token(
    app: App, made: Dashboard, client: httpx.AsyncClient
) -> None:
    await a_job(app)
    await log_in(client)
    csrf = await csrf_of(client)

    stream = Stream(made, "/live?topic=/jobs", cookies(client))

    assert await stream.status() == 200
    assert stream.headers["content-security-policy"] == POLICY
    assert stream.headers["cache-control"] == "no-store"
    assert "retry" in await stream.text()
    patch = await stream.text()
    assert csrf in patch
    assert made.site.placeholder not in patch
    await stream.close()


async def ends(made: Dashboard, stream: Stream) -> bool:
    """Whether a stream ends by itself."""
    del made
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(stream.task), 3)
        return True
    await stream.close()
    return False


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are checked ten times a second."""
    monkeypatch.setattr(entrance, "CHECKED_EVERY", 0.1)
    monkeypatch.setattr(topics, "ALIVE", 0.1)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("end", ["expires", "leaves", "stays"])
async def test_a_stream_ends_with_its_session(
    made: Dashboard, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    if end == "expires":
        monkeypatch.setattr(access, "SESSION_SECONDS", 0.5)
    await log_in(client)
    stream = Stream(made, "/live?topic=/", cookies(client))
    assert await stream.status() == 200
    if end == "leaves":
        await client.post("/logout", headers=OURS)

    assert await ends(made, stream) is (end != "stays")


@pytest.mark.usefixtures("quick")
async def test_a_stream_ends_when_its_viewer_may_do_something_else(app: App) -> None:
    roles: list[access.Role] = ["operate"]
    made = dashboard(app, auth=lambda _: Identity("ann", roles[-1]))
    stream = Stream(made, "/live?topic=/", {})
    assert await stream.status() == 200

    roles.append("read")

    assert await ends(made, stream)
    await made.aclose()


async def test_there_are_at_most_so_many_streams(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "STREAMS", 3)
    made = dashboard(app, auth=OPEN)
    streams = [Stream(made, "/live?topic=/jobs", {}) for _ in range(3)]
    assert [await stream.status() for stream in streams] == [200] * 3
    for stream in streams:
        await stream.text()

    refused = await asked(made, "GET", "/live?topic=/jobs")

    assert refused[0]["status"] == 503
    await streams.pop().close()
    again = Stream(made, "/live?topic=/jobs", {})
    assert await again.status() == 200
    for stream in [*streams, again]:
        await stream.close()
    await made.aclose()


async def test_there_are_at_most_so_many_pages_kept_up_to_date(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "TOPICS", 2)
    made = dashboard(app, auth=OPEN)
    streams = [Stream(made, f"/live?topic=/jobs/{number}", {}) for number in range(2)]
    for stream in streams:
        assert await stream.status() == 200
        await stream.text()

    assert (await asked(made, "GET", "/live?topic=/jobs/3"))[0]["status"] == 503
    for stream in streams:
        await stream.close()
    await made.aclose()


@pytest.mark.parametrize("last", ["", "x", "00000000-²", "00000000-" + "9" * 5000, "\x00", "-", "a-1-1"])
async def test_an_odd_last_event_is_none(app: App, last: str) -> None:
    made = dashboard(app, auth=OPEN)
    made.site.topics._epoch = "00000000"
    stream = Stream(made, "/live?topic=/jobs", {"last-event-id": last})
    assert await stream.status() == 200
    assert "retry" in await stream.text()
    assert "patch" in await stream.text()
    await stream.close()
    await made.aclose()


@pytest.mark.parametrize("topic", ["x", "", "//evil.example", "/jobs%3Flimit=0", "/nothing", "%00", "/jobs/%2500"])
async def test_an_odd_topic_is_a_page_that_says_so(app: App, topic: str) -> None:
    made = dashboard(app, auth=OPEN)
    stream = Stream(made, f"/live?topic={topic}", {})
    assert await stream.status() == 200
    assert "retry" in await stream.text()
    assert "patch" in await stream.text()
    await stream.close()
    await made.aclose()
