"""`StoreMachine`: a Hypothesis state machine that compares stores with the model and with each other, call by call.

    class MyMachine(StoreMachine):
        def open(self) -> Mapping[str, Party]: ...

    TestMyStore = MyMachine.TestCase

Every call goes to each store under test. All must give the answer of the model, and after each call everything that
callers can see of them must be as the model shows it. The machine keeps leases that are settled or lost, and uses them
again.
"""

from tenure.testing.machine.comparison import Party
from tenure.testing.machine.rules import StoreMachine

__all__ = ["Party", "StoreMachine"]
