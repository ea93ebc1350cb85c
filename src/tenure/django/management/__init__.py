"""Management of the project: the folder `commands` has what `manage.py` can do with this app."""
