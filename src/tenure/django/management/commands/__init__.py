"""tenure: the command `manage.py tenure`."""
