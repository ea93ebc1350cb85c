# pydantic_models.py
import sys
from datetime import date
from decimal import Decimal

from tenure import App
from tenure.errors import JobFailed, PayloadError

try:
    from pydantic import BaseModel, ConfigDict, Field
except ImportError:
    sys.exit("this example needs pydantic: pip install pydantic")

app = App("memory://", log=False)


class Line(BaseModel):
    sku: str
    quantity: int = Field(ge=1)


class Order(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")  # "7" is no number, and no field is ignored
    number: int
    due: date
    lines: list[Line]


class Invoice(BaseModel):
    order: int
    total: Decimal


@app.task
def bill(order: Order, price: Decimal) -> Invoice:
    return Invoice(order=order.number, total=price * sum(line.quantity for line in order.lines))


@app.task
def bill_nothing(order: int) -> Invoice:
    return {"order": order}  # type: ignore[return-value]  # a mapping may stand for a model, if it fits


lamps = Order(number=7, due=date(2030, 1, 2), lines=[Line(sku="lamp", quantity=2)])
billed = bill.enqueue(lamps, price=Decimal("9.90"))

# A model that has become wrong is refused where it is enqueued. What another program sends is read by the worker.
wrong = lamps.model_copy(update={"lines": [lamps.lines[0].model_copy(update={"quantity": 0})]})
try:
    bill.enqueue(wrong, price=Decimal(1))
except PayloadError as error:
    print(error)
sent = app.remote("bill").enqueue({"number": "7", "due": "2030-01-02", "lines": []}, price="1")
unfit = bill_nothing.enqueue(8)

app.worker().run(until_empty=True)
print(repr(billed.result()))
for job in (sent, unfit):
    try:
        job.result()
    except JobFailed as error:
        print(f"{job.state}: {error.message}")
