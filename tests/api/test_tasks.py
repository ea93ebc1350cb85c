"""Making tasks of functions."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tenure import App, Backoff, Context, Retry, Task
from tenure.core.job import JobRecord, State
from tenure.core.lease import Lease, Token
from tenure.errors import InvalidName, InvalidOption, PayloadError

if TYPE_CHECKING:
    from somewhere import Missing  # type: ignore[import-not-found]

app = App("memory://tasks")


@app.task
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@app.task(queue="mail", retry=Backoff(initial=1), max_attempts=None, lease=60, timeout=5, keep=7, priority=-3)
async def send(user: int, *, lang: str = "en") -> str:
    return f"{user} {lang}"


@app.task
def greet(ctx: Context, name: str) -> str:
    return f"{ctx.job.id} {name}"


@app.task
def late_context(name: str = "x", ctx: Context | None = None) -> None: ...


@app.task
def named_context(a: int, *rest: int, ctx: Context, b: int = 1) -> None: ...


@app.task(raw=True)
def store_bytes(ctx: Context, data: bytes) -> int:
    return len(data)


@app.task
def half_known(missing: Missing, count: int) -> None: ...


@app.task
def answers(n: int) -> set[int] | Retry:
    return {n} if n else Retry("later")


def a_context(*, raw: bool = False) -> Context:
    from tenure.tasks.context import AbortSignal

    return Context(Lease(JobRecord("j", "t", "q", State.RUNNING, b"{}", raw), Token(1, 1), 30.0), "w", AbortSignal())


def test_a_task_called_like_a_function_runs_here() -> None:
    assert add(1, b=2) == 3
    assert asyncio.run(send(1)) == "1 en"


def test_a_task_keeps_the_name_and_the_documentation_of_its_function() -> None:
    assert (add.name, add.__doc__, add._is_async, send._is_async) == ("add", "Add two numbers.", False, True)
    assert (add.__module__, inspect.signature(add)) == (__name__, inspect.signature(add.function))
    assert app.tasks["add"] is add
    assert isinstance(send, Task)


def test_options_are_those_that_were_given_and_the_queue_is_the_default_one() -> None:
    assert add.options.queue == "default"
    assert (send.options.queue, send.options.max_attempts, send.options.lease) == ("mail", None, 60.0)


def test_the_context_is_filled_in_wherever_it_stands() -> None:
    ctx = a_context()

    assert greet._call_arguments(greet.bind("Ann").payload, ctx) == ((ctx, "Ann"), {})
    assert greet._call_arguments(greet.bind(name="Ann").payload, ctx) == ((ctx,), {"name": "Ann"})
    assert late_context._call_arguments(b"{}", ctx) == ((), {"ctx": ctx})
    assert late_context._call_arguments(late_context.bind("a").payload, ctx) == (("a", ctx), {})
    assert named_context._call_arguments(b'{"args":[1,2,3]}', ctx) == ((1, 2, 3), {"ctx": ctx})
    raw = a_context(raw=True)
    assert store_bytes._call_arguments(b"\0", raw) == ((raw, b"\0"), {})


def test_callers_cannot_pass_a_context() -> None:
    with pytest.raises(TypeError):
        late_context.bind("a", ctx=None)


def test_a_task_with_a_context_is_called_directly_only_inside_a_job() -> None:
    with pytest.raises(LookupError, match="no job is running here"):
        greet("Ann")


def test_an_annotation_that_cannot_be_resolved_means_any_and_spoils_no_other() -> None:
    assert half_known._call_arguments(half_known.bind({"a": 1}, 2).payload, None) == (({"a": 1}, 2), {})
    with pytest.raises(PayloadError, match="'count'"):
        half_known.bind({"a": 1}, "2")


def test_answers_are_no_part_of_the_type_of_a_result() -> None:
    assert answers._results.decode(answers._encode_result({3}, returned=True)) == {3}


def test_a_wrapped_function_keeps_its_signature() -> None:
    def log(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> int:
            return function(*args, **kwargs)

        return inner

    @App("memory://").task
    @log
    def double(n: int) -> int:
        return 2 * n

    assert double(2) == 4
    with pytest.raises(PayloadError, match="'n'"):
        double.bind("2")


@pytest.mark.parametrize("name", ["a b", "a\n", "ä", "a" * 128, "-"])
def test_a_task_name_that_no_store_accepts_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        App("memory://").task(name=name)(lambda: None)


def test_a_lambda_needs_a_name() -> None:
    app = App("memory://")

    with pytest.raises(InvalidName, match="lambda"):
        app.task(lambda: None)
    assert app.task(name="nothing")(lambda: None).name == "nothing"


def test_two_tasks_of_one_name_are_refused() -> None:
    app = App("memory://")
    app.task(name="twin")(lambda: None)

    with pytest.raises(InvalidOption, match="'twin' already"):
        app.task(name="twin")(lambda: None)


def test_without_a_default_queue_a_task_must_name_one() -> None:  # R1, T23
    app = App("memory://", default_queue=None)

    with pytest.raises(InvalidOption, match="'lonely' names no queue"):
        app.task(name="lonely")(lambda: None)
    with pytest.raises(InvalidOption, match="names no queue"):
        app.remote("lonely")
    assert app.task(name="housed", queue="q")(lambda: None).options.queue == "q"


def test_a_raw_task_takes_one_argument() -> None:
    with pytest.raises(InvalidOption, match="must take one argument"):
        App("memory://").task(raw=True)(add.function)


@pytest.mark.parametrize(
    "options", [{"max_attempts": 0}, {"lease": 0.1}, {"priority": 2**31}, {"priority": 1.5}, {"queue": "a b"}]
)
def test_task_options_are_checked_when_the_task_is_made(options: dict[str, Any]) -> None:
    with pytest.raises((InvalidOption, InvalidName)):
        App("memory://").task(**options)(add.function)


def test_the_second_of_one_name_is_told_where_the_first_is() -> None:
    mine = App("memory://")
    first = mine.task(name="send")(lambda: None)
    line = first.function.__code__.co_firstlineno
    with pytest.raises(InvalidOption) as refused:
        mine.task(name="send")(add.function)
    assert str(refused.value) == (
        f"there is a task named 'send' already, defined in {__file__}:{line}: give one of them another name="
    )


def test_a_module_that_is_imported_twice_is_named_as_the_cause(tmp_path: Path) -> None:
    path = tmp_path / "mails.py"
    path.write_text("@app.task\ndef send() -> None: ...\n")
    code = compile(path.read_text(), str(path), "exec")
    mine = App("memory://")
    exec(code, {"app": mine, "__name__": "__main__"})
    with pytest.raises(InvalidOption, match="imported twice, as __main__ and as mails; import it under one name only"):
        exec(code, {"app": mine, "__name__": "mails"})


@pytest.mark.parametrize("module", ["shop tasks", ".tasks", "", ["shop.tasks"], "shop/tasks.py"])
def test_what_can_be_no_module_is_not_included(module: Any) -> None:
    with pytest.raises(InvalidOption, match=r"include takes full names of modules, such as 'shop.tasks', got"):
        App("memory://").include(module)


async def test_modules_are_included_once_a_worker_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "included_first.py").write_text(
        "import tests.api.test_tasks as here\nhere.came.append(__name__)\nhere.mine.include('included_second')"
    )
    (tmp_path / "included_second.py").write_text("import tests.api.test_tasks as here\nhere.came.append(__name__)")
    mine.include("included_first")
    assert came == []
    for _ in range(2):
        async with mine.worker():
            pass
    assert came == ["included_first", "included_second"]
    await mine.aclose()


mine = App("memory://")
came: list[str] = []
