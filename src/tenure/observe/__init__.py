"""Observes stores: derives events from calls and answers, and delivers them to listeners, watchers and the log."""
