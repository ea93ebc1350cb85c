from bookshop.models import Order
from tenure import Backoff
from tenure.django import task


@task(queue_name="mail", max_attempts=5, retry=Backoff(initial=10), timeout=30)
def send_receipt(order_id: int) -> str:
    order = Order.objects.get(pk=order_id)
    order.receipt = f"{order.copies} copies for {order.email}"
    order.save()
    return order.receipt
