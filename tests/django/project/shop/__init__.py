"""The one app of the project: a model and tasks."""
