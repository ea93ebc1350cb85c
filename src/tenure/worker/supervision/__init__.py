"""Supervision: keeps several worker processes running, and replaces those that end."""
