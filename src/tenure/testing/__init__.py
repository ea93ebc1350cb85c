"""Helpers for tests: `context` for tests of tasks; `conformance`, `model` and `machine` for tests of stores."""

from tenure.testing.attempt import context

__all__ = ["context"]
