"""What Django asks of a backend holds on every store: tests/django/project/contract.py, in a process for each."""

from __future__ import annotations

from .conftest import Site


def test_the_contract_of_django_holds(site: Site) -> None:
    said = site.run(
        "-m", "pytest", "-n0", "-p", "no:django", "-p", "no:cacheprovider", "--tb=short", "tests/django/project/contract.py"
    )  # fmt: skip

    assert " passed" in said
    assert " failed" not in said and " skipped" not in said
