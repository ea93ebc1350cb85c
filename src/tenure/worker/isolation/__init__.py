"""Isolation: runs each attempt of a task in a child process."""
