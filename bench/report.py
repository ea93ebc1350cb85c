"""Figures as they are shown: printed as they come, and in one table at the end."""

from __future__ import annotations

from typing import Any

from engine import Engine
from rich.console import Console
from rich.table import Table

__all__ = ["Report", "milliseconds", "percentiles", "rate", "share"]

console = Console()


class Report:
    """The figures of one store so far, printed as they come and kept for the end."""

    def __init__(self, engine: Engine) -> None:
        self.rows: list[dict[str, Any]] = []
        self._engine = engine

    def add(self, what: str, tenure: str, bare: str = "", found: str = "", bar: str = "") -> None:
        """One figure: Tenure's, the bare engine's, what comes of it, and which bar of the engine it is to reach."""
        row = {"store": self._engine.name, "what": what, "tenure": tenure, "bare": bare, "found": found}
        row["bar"] = self._engine.bars.get(bar, bar)
        self.rows.append(row)
        console.print(f"[bold]{what}[/]  {tenure}  [dim]{bare}[/]  {found}  [dim]{row['bar']}[/]", highlight=False)

    def say(self, line: str) -> None:
        """Tell something that is no figure."""
        console.print(line, style="dim")

    def show(self) -> None:
        """Everything, as a table."""
        table = Table("figure", "tenure", "bare engine", "found", "bar", title=f"Tenure on {self._engine.name}")
        for row in self.rows:
            table.add_row(row["what"], row["tenure"], row["bare"], row["found"], row["bar"])
        console.print(table)


def rate(value: float) -> str:
    return f"{value:,.0f}/s"


def milliseconds(value: float) -> str:
    return f"{value * 1000:.2f} ms"


def share(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.0%} of bare"


def percentiles(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
