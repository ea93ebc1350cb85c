"""What the worker processes import that run tasks in every lane."""

from __future__ import annotations

import os

from . import lanes, poison
from .tasks import make_app

app = make_app(os.environ["FAULTS_URL"], os.environ["FAULTS_FOLDER"])
lanes.register(app, os.environ["FAULTS_FOLDER"])
poison.register(app)
