# order_flow.py
from tenure import App, Fail, Next

app = App("sqlite:///orders_flow.db")
order = app.flow("order", lookup=["customer"])


@order.step(then="charge", queue="stock")
async def reserve(sku: str, quantity: int) -> dict[str, str]:
    return {"reservation": f"{quantity} x {sku}"}  # merged into the attributes of the run


@order.step(queue="billing", max_attempts=5)
def charge(customer: str, quantity: int) -> Next:
    if customer == "unknown":
        raise Fail("there is no customer to charge")
    return Next(receipt, amount=quantity * 12)  # or by its name: the step decides what comes next


@order.step(queue="mail")
async def receipt(customer: str, reservation: str, amount: int) -> str:
    return f"{customer} has paid {amount} for {reservation}"  # the value of the last step is the run's result


if __name__ == "__main__":
    run = order.start(sku="lamp", quantity=2, customer="c1")
    app.worker().run(until_empty=True)
    print(run.result())
    print([f"{step.name} in {step.queue}: {step.state}" for step in run.steps()])
    print([found.id == run.id for found in order.find(customer="c1")])
