# hworker_reports.py
import os

from msgspec import Struct

from tenure import App, Retry
from tenure.bridges import Hworker

app = App("sqlite:///reports.db", log=False)
hworker = Hworker(app, os.environ.get("REDIS_URL", "redis://localhost:6379/0"))


class Monthly(Struct, tag_field="tag"):  # {"tag": "Monthly", "month": 3}, as Haskell's generic JSON has it
    month: int


class Yearly(Struct, tag_field="tag"):
    year: int


seen: list[Monthly | Yearly] = []


@hworker.queue("reports", timeout=120, on_exception="fail")
def report(job: Monthly | Yearly) -> None:
    seen.append(job)
    print("report", job)
    if job == Monthly(3) and seen.count(job) == 1:
        raise Retry  # to the back of the queue, behind the year
    if job == Monthly(13):
        raise ValueError("no such month")  # to the list of failures


def main() -> None:
    for job in (Monthly(3), Monthly(13), Yearly(2026)):
        hworker.enqueue("reports", job)  # for Haskell workers and for the bridge
    hworker.worker(concurrency=1).run(until_empty=True)
    for done in sorted(app.jobs(queue="hworker:reports"), key=lambda each: each.id):
        print(done.state, done.error.type if done.error else done.result())


if __name__ == "__main__":
    main()
