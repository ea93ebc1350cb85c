# approval.py
from tenure import App, Done, Wait

app = App("sqlite:///approvals.db")
expense = app.flow("expense", lookup=["employee"])


@expense.step(then="decide")
async def ask(employee: str, amount: int) -> None:
    print(f"may {employee} spend {amount}?")


@expense.step(then="pay")
async def decide() -> Wait:
    return Wait(timeout=3 * 24 * 3600, on_timeout="remind")  # holds no worker until it is completed or times out


@expense.step(then="decide")
async def remind(employee: str) -> None:
    print(f"{employee} still waits")


@expense.step
async def pay(amount: int, approved: bool) -> Done:
    return Done(f"paid {amount}" if approved else "declined")


if __name__ == "__main__":
    run = expense.start(employee="ann", amount=80)
    app.worker().run(until_empty=True)
    run.complete({"approved": True})  # from a web page, a script, or `tenure complete`
    app.worker().run(until_empty=True)
    print(run.result())
