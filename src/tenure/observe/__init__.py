"""Observes stores: derives events from calls and answers, delivers them to listeners, watchers and the log; metrics."""
