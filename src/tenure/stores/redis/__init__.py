"""Keeps jobs in Redis or Valkey; `store.py` has the store."""
