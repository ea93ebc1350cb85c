"""What worker processes import that all take themselves for the first process of a container of the same name."""

from __future__ import annotations

import os
from types import SimpleNamespace

from tenure.core import identity

from .tasks import make_app

identity.socket = SimpleNamespace(gethostname=lambda: "box")  # type: ignore[attr-defined, assignment]
identity.os = SimpleNamespace(getpid=lambda: 1)  # type: ignore[attr-defined, assignment]

app = make_app(os.environ["FAULTS_URL"], os.environ["FAULTS_FOLDER"])
