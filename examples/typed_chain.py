# typed_chain.py
from dataclasses import dataclass
from datetime import date

import apsw

from tenure import App, Context, Done, Next, Wait

app = App("sqlite:///trips.db")
trip = app.flow("trip", lookup=["traveller"])


@dataclass
class Leg:
    to: str
    day: date


@app.task
async def quote(leg: Leg) -> int:  # converted back by its annotation, and checked when it is enqueued
    return 100 * len(leg.to)


@trip.step
async def plan(legs: list[Leg]) -> Next:
    return Next(approve).using(after=[quote.bind(leg) for leg in legs])  # blocked until all of them have succeeded


@trip.step
async def approve(traveller: str, results: list[int]) -> Wait | Next:
    print(f"{traveller} asks for {sum(results)}")
    return Wait() if sum(results) > 500 else Next(book, price=sum(results))  # parked until it is completed


@trip.step
def book(ctx: Context, traveller: str, price: int) -> None:
    with ctx.complete() as tx:  # the row, the result and the end of the run: all or nothing
        tx.execute("INSERT INTO bookings VALUES (?, ?)", traveller, price)
        tx.result = Done(f"{traveller} travels for {price}")


if __name__ == "__main__":
    app.queues()  # opens the store and creates its tables
    database = apsw.Connection("trips.db")
    database.set_busy_timeout(10_000)  # without it, a busy database raises at once
    database.execute("CREATE TABLE IF NOT EXISTS travellers (name TEXT)")
    database.execute("CREATE TABLE IF NOT EXISTS bookings (traveller TEXT, price INTEGER)")
    legs = [Leg("Oslo", date(2027, 1, 4)), Leg("Rome", date(2027, 1, 8))]
    with database:  # the traveller and the run: both, or neither
        database.execute("INSERT INTO travellers VALUES ('ann')")
        run = trip.using(connection=database, unique="ann").start(traveller="ann", legs=legs)
    app.worker().run(until_empty=True)

    run.refresh()
    print(f"waits in {run.step}: {run.state}")
    run.complete(Next(book, price=650))  # from outside, without a worker
    app.worker().run(until_empty=True)
    print(run.result(), database.execute("SELECT * FROM bookings").fetchall())
    print([step.name for step in run.steps()])
