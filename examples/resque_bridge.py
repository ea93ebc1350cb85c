# resque_bridge.py
import os

from tenure import App
from tenure.bridges import Resque

app = App("sqlite:///archives.db", log=False)  # any store
resque = Resque(app, os.environ.get("REDIS_URL", "redis://localhost:6379/0"))


@app.task(aliases=["Demo::Archive"])  # the class of the jobs; a task with its name needs no alias
def archive(repo: int, branch: str = "main") -> str:
    if branch == "gone":
        raise LookupError(f"{repo} has no branch {branch}")
    return f"{repo}/{branch}"


if __name__ == "__main__":
    resque.enqueue("Demo::Archive", 7, queue="archives")  # as Resque.enqueue: a Ruby worker may run it as well
    resque.enqueue("Demo::Archive", 7, "gone", queue="archives")

    notify = resque.remote("Notify", queue="mail")  # through the store of the app: in a transaction, delayed, unique
    pushed = notify.using(unique=True).enqueue(42)

    resque.worker(["archives"]).run(until_empty=True)

    for job in sorted(app.jobs(task="archive"), key=lambda job: job.id):
        print(job.state, job.error.message if job.error else job.result())
    print("pushed:", app.job(pushed.id).state)
