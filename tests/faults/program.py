"""What the worker processes of these tests import."""

from __future__ import annotations

import os

from .tasks import make_app

app = make_app(os.environ["FAULTS_URL"], os.environ["FAULTS_FOLDER"])
