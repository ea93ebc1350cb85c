from __future__ import annotations

import os

from tenure.core.after_fork import forget_after_fork


class Holder:
    def __init__(self, *, broken: bool = False) -> None:
        self.forgotten = False
        self.broken = broken
        forget_after_fork(self)

    def forget(self) -> None:
        if self.broken:
            raise RuntimeError("cannot forget")
        self.forgotten = True


def forgotten_in_a_child(*holders: Holder) -> bool:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if all(holder.forgotten for holder in holders) else 1)
    return os.waitpid(pid, 0)[1] == 0


def test_a_forked_child_forgets_and_its_parent_does_not() -> None:
    holder = Holder()

    assert forgotten_in_a_child(holder)
    assert not holder.forgotten


def test_one_that_cannot_forget_does_not_keep_the_others_from_it() -> None:
    broken, before, after = Holder(broken=True), Holder(), Holder()

    assert forgotten_in_a_child(before, after)
    assert broken.broken
