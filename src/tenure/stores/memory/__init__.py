"""Jobs in the memory of this process: for tests, and as the readable reference of the store contract."""

from tenure.stores.memory.data import Data
from tenure.stores.memory.store import MemoryStore

__all__ = ["Data", "MemoryStore"]
