"""Bridges: the clients of other systems, or traces of them, beside Tenure."""
