"""Report: prints each figure as it comes, and all of them in a table at the end."""

from __future__ import annotations

from typing import Any

from engine import Engine
from rich.console import Console
from rich.table import Table

__all__ = ["Report", "milliseconds", "percentiles", "rate", "share"]

console = Console()


class Report:
    """The figures of one store."""

    def __init__(self, engine: Engine) -> None:
        self.rows: list[dict[str, Any]] = []
        self._engine = engine

    def add(self, what: str, tenure: str, bare: str = "", found: str = "", bar: str = "") -> None:
        """Add a figure: Tenure's, the bare engine's, the ratio found, and the name of its target in `Engine.bars`."""
        row = {"store": self._engine.name, "what": what, "tenure": tenure, "bare": bare, "found": found}
        row["bar"] = self._engine.bars.get(bar, bar)
        self.rows.append(row)
        console.print(f"[bold]{what}[/]  {tenure}  [dim]{bare}[/]  {found}  [dim]{row['bar']}[/]", highlight=False)

    def say(self, line: str) -> None:
        """Print a line that is not a figure."""
        console.print(line, style="dim")

    def show(self) -> None:
        """Print all figures as a table."""
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
