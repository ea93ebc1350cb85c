"""The public names are there, although each is imported only when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tenure


@pytest.mark.parametrize("name", tenure.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(tenure, name) is getattr(tenure, name)
    assert name in dir(tenure)


def test_all_of_them_are_imported_by_a_star() -> None:
    names: dict[str, object] = {}

    exec("from tenure import *", names)

    assert set(tenure.__all__) <= names.keys()


def test_errors_are_found_without_an_import_of_their_own() -> None:
    code = "import tenure; print(tenure.errors.TenureError.__name__, tenure.App.__name__)"

    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "TenureError App\n"


def test_a_name_that_there_is_not_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="'tenure' has no attribute 'Appp'"):
        tenure.Appp  # type: ignore[attr-defined]  # noqa: B018
