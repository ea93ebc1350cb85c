"""`manage.py test` and pytest-django run users' tests on every database, in parallel too, and end without a complaint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import ROOT, Site, new_database

TESTS = "tests.django.project.shop.tests"


@pytest.fixture(params=["memory", pytest.param("file", marks=pytest.mark.long), "postgres"])
def tested(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """The project with a test database in memory, in a file and on PostgreSQL."""
    if request.param == "postgres":
        with new_database(request.getfixturevalue("postgres_server_url")) as url:
            yield Site(tmp_path, url, {})
    else:
        name = {"DJANGO_TEST_NAME": str(tmp_path / "test.db")} if request.param == "file" else {}
        yield Site(tmp_path, str(tmp_path / "site.db"), {}, **name)


def complaints(said: str) -> list[str]:
    """Lines that tell of something wrong; not those of the task that fails on purpose."""
    return re.findall(r".*(?:Warning|being accessed|did not|never awaited|leaked|Exception ignored).*", said)


@pytest.mark.parametrize(
    "more", [pytest.param([], marks=pytest.mark.long), ["--parallel", "2"]], ids=["alone", "parallel"]
)
def test_manage_test_ends_without_a_complaint(tested: Site, more: list[str]) -> None:
    said = tested.run(
        "-W", "always::ResourceWarning", "tests/django/project/manage.py", "test", TESTS, "--noinput", *more
    )

    assert "Ran 12 tests" in said
    assert "\nOK\n" in said
    assert complaints(said) == []
    # Nor a log of SQLite, which the next database of that name would read.
    assert list(tested.folder.glob("test*")) == []


@pytest.mark.long
@pytest.mark.parametrize("more", [["-n0"], ["-n2"]], ids=["alone", "parallel"])
def test_pytest_django_ends_without_a_complaint(tested: Site, more: list[str]) -> None:
    said = tested.run(
        "-W", "always::ResourceWarning", "-m", "pytest", "-c", "/dev/null", "--rootdir", str(ROOT), "-p", "no:cacheprovider",
        "-p", "no:asyncio", *more, "tests/django/project/shop/tests.py",
    )  # fmt: skip

    assert "12 passed" in said
    assert complaints(said) == []
