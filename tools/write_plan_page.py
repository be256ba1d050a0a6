"""Write the picture and the table of the page on planning.

    python tools/write_plan_page.py

draws the plan of the bundled words into ``docs/_static/plan.png``, and writes what
``benchmarks/results/plan.json`` has into ``docs/_generated/plan.md``. No number is typed by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from markdown_table import markdown

import unspot
from unspot.datasets import load_glove_gender
from unspot.report.figures import save

ROOT = Path(__file__).resolve().parent.parent
HEAD = ["data", "planned", "means still apart", "linear attacker"]


def main() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "plan.json").read_text())
    (ROOT / "docs" / "_generated" / "plan.md").write_text(table(found))
    words = load_glove_gender()
    X, z = (np.concatenate([getattr(split, part) for split in words]) for part in ("X", "z"))
    picture = unspot.plan(X, z, max_advantage=0.05, quick_path=True).figure()
    save(picture, ROOT / "docs" / "_static" / "plan.png", dpi=130)


def table(found: dict[str, Any]) -> str:
    """A line for each number of rows, in points."""
    cells = {key: value for key, value in found.items() if key != "versions"}
    rows = [
        (key, *(f"{100 * cell[what]:.1f}" for what in ("planned", "apart", "attacker")))
        for key, cell in cells.items()
    ]
    return markdown(HEAD, rows) + "\n"


if __name__ == "__main__":
    main()
