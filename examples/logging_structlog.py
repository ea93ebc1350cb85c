# logging_structlog.py
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from tenure import App, Context

try:
    import structlog
except ImportError:
    sys.exit("this example needs structlog: pip install structlog")

app = App("sqlite:///structured.db", retry=None, log=False)  # the middleware logs instead
log = structlog.get_logger()


@app.middleware
async def bound(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    """Bind the job to every log line of an attempt, and log how the attempt ended."""
    with structlog.contextvars.bound_contextvars(task=ctx.job.task, job=ctx.job.id, attempt=ctx.attempt):
        try:
            value = await call_next()
        except Exception as error:
            log.warning("failed", error=str(error))
            raise
        log.info("done", value=value)
        return value


@app.task
async def count(words: str) -> int:
    log.info("counting", length=len(words))
    return len(words.split())


@app.task
def divide(a: int, b: int) -> float:
    log.info("dividing", a=a, b=b)  # in a thread: the bound values go with it
    return a / b


if __name__ == "__main__":
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.JSONRenderer(sort_keys=True),
        ]
    )
    app.enqueue(count.bind("to be or not"), divide.bind(1, 0))
    app.worker().run(until_empty=True)
