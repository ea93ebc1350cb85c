# hooked_jobs.py
import functools
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tenure import App, Context, Enqueueing
from tenure.errors import EnqueueRefused

app = App("sqlite:///archive.db", retry=None)
say = functools.partial(print, flush=True)  # several processes share the output


class Archive:
    """A job as a class: its queue, its function, and its hooks."""

    queue = "files"

    @staticmethod
    def perform(folder: str) -> str:
        if folder == "endless":
            Path("begun").touch()
            time.sleep(3600)
        return f"{folder}.zip"

    @staticmethod
    def before_enqueue(call: Enqueueing) -> bool:
        return call.args != ("/",)  # False refuses the job: nothing is stored

    @staticmethod
    def around_perform(ctx: Context, call_next: Callable[[], str]) -> str:
        say(f"  {ctx.job.task} begins")
        return call_next()

    @staticmethod
    def on_failure(ctx: Context, error: BaseException, final: bool) -> None:
        say(f"  {ctx.job.task} failed with {type(error).__name__}, {final=}")


archive = app.task(name="archive", queue=Archive.queue, isolation="process")(Archive.perform)  # a fork for each job
archive.before_enqueue(Archive.before_enqueue)
archive.around_perform(Archive.around_perform)
archive.on_failure(Archive.on_failure)


@app.before_first_fork
def load() -> None:
    say("  loaded once, for all children")


@app.worker_exit
def leave() -> None:
    say("  the worker leaves")


def main() -> None:
    try:
        archive.enqueue("/")
    except EnqueueRefused:
        say("not the whole disk")
    command = [sys.executable, "-m", "tenure", "work", f"{__file__}:app", "--queues", "files"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as worker:
        say(archive.enqueue("photos").result(timeout=20))
        endless = archive.enqueue("endless")
        while not Path("begun").exists():
            time.sleep(0.05)
        worker.send_signal(signal.SIGUSR1)  # kills the child; the worker continues
        while not endless.refresh().done:
            time.sleep(0.05)
        worker.send_signal(signal.SIGQUIT)  # the worker finishes its jobs, then stops
    say(f"exit status {worker.returncode};", endless.error and endless.error.message.partition(":")[0])


if __name__ == "__main__":
    main()
