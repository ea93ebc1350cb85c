"""Keeps jobs in a SQLite file; `store.py` has the store."""
