"""For tests: of programs that use Tenure, and of stores."""

from tenure.testing.attempt import context

__all__ = ["context"]
