"""The store for jobs in PostgreSQL."""
