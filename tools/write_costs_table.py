"""Write the table of what every method costs, from the results of the benchmark.

    python tools/write_costs_table.py

reads ``benchmarks/results/costs.json`` and writes ``docs/_generated/costs.md``. No number is typed
by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from markdown_table import markdown

from unspot.lab.tables import display_name

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "costs.json"
PAGE = ROOT / "docs" / "_generated" / "costs.md"


def main() -> None:
    PAGE.write_text(table(json.loads(RESULT.read_text())))


def table(found: dict[str, Any]) -> str:
    """The fastest fit first."""
    costs = sorted(found["methods"].items(), key=lambda item: item[1]["fit, processor seconds"])
    rows = [
        (
            display_name(name),
            _seconds(cost["fit, processor seconds"]),
            _seconds(cost["apply, processor seconds per million rows"]),
            f"{cost['bytes'] / 1e3:,.0f}",
        )
        for name, cost in costs
    ]
    head = (
        "method",
        f"fit of {found['rows']:,} × {found['features']}, s",
        "to apply, s per million rows",
        "eraser, kB",
    )
    return markdown(head, rows) + "\n"


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 10 else f"{value:.0f}"


if __name__ == "__main__":
    main()
