"""A Django project for tests: its settings come from the environment."""
