"""Hypothesis does not time the examples: the machine may be busy with the other tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
