"""Derives events from what stores are asked and answer, and delivers them to listeners, watchers and the log."""
