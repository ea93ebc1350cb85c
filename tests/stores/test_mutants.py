"""The conformance suite and the state machine can fail: each catches stores that break one rule."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RULE_MARKER, run_state_machine_as_test

from tenure.stores.memory import Data, MemoryStore
from tenure.testing.clock import ManualClock
from tenure.testing.conformance import StoreConformance
from tests.stores import consequence_mutants, measure_mutants, operator_mutants, run_mutants, schedule_mutants  # noqa: F401
from tests.stores.mutants import MUTANTS
from tests.stores.test_machine import MemoryMachine

QUICK = settings(
    stateful_step_count=50,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("name", MUTANTS)
async def test_the_suite_catches_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    mutant.mutate(monkeypatch)
    clock = ManualClock()
    data = Data(clock)
    store = MemoryStore(data)

    async def put_in(queue: str, entry: bytes) -> None:
        store.put_in(queue, entry)

    fixtures = {"store": store, "clock": clock, "make_store": lambda: MemoryStore(data), "put_in": put_in}
    test = getattr(StoreConformance(), mutant.caught_by)
    wanted = inspect.signature(test).parameters.keys()

    with pytest.raises((AssertionError, ValueError)):
        await test(**{key: value for key, value in (fixtures | mutant.arguments).items() if key in wanted})


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.machine == "always"])
def test_the_machine_catches_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    mutant.mutate(monkeypatch)
    _must_be_found(with_rules(*mutant.rules) if mutant.rules else MemoryMachine, 1000)


@pytest.mark.parametrize("rules", {mutant.rules: None for mutant in MUTANTS.values() if mutant.rules}, ids=" ".join)
def test_a_smaller_machine_finds_nothing_in_a_sound_store(rules: tuple[str, ...]) -> None:
    run_state_machine_as_test(with_rules(*rules), settings=settings(QUICK, max_examples=3))


LONG = [name for name, mutant in MUTANTS.items() if mutant.machine == "long" or mutant.rules]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", LONG)
def test_the_machine_catches_it_in_the_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name].mutate(monkeypatch)
    _must_be_found(MemoryMachine, 10_000)


def with_rules(*names: str) -> type[MemoryMachine]:
    """The machine with these rules only. It calls nothing else of its own accord, but compares everything as before."""
    rules = {name: member for name, member in inspect.getmembers(MemoryMachine) if hasattr(member, RULE_MARKER)}
    assert rules.keys() >= set(names)
    return type("SmallerMachine", (MemoryMachine,), {name: _not_a_rule(rules[name]) for name in rules.keys() - names})


def _not_a_rule(rule: Callable[..., None]) -> Callable[..., None]:
    return lambda *args, **options: rule(*args, **options)


def _must_be_found(machine: type[MemoryMachine], examples: int) -> None:
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(machine, settings=settings(QUICK, max_examples=examples))
