"""`Model`: the store contract as simple code, with which the state machine compares real stores.

The model shares no code with a store, and is not fast: it has one list of jobs, and searches it from end to end for
every call. It gives the answers that a store must give, and `snapshot` shows all that callers can see of it.
"""

from tenure.testing.model.data import Refusal
from tenure.testing.model.store import Model

__all__ = ["Model", "Refusal"]
