# at_least_once.py
import json

import apsw

from tenure import App, Context, Fail, Retention, Retry

app = App("sqlite:///mail.db", retry=None, keep=Retention(count=1000), log=False)  # exceptions fail; 1,000 are kept


@app.task(queue="mail", lease=120, renew=None, max_losses=None)  # a worker that takes longer counts as dead
def send(ctx: Context, to: str) -> str:
    if "@" not in to:
        raise Fail(f"{to!r} is no address")  # not run again
    if ctx.attempt == 1:
        raise Retry("the server is busy", after=0)  # to the back of the queue, at once
    return f"sent to {to}"


if __name__ == "__main__":
    ann, bob = send.enqueue_many([("ann@example.org",), ("bob",)])
    with apsw.Connection("mail.db") as database:  # a producer in any language: it needs no client
        database.set_busy_timeout(10_000)  # without it, a busy database raises at once
        for entry in (json.dumps({"task": "send", "args": ["eve@example.org"]}), "<mail to='joe'/>"):
            database.execute("INSERT INTO tenure_inbox (queue, entry) VALUES ('mail', ?)", [entry])
    app.worker(["mail"]).run(until_empty=True)  # a worker is a monitor too

    for job in reversed(app.jobs(queue="mail")):
        print(f"{job.state:9}", job.result() if job.state == "succeeded" else job.error and job.error.message)
    print("attempts:", ", ".join(f"{attempt.number} {attempt.outcome}" for attempt in ann.attempts()))
    [broken] = app.jobs(state="broken")
    print("kept as it came:", broken.record and broken.record.payload)
    bob.retry()  # at the back of the queue, as if it were new
    app.worker(["mail"]).run(until_empty=True)
    print("bob", bob.refresh().state, "again;", f"in all {app.stats().totals.failed} failed")
