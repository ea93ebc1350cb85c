# killed_worker.py
import subprocess
import sys
import time

from tenure import App

app = App("sqlite:///letters.db", lease=1, log=False)  # a silent worker keeps its jobs for a second


@app.task(queue="letters", raw=True, keep=0)  # bytes as they were enqueued; no record after the end
def deliver(letter: bytes) -> None:
    print("delivered", letter)


def peer() -> None:
    """Lease two letters by hand, and never finish them."""
    held = app.lease("letters", limit=2, wait=10)
    print("a peer holds", [each.job.payload for each in held], flush=True)
    time.sleep(3600)


def main() -> None:
    for letter in (b"first", b"", b"third", b"third"):
        deliver.enqueue(letter)
    with subprocess.Popen([sys.executable, __file__, "peer"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        print(process.stdout.readline(), end="")
        process.kill()
    print("and was killed; cancelled:", app.cancel(deliver.bind(b"third")))  # every job with equal bytes
    [dead] = app.workers()
    app.retire(dead.id, "it was killed")  # or wait for the second to pass
    app.worker(["letters"]).run(until_empty=True)  # the peer's jobs are at the front again, in their order
    print("left:", len(app.jobs(queue="letters", state="succeeded")))


if __name__ == "__main__":
    peer() if "peer" in sys.argv else main()
