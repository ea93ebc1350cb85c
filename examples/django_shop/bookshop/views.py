from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from bookshop.models import Order
from bookshop.tasks import send_receipt


@csrf_exempt
def place(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        order = Order.objects.create(email=request.POST["email"], copies=request.POST["copies"])
        result = send_receipt.using(priority=10).enqueue(order.pk)  # exists if the order does
    return JsonResponse({"order": order.pk, "receipt": result.id})


def receipt(_: HttpRequest, id_: str) -> JsonResponse:
    result = send_receipt.get_result(id_)
    text = result.return_value if result.status == "SUCCESSFUL" else None  # errors has those of earlier attempts too
    return JsonResponse({"status": result.status, "receipt": text})
