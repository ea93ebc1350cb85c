from django.test import TestCase

from bookshop.models import Order
from tenure.django.testing import forget_tasks, run_tasks


class OrderTest(TestCase):
    def setUp(self) -> None:
        forget_tasks()

    def test_an_order_gets_its_receipt(self) -> None:
        placed = self.client.post("/orders/", {"email": "ann@example.org", "copies": 2}).json()
        self.assertEqual(self.client.get(f"/receipts/{placed['receipt']}/").json()["status"], "READY")

        run_tasks()

        found = self.client.get(f"/receipts/{placed['receipt']}/").json()
        self.assertEqual(found, {"status": "SUCCESSFUL", "receipt": "2 copies for ann@example.org"})
        self.assertEqual(Order.objects.get(pk=placed["order"]).receipt, found["receipt"])
