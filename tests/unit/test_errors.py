"""The tree of errors is the one that is drawn, and every message says what to do next."""

from __future__ import annotations

import inspect
import re

import pytest

from tenure import errors
from tenure.errors import TenureError


def drawn() -> dict[str, str]:
    """Each class of the drawing at the top of errors.py, and the one it hangs from."""
    parents: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^    ([│├└─ ]*)([A-Z]\w+)\b", line)
        if found is None:
            continue
        depth = len(found[1])
        path = [(d, n) for d, n in path if d < depth]
        if path:
            parents[found[2]] = path[-1][1]
        path.append((depth, found[2]))
    return parents


def test_the_tree_is_the_one_that_is_drawn() -> None:
    classes = {
        name: kind for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, TenureError)
    }

    assert drawn() == {name: kind.__bases__[0].__name__ for name, kind in classes.items() if kind is not TenureError}
    assert set(errors.__all__) == set(classes)


@pytest.mark.parametrize(
    "also",
    [
        (errors.InvalidName, ValueError),
        (errors.InvalidOption, ValueError),
        (errors.PayloadError, ValueError),
        (errors.UseAsync, RuntimeError),
        (errors.JobNotFound, LookupError),
        (errors.ResultTimeout, TimeoutError),
        (errors.StoreUnavailable, ConnectionError),
        (errors.InvalidUrl, ValueError),
        (errors.MissingExtra, ImportError),
    ],
)
def test_errors_are_also_what_python_calls_them(also: tuple[type, type]) -> None:
    assert issubclass(*also)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (errors.UseAsync("enqueue"), "await aenqueue() instead"),
        (errors.UseAsync("with app.batch", "use async with"), "use async with instead"),
        (errors.PayloadTooLarge(2_000_000, 1_048_576), "2,000,000 bytes and the limit is 1,048,576"),
        (errors.UnknownTask("send_wellcome", ["send_welcome"]), "did you mean 'send_welcome'?"),
        (errors.UnknownTask("x", []), "import its module"),
        (errors.MissingExtra("redis", "redis:// stores need a driver"), 'pip install "tenure[redis]"'),
        (errors.ResultTimeout("j", 5), "not final after 5 s"),
        (errors.WrongState("j", "running", "final"), "is running: this needs a job that is final"),
        (errors.UniqueConflict("t", "k", "j1"), "job j1 of task 't' owns the unique key 'k'"),
        (errors.LayoutTooNew(9, 1, "jobs.db"), "upgrade tenure"),
        (errors.HasDependents("j", ["a", "b"]), "cascade=True"),
    ],
)
def test_a_message_says_what_to_do_next(error: TenureError, advice: str) -> None:
    assert advice in str(error)
