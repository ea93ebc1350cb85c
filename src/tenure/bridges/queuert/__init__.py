"""The bridge to Queuert: its tables in PostgreSQL, its processors and its chains."""
