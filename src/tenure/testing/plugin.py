"""The pytest plugin: the fixture `jobs`, the setting `tenure_app` and the marker `tenure`.

It imports nothing else of Tenure until a fixture is used, because pytest loads it in every project that has Tenure installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.testing.kits import Kit

__all__ = ["jobs", "tenure_app"]

MARKER = "tenure(store='memory', at=None, schedules=False, system=False): how the fixture jobs is set up; see tenure.testing.kit"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tenure_app", "the app of the fixture jobs, as module:name, for example shop:app", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def tenure_app(request: pytest.FixtureRequest) -> App:
    """The app of the fixture `jobs`: the one that the setting `tenure_app` names. Define a fixture of this name to choose another."""
    from tenure.testing.loading import load_app

    return load_app(request.config.getini("tenure_app"), request.config.rootpath)


@pytest.fixture
def jobs(request: pytest.FixtureRequest, tenure_app: App) -> Iterator[Kit]:
    """The app on a store of the test's own, whose clock stands still: see `tenure.testing.Kit`."""
    from tenure.testing.kits import kit

    marker = request.node.get_closest_marker("tenure")
    with kit(tenure_app, **(marker.kwargs if marker is not None else {})) as made:
        yield made
