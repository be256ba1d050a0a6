"""Write the figures of the page on scale from the results of the benchmarks.

    python tools/write_scale_page.py

reads ``benchmarks/results/{scale,transform}.json`` and writes
``docs/_generated/scale_figures.md``, ``docs/_generated/scale_estimate.md`` and
``docs/_static/scale.png``. No number is typed by hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_table import markdown
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
GENERATED = ROOT / "docs" / "_generated"
PICTURE = ROOT / "docs" / "_static" / "scale.png"

Figures = dict[str, Any]
METHODS = {"leace": "LEACE, fit", "leopard": "L̄EOPARD, fit", "transform": "transform"}


def main() -> None:
    scale, transform = (
        json.loads((RESULTS / f"{name}.json").read_text()) for name in ("scale", "transform")
    )
    GENERATED.mkdir(exist_ok=True)
    (GENERATED / "scale_figures.md").write_text(measured(scale, transform))
    (GENERATED / "scale_estimate.md").write_text(estimate(scale, Cluster()))
    curves(scale).savefig(PICTURE, dpi=130)


# -- measurements ---------------------------------------------------------------------------


def measured(scale: Figures, transform: Figures) -> str:
    """Every target of the benchmarks, with the result."""
    n, d = scale["rows"], scale["features"]
    product, by_hand = transform["product"], transform["by_hand"]
    rows = [
        (
            "fit of LEACE, speed relative to reading and XᵀX only",
            f"{n:,} × {d}",
            _times(scale["leace_speed_of_reading_and_multiplying"]),
            "≥ 0.70",
        ),
        (
            "fit of L̄EOPARD, time relative to its row budget in memory",
            f"{n:,} × {d}",
            _times(scale["leopard_times_its_budget_alone"]),
            "≤ 1.50",
        ),
        (
            "fit of L̄EOPARD, peak memory",
            f"{n:,} × {d}",
            _megabytes(scale["leopard_peak_megabytes"]),
            "< 1,500 MB",
        ),
        (
            "fit of L̄EOPARD that reads a million rows in every step, peak memory",
            f"{n:,} × {d}",
            _megabytes(scale["every_row_peak_megabytes"]),
            "< 1,500 MB",
        ),
        (
            "transform, speed relative to simple numpy code",
            f"{by_hand['rows']:,} × {by_hand['features']}",
            _times(by_hand["speed_of_hand"]),
            "≥ 0.60",
        ),
        (
            "transform, peak memory",
            f"{by_hand['rows']:,} × {by_hand['features']}",
            _megabytes(by_hand["peak_megabytes"]),
            "< 600 MB",
        ),
        (
            "transform, speed relative to the matrix product only",
            f"{product['rows']:,} × {product['features']}",
            _times(product["speed_of_product"]),
            "≥ 0.50",
        ),
        (
            "transform, peak memory",
            f"{product['rows']:,} × {product['features']}",
            _megabytes(product["peak_megabytes"]),
            "< 1,000 MB",
        ),
        (
            "growth of LEACE's time with n (1 is linear)",
            f"up to {n:,}",
            f"{scale['leace_growth_per_row']:.2f}",
            "≤ 1",
        ),
        (
            "growth of L̄EOPARD's time with n",
            f"up to {n:,}",
            f"{scale['leopard_growth_per_row']:.2f}",
            "≤ 1",
        ),
    ]
    head = ["what", "size", "measured", "target"]
    return markdown(head, rows) + "\n\n" + _growth(scale)


def _growth(scale: Figures) -> str:
    by_n = [
        (f"{row['rows']:,}", *(f"{row[name]:.2f}" for name in METHODS)) for row in scale["by_rows"]
    ]
    by_d = [
        (f"{row['features']:,}", *(f"{row[name]:.2f}" for name in METHODS))
        for row in scale["by_features"]
    ]
    n = scale["by_features"][0]["rows"]
    names = list(METHODS.values())
    return "\n".join(
        [
            f"Seconds for different n, with d = {scale['features']}, on {scale['threads']} cores. "
            f"L̄EOPARD has a budget of {scale['budget_rows']:,} rows and "
            f"{scale['evaluations']} evaluations:",
            "",
            markdown(["n", *names], by_n),
            "",
            f"Seconds for different d, with n = {n:,}:",
            "",
            markdown(["d", *names], by_d),
            "",
        ]
    )


def curves(scale: Figures) -> Figure:
    """Seconds against n and against d, both axes logarithmic."""
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, rows, key in (
        (left, scale["by_rows"], "rows"),
        (right, scale["by_features"], "features"),
    ):
        for name, title in METHODS.items():
            axes.loglog([r[key] for r in rows], [r[name] for r in rows], "o-", label=title, ms=4)
        sizes = [r[key] for r in rows]
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
        axes.set_yticks([0.1, 0.2, 0.5, 1, 2, 5, 10], ["0.1", "0.2", "0.5", "1", "2", "5", "10"])
        axes.minorticks_off()
        axes.grid(linewidth=0.4, alpha=0.5)
        axes.set_ylabel("seconds")
    left.set_xlabel(f"rows n, at d = {scale['features']}")
    right.set_xlabel(f"features d, at n = {scale['by_features'][0]['rows']:,}")
    left.legend(frameon=False, fontsize=8)
    return figure


# -- a worked estimate ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Cluster:
    """The assumptions of the estimate."""

    rows: int = 10**9
    features: int = 1024
    machines: int = 8
    cores: int = 16
    #: Bytes that a machine reads or writes per second.
    disk: float = 1e9

    @property
    def bytes(self) -> int:
        return self.rows * self.features * 4


def estimate(scale: Figures, cluster: Cluster) -> str:
    """Time for a billion rows, from the measured rates at the same d."""
    at = next(r for r in scale["by_features"] if r["features"] == cluster.features)
    cores = cluster.machines * cluster.cores
    per_core = {
        name: at["rows"] / at[name] / scale["threads"] for name in ("leace", "transform")
    }  # rows per second
    reading = cluster.bytes / (cluster.machines * cluster.disk)
    rows = []
    for name, title, passes in (("leace", "class statistics, for LEACE", 1), _TRANSFORM):
        computing = cluster.rows / (per_core[name] * cores)
        rows.append(
            (
                title,
                f"{per_core[name]:,.0f} rows/s",
                _duration(computing),
                _duration(passes * reading),
                _duration(max(computing, passes * reading)),
            )
        )
    head = ["step", "measured, per core", "computing", "disk", "total"]
    return "\n".join(
        [
            f"{cluster.rows:,} × {cluster.features} numbers in float32 are "
            f"{cluster.bytes / 1e12:.1f} TB. The estimate is for {cluster.machines} machines with "
            f"{cluster.cores} cores, each with a disk (or a network share) of "
            f"{cluster.disk / 1e9:.0f} GB/s:",
            "",
            markdown(head, rows),
            "",
            f"L̄EOPARD itself runs on one machine. It takes {at['leopard']:.0f} s for "
            f"{scale['evaluations']} evaluations on {scale['budget_rows']:,} rows with "
            f"d = {cluster.features} on {scale['threads']} cores, for any n. A complete fit takes "
            "some 30 evaluations (16 to 86 in benchmarks/results/choosing.json).",
            "",
            "These assumptions were not measured:",
            "",
            "- the rate per core stays the same when all cores of a machine work (memory bandwidth "
            "may be the limit);",
            "- the files are spread evenly over the machines;",
            "- reading, computing and writing overlap, so only the slowest of them counts;",
            "- no time is lost to slow machines, scheduling or failures.",
            "",
            "The rates were measured on the cores of a shared two-core virtual machine.",
            "",
        ]
    )


_TRANSFORM = ("transform", "transform, with writing", 2)


# -- text ----------------------------------------------------------------------------------------


def _times(value: float) -> str:
    return f"{value:.2f} ×"


def _megabytes(value: float) -> str:
    return f"{value:,.0f} MB"


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    main()
