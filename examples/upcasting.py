# upcasting.py
from decimal import Decimal

from tenure import App

app = App("memory://", log=False)


@app.task(version=2)
def charge(customer: str, amount: Decimal, currency: str) -> str:
    return f"{amount} {currency} from {customer}"


@charge.upcast(1)  # jobs that were enqueued when it had no version, which is version 1
def _(customer: str, amount: float) -> dict[str, object]:
    return {"customer": customer, "amount": Decimal(str(amount)), "currency": "EUR"}


if __name__ == "__main__":
    old = app.remote("charge").enqueue("ann", 9.5)  # as the old code has enqueued it
    new = charge.enqueue("bob", Decimal("3.20"), "USD")
    app.worker().run(until_empty=True)
    print(old.result())
    print(new.result())
