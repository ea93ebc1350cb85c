from django.db import models


class Order(models.Model):
    email = models.EmailField()
    copies = models.PositiveIntegerField(default=1)
    receipt = models.CharField(max_length=100, blank=True)

    def __str__(self) -> str:
        return f"order {self.pk} of {self.email}"
