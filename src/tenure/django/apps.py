"""The configuration of the app `tenure.django`: makes the tables after `migrate`, and lets go of test databases."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

__all__ = ["TenureConfig"]


class TenureConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """`INSTALLED_APPS = [..., "tenure.django"]`."""

    name = "tenure.django"
    label = "tenure"
    verbose_name = "Tenure"

    def ready(self) -> None:
        """Connect to what Django says about its databases."""
        from tenure.django.databases import let_go_of_test_databases, make_tables

        def migrated(*, using: str, verbosity: int = 1, stdout: Any = None, **_: Any) -> None:
            if make_tables(using) and verbosity >= 1:
                print(f"  Tables of Tenure are up to date in {using!r}.", file=stdout)

        post_migrate.connect(migrated, sender=self, weak=False, dispatch_uid="tenure.django")
        let_go_of_test_databases()
