# shop.py
from tenure import App, Backoff, Context, Fail, Retry

app = App("sqlite:///shop.db")


@app.task(queue="mail", retry=Backoff(initial=10, maximum=300), max_attempts=5, timeout=30)
async def send_receipt(order: int) -> str:
    return f"receipt for order {order}"


@app.task
def charge(card: str) -> str:
    if card == "expired":
        raise Fail("the card has expired")
    if card == "slow":
        raise Retry("the bank is busy", after=5)
    return "paid"


@app.task
def resize(ctx: Context, widths: list[int]) -> int:
    for done, width in enumerate(widths):
        ctx.signal.raise_if_aborted()
        ctx.progress(done, len(widths), f"{width} px")
    return len(widths)
