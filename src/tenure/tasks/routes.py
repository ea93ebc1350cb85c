"""Which steps of a flow lead to which, as far as that can be seen without running them."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tenure.core.outcome import Next, Wait
from tenure.tasks.step import Step

__all__ = ["unreached"]

ANSWERS = (Next, Wait)
"""What may lead anywhere: `Next` by itself, `Wait` by whoever completes the step."""

FAR = 1000
"""Functions that are looked at for one step."""


def unreached(first: Step[..., Any], steps: Mapping[str, Step[..., Any]]) -> list[str]:
    """The steps that nothing leads to: no run can ever come there.

    A step leads to what its `then` and its `next` name. One without `next` leads to every step if its function, or one that it
    calls, so much as mentions `Next` or `Wait`: it is not known which it means, so nothing is said rather than something wrong.
    """
    reached: set[str] = set()
    ahead = [first.step_name]
    while ahead:
        name = ahead.pop()
        if name in reached:
            continue
        reached.add(name)
        step = steps[name]
        if step._leads_to is None and _may_choose(step.function):
            return []
        ahead += [each for each in (step._then, *(step._leads_to or ())) if each is not None]
    return [name for name in steps if name not in reached]


def _may_choose(function: Callable[..., Any]) -> bool:
    """Whether this function may give `Next` or `Wait`; in doubt it may."""
    seen: set[int] = set()
    ahead: list[object] = [function]
    while ahead:
        each = ahead.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if len(seen) > FAR:
            return True
        if any(each is answer for answer in ANSWERS) or _comes_with_answers(each):
            return True
        ahead += _behind(each)
        if isinstance(each, FunctionType):
            for code in _codes(each.__code__):
                if not {answer.__name__ for answer in ANSWERS}.isdisjoint(code.co_names) or _imports(code):
                    return True
                ahead += [each.__globals__[name] for name in code.co_names if name in each.__globals__]
            ahead += _closed_over(each)
    return False


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _imports(code: CodeType) -> bool:
    """Whether it imports something when it runs, of which nothing can be said now."""
    return any(instruction.opname == "IMPORT_NAME" for instruction in dis.get_instructions(code))


def _closed_over(function: FunctionType) -> list[object]:
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # it is filled later
            continue
    return found


def _behind(value: object) -> list[object]:
    """What is called when this is."""
    if isinstance(value, Step):
        return [value.function]
    found: list[object] = [value.func] if isinstance(value, functools.partial) else []
    found += [each for name in ("__wrapped__", "__func__") if (each := inspect.getattr_static(value, name, None))]
    return found


def _comes_with_answers(value: object) -> bool:
    """Whether it is an object, or a class, of a module that knows the answers: what its methods give is not looked at."""
    if isinstance(value, FunctionType | ModuleType | Step):
        return False
    kind = value if isinstance(value, type) else type(value)
    module = sys.modules.get(kind.__module__)
    if module is None or kind.__module__.partition(".")[0] == "tenure":
        return False
    return any(each in ANSWERS for each in vars(module).values() if isinstance(each, type))
