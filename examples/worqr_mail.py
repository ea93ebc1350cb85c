# worqr_mail.py
import os

from tenure import App
from tenure.bridges import Worqr
from tenure.errors import UniqueConflict

app = App("sqlite:///mail.db", log=False)
worqr = Worqr(app, os.environ.get("REDIS_URL", "redis://localhost:6379/0"))


@worqr.queue("mail")
def mail(task: bytes) -> object:  # exactly the bytes that a client of Worqr has enqueued
    if b"@" not in task:
        raise ValueError("no address")
    return {"sent": task.decode()}  # clients hear it as the result of the task


def main() -> None:
    worqr.enqueue("mail", "ann@example.org", "bob", unique=True)  # for workers of Worqr and of the bridge
    try:
        worqr.enqueue("mail", "bob", unique=True)
    except UniqueConflict as conflict:
        print(conflict)
    worqr.worker(concurrency=1).run(until_empty=True)
    for job in sorted(app.jobs(queue="worqr:mail"), key=lambda job: job.id):
        print(job.state, job.error.message if job.error else job.result())
    worqr.enqueue("mail", "bob", unique=True)  # it has finished, so it may come again
    print("cancelled:", worqr.cancel("mail", "bob"))


if __name__ == "__main__":
    main()
