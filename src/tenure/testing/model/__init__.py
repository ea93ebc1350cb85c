"""The store contract once more, as simply as it can be said, for comparing real stores with it.

Nothing here is fast or shared with a store: one list of jobs, looked through from end to end for every question. It answers
what a store must answer, and `snapshot` says all that can be seen of it from outside.
"""

from tenure.testing.model.data import Refusal
from tenure.testing.model.store import Model

__all__ = ["Model", "Refusal"]
