"""No models: Django sends the signal `post_migrate` only to apps that have this module."""
