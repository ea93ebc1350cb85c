"""Log records on their way from a child process to its worker."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import logging, sys

plain = logging.getLogRecordFactory()
here = "child"

def factory(*args, **kwargs):
    record = plain(*args, **kwargs)
    record.made_in = here
    return record

logging.setLogRecordFactory(factory)

from tenure.worker.isolation.records import ForwardingHandler, log_here

sent = []
ForwardingHandler(sent.append).handle(logging.getLogger("shop").makeRecord("shop", 20, "", 0, "hello", (), None))
here = "worker"
logging.basicConfig(stream=sys.stdout, level=20, format="%(message)s from the %(made_in)s")
log_here(sent[0])
"""


def test_what_a_record_factory_has_put_in_before_anything_was_imported_arrives() -> None:
    assert subprocess.check_output([sys.executable, "-c", PROGRAM], text=True) == "hello from the child\n"
