"""Print a map of the code: every module of Tenure, by room, with the first line of its docstring (`make map`)."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "tenure"


def first_line(module: Path) -> str:
    """The first line of a module's docstring; empty if it has none."""
    return (ast.get_docstring(ast.parse(module.read_text())) or "").partition("\n")[0]


def modules() -> dict[str, list[Path]]:
    """The modules of each folder, by the folder's path in the package. Empty files are left out."""
    found: dict[str, list[Path]] = {}
    for module in sorted(PACKAGE.rglob("*.py")):
        if module.read_text().strip():
            found.setdefault(module.parent.relative_to(PACKAGE).as_posix(), []).append(module)
    return found


def main() -> None:
    for room, files in sorted(modules().items()):
        print("tenure" if room == "." else f"tenure/{room}")
        for file in files:
            print(f"  {file.name:22} {first_line(file)}".rstrip())
        print()


if __name__ == "__main__":
    main()
