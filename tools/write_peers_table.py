"""Write the table of the page that compares packages, from the results of the benchmark.

    python tools/write_peers_table.py

reads ``benchmarks/results/peers.json`` and writes ``docs/_generated/peers.md``. No number is typed
by hand.
"""

from __future__ import annotations

import json
from pathlib import Path

from markdown_table import markdown

ROOT = Path(__file__).resolve().parent.parent
HEAD = (
    *("eraser", "fit, CPU ms", "erase, CPU ms"),
    *("linear attacker, %", "strongest attacker, %", "A_50%"),
)


def main() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "peers.json").read_text())
    rows = [
        (
            name,
            f"{1000 * cell['fit_seconds']:,.0f}",
            f"{1000 * cell['erase_seconds']:,.1f}",
            f"{100 * cell['linear']:.1f}",
            f"{100 * cell['strongest']:.1f} ({cell['attacker']})",
            f"{cell['A_50']:.2f}",
        )
        for name, cell in found.items()
        if isinstance(cell, dict) and "strongest" in cell
    ]
    (ROOT / "docs" / "_generated" / "peers.md").write_text(markdown(HEAD, rows) + "\n")


if __name__ == "__main__":
    main()
