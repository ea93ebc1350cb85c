"""A Hypothesis state machine that compares stores with the model, step by step, and with each other.

    class MyMachine(StoreMachine):
        def open(self) -> Mapping[str, Party]: ...

    TestMyStore = MyMachine.TestCase

Every call goes to each store under test; all must give the answer that the model gives, and after each step everything that
can be seen of them from outside must be what the model shows. Leases are kept after they are settled or lost, and used again.
"""

from tenure.testing.machine.comparison import Party
from tenure.testing.machine.rules import StoreMachine

__all__ = ["Party", "StoreMachine"]
