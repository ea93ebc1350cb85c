"""Signature: the parameters of a task's function, its result type, and the positions of its context and `results`."""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenure.core.codec import ResultCodec
from tenure.core.outcome import Answer
from tenure.tasks.context import Context

__all__ = ["ResultsParameter", "Signature"]


class Signature:
    """The signature of one function.

    An annotation that is missing or cannot be resolved counts as Any.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        whole = inspect.signature(function)
        self.hints = _hints(function)
        self.result = _without_answers(self.hints.get("return", Any))
        self.context = next((name for name in whole.parameters if _is_context(self.hints.get(name))), None)
        """Name of the parameter that takes the context; None if there is none."""

        self.call = whole.replace(parameters=[p for p in whole.parameters.values() if p.name != self.context])
        """The signature as callers of the task see it, without the context."""

        self.results_parameter = ResultsParameter.find_in(self.call, self.hints)
        self._context_at = _position(whole, self.context) if self.context is not None else 0

    def with_context(self, args: tuple[Any, ...], kwargs: dict[str, Any], ctx: Context | None) -> tuple[Any, ...]:
        """Insert the context into the positional arguments, or into `kwargs` if fewer are passed than stand before it."""
        assert self.context is not None
        if len(args) >= self._context_at:
            return (*args[: self._context_at], ctx, *args[self._context_at :])
        kwargs[self.context] = ctx
        return args


class ResultsParameter:
    """The parameter `results` of a function. It receives the results of the jobs in `after`, in their order."""

    def __init__(self, annotation: Any, position: int, required: bool) -> None:
        self.required = required
        """True if the parameter has no default."""

        self._position = position
        self._results = ResultCodec(annotation, 0)

    @classmethod
    def find_in(cls, call: inspect.Signature, hints: Mapping[str, Any]) -> ResultsParameter | None:
        """The parameter `results` of this signature; None if it has none that can be passed by name."""
        parameter = call.parameters.get("results")
        if parameter is None or parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            return None
        return cls(hints.get("results", Any), _position(call, "results"), required=parameter.default is parameter.empty)

    def fill(self, args: tuple[Any, ...], kwargs: dict[str, Any], results: Sequence[str | None]) -> None:
        """Add `results` to the arguments, unless the caller has passed it.

        They are converted by the annotation if they fit it; one of them may be a failure, which does not.
        """
        if len(args) <= self._position and "results" not in kwargs and (results or self.required):
            texts = ["null" if text is None else text for text in results]
            kwargs["results"] = self._results.decode(f"[{','.join(texts)}]")


def _hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    plain = inspect.unwrap(function)
    names = getattr(plain, "__globals__", {})
    hints: dict[str, Any] = {}
    # One by one, because an annotation that cannot be resolved must not spoil the others.
    for name, annotation in inspect.get_annotations(plain).items():
        alone = types.SimpleNamespace(__annotations__={name: annotation})
        with contextlib.suppress(Exception):  # most often a name that only type checkers know
            hints |= typing.get_type_hints(alone, names, include_extras=True)
    return hints


def _is_context(annotation: Any) -> bool:
    return annotation is Context or Context in typing.get_args(annotation)


def _position(whole: inspect.Signature, name: str) -> int:
    """The index of this parameter among positional arguments; `sys.maxsize` if it is keyword-only."""
    if whole.parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
        return sys.maxsize
    return list(whole.parameters).index(name)


def _without_answers(annotation: Any) -> Any:
    """The annotation of a result without answers such as `Retry`, which a function may return instead."""
    if typing.get_origin(annotation) not in {types.UnionType, typing.Union}:
        return Any if isinstance(annotation, type) and issubclass(annotation, Answer) else annotation
    kept = [kind for kind in typing.get_args(annotation) if not (isinstance(kind, type) and issubclass(kind, Answer))]
    return typing.Union[tuple(kept)] if kept else Any  # noqa: UP007 - built, not written
