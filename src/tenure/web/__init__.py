"""The dashboard: `dashboard(app, auth=…)` is an ASGI app that shows a store in a browser and lets operators act."""

from __future__ import annotations

from tenure.web.access import OPEN, Identity
from tenure.web.site import dashboard

__all__ = ["OPEN", "Identity", "dashboard"]
