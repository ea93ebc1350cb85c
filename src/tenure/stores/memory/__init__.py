"""`MemoryStore` keeps jobs in this process: for tests, and as a readable implementation of the contract."""

from tenure.stores.memory.data import Data
from tenure.stores.memory.store import MemoryStore

__all__ = ["Data", "MemoryStore"]
