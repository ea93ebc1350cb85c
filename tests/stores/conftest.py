import pytest

pytest.register_assert_rewrite("tenure.testing.conformance", "tenure.testing.machine")
