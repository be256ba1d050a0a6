"""Write the tables of the page on concepts, from the results of the benchmark.

    python tools/write_concepts_tables.py

reads ``benchmarks/results/concepts.json`` and writes ``docs/_generated/concepts_*.md``. No number
is typed by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from markdown_table import markdown

ROOT = Path(__file__).resolve().parent.parent
DATA = {
    "synthetic": "synthetic",
    "tweets": "tweets",
    "bios": "biographies",
    "even": "even biographies",
}


def main() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "concepts.json").read_text())
    for name, table in (
        ("number", number(found)),
        ("several", several(found)),
        ("given", of_ways(found, "given")),
        ("given_rows", given_rows(found)),
        ("keep", of_ways(found, "keep")),
        ("step", step(found)),
        ("unlabelled", unlabelled(found)),
    ):
        (ROOT / "docs" / "_generated" / f"concepts_{name}.md").write_text(table)


def number(found: dict[str, Any]) -> str:
    rows = []
    for data in ("words", "names"):
        for name, cell in found.get(f"number_{data}", {}).items():
            least = "–" if name == "before" else f"{cell['LEACE at this A_50']:.3f}"
            figures = (f"{cell['R2']:.3f}", f"{cell['A_50']:.3f}", least, f"{cell['seconds']:.1f}")
            rows.append((data, name, *figures))
    head = ["data", "method", "R² of the best regressor", "A_50%", "LEACE at this A_50%"]
    return markdown([*head, "CPU seconds"], rows)


def several(found: dict[str, Any]) -> str:
    rows = []
    for key, title in DATA.items():
        cells = found.get(f"several_{key}", {})
        for way in ("together", "in a row") if cells else ():
            cell = dict(cells[way])
            kept, seconds = cell.pop("A_50"), cell.pop("seconds")
            leaks = ", ".join(f"{name} {value:.3f}" for name, value in cell.items())
            rows.append((title, way, leaks, f"{kept:.3f}", f"{seconds:.1f}"))
        errors = found.get(f"several_{key}, standard errors")
        if errors:
            way = "together less in a row"
            *leaks, kept = (
                f"{name} {value:+.3f} ± {errors[way][name]:.3f}"
                for name, value in cells[way].items()
            )
            rows.append((title, way, ", ".join(leaks), kept.removeprefix("A_50 "), ""))
    return markdown(["data", "fits", "left of each concept", "A_50%", "CPU seconds"], rows)


def of_ways(found: dict[str, Any], part: str) -> str:
    rows, head = [], []
    for key, title in DATA.items():
        for way, cell in found.get(f"{part}_{key}", {}).items():
            head = ["data", "erased by", *cell]
            rows.append((title, way, *(f"{value:.3f}" for value in cell.values())))
    return markdown(head, rows)


def given_rows(found: dict[str, Any]) -> str:
    rows = [
        (
            f"{cell['rows']:,.0f}",
            name.split(", ")[1],
            f"{cell['RMS TPR gap']:.3f}",
            f"{cell['accuracy']:.3f}",
        )
        for name, cell in found["given_rows"].items()
    ]
    return markdown(["fitted on rows", "erased by", "RMS TPR gap", "accuracy"], rows)


def unlabelled(found: dict[str, Any]) -> str:
    rows = [
        (*name.split(", "), *(f"{value:.3f}" for value in cell.values()))
        for name, cell in found["unlabelled"].items()
    ]
    return markdown(
        ["method", "labels", "fitted on", "strongest attacker", "linear attacker", "A_50%"], rows
    )


def step(found: dict[str, Any]) -> str:
    rows = [
        (name, f"{cell['ratio']:.2f}", f"{cell['allowed']:.2f}")
        for name, cell in found["step"].items()
    ]
    return markdown(["", "times the step with two classes", "(1 + m/r) · 1.3"], rows)


if __name__ == "__main__":
    main()
