# logging_standard_library.py
import logging
import sys

from tenure import App
from tenure.observe.logs import bind

app = App("sqlite:///logged.db")
log = logging.getLogger("shop")  # any logger, also that of a library that does not know Tenure


@app.task
async def on_the_loop() -> None:
    log.info("an async def")


@app.task
def in_a_thread() -> None:
    log.info("a plain def")


@app.task(isolation="process")
def in_a_process() -> None:
    log.info("a child process, and the handlers of its worker")


if __name__ == "__main__":
    form = "%(levelname)s %(name)s: %(message)s (job=%(job_id)s task=%(task)s attempt=%(attempt)s)"
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format=form)
    bind()  # adds the job to every record that goes through the handlers of the root logger
    logging.getLogger("tenure").setLevel(logging.ERROR)  # hides Tenure's own lines
    log.info("nothing runs yet")
    app.enqueue(on_the_loop.bind(), in_a_thread.bind(), in_a_process.bind())
    app.worker().run(until_empty=True)
