"""Tests of the Django integration, on real servers; each store has a process of its own, because Django is set up once."""
