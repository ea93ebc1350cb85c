"""The `sqlite:` store: keeps jobs in one file; `store.py` has the store object."""
