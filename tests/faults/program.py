"""What the worker processes of these tests import."""

from __future__ import annotations

import os
import time

from .tasks import make_app

_skew, _true = float(os.environ.get("FAULTS_SKEW") or 0), time.time
time.time = lambda: _true() + _skew

app = make_app(os.environ["FAULTS_URL"], os.environ["FAULTS_FOLDER"])
