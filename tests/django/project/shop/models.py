"""Order: rows that tasks are about."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    name = models.CharField(max_length=100)

    def __str__(self) -> str:
        return str(self.name)
