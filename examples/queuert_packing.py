# queuert_packing.py
import os

from msgspec import Struct

from tenure import App, Reschedule
from tenure.bridges import Continue, Queuert

app = App("sqlite:///packing.db", log=False)  # any store
address = os.environ.get("QUEUERT_URL", "postgresql://localhost/shop")  # where Queuert has made its tables
queuert = Queuert(app, address, schema=os.environ.get("QUEUERT_SCHEMA", "public"), prefix="queuert_")


class Item(Struct):
    item: str
    arrives: float = 0  # seconds


@queuert.processor("pack", lease=60)
def pack(given: Item) -> dict[str, int] | Continue:
    if given.arrives:
        raise Reschedule(after=given.arrives)  # the row runs again then
    if given.item == "gift card":
        return {"weight": 0}  # ends the chain with this output
    return Continue("ship", {"weight": 4})  # the next job of the chain, for a processor here or in TypeScript


@queuert.processor("bill")
def bill(given: str, results: list[dict[str, int]]) -> str:  # `results`: the outputs of its blockers
    return f"{given} pays for {sum(each['weight'] for each in results)} kg"


if __name__ == "__main__":
    queuert.start("pack", {"item": "lamp"})  # as a program in TypeScript would start it
    queuert.start("pack", {"item": "gift card"})
    queuert.worker(["pack"]).run(until_empty=True)

    for job in sorted(app.jobs(task="queuert:pack"), key=lambda job: job.id):
        print(job.state, job.result())
