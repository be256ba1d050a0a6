"""Fits on files that are larger than the memory in use: time, memory, and growth with n and d.

- ``leace``: LEACE on a ``.npy`` file of 2M × 256 float32, compared with numpy code that reads the
  same chunks and multiplies XᵀX in the same dtype.
- ``leopard``: LEOPARD on that file, compared with the same fit on only its row budget, in memory.
- ``every_row``: the peak memory of LEOPARD as it is by default, which reads a million rows in every
  step; after a few steps, since more of them take no more memory.
- ``by_rows``, ``by_features``: both methods, and the transform, at five sizes of n and of d.

``python -m benchmarks.scale --every-row`` measures only that, and adds it to the results. Each
measurement runs in a separate process, so that its peak memory can be measured. The compared
programs take turns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

CHUNK = 16_384  # rows of one product, as in unspot.data.statistics
EVALUATIONS = 12  # per fit: the same for all, so that times can be compared
EVERY_ROW_EVALUATIONS = 3
RESULTS = Path(__file__).parent / "results" / "scale.json"
BUDGET = 8192


def run(
    rows: int = 2_000_000,
    features: int = 256,
    *,
    repeats: int = 3,
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024),
    rows_of_widths: int = 200_000,
    folder: str | None = None,
) -> dict[str, Any]:
    """Run all measurements.

    Parameters
    ----------
    rows, features : int
        The size of the file: 2 GB by default.
    repeats : int
        Number of runs; each time is their median.
    widths, rows_of_widths : tuple of int, int
        The five values of d, and the n for all of them.
    folder : str, optional
        Where to make the temporary folder.
    """
    with tempfile.TemporaryDirectory(dir=folder) as name:
        file = Path(name) / "x.npy"
        _make(file, rows, features)
        found = _turns(["multiply", "leace", "budget", "leopard"], file, rows, features, repeats)
        memory = _every_row_memory(file, rows, features)
        sizes = [rows // 16, rows // 8, rows // 4, rows // 2, rows]
        by_rows = [_growth(file, n, features, repeats) for n in sizes]
        file.unlink()
        by_features = []
        for d in widths:
            _make(file, rows_of_widths, d)
            by_features.append(_growth(file, rows_of_widths, d, repeats))
            file.unlink()
    return {
        "rows": rows,
        "features": features,
        "threads": _threads(),
        "budget_rows": BUDGET,
        "evaluations": EVALUATIONS,
        "seconds": {name: one["seconds"] for name, one in found.items()},
        "leace_speed_of_reading_and_multiplying": _ratio(found, "multiply", "leace"),
        "leace_peak_megabytes": found["leace"]["peak_megabytes"],
        "leopard_times_its_budget_alone": _ratio(found, "leopard", "budget"),
        "leopard_peak_megabytes": found["leopard"]["peak_megabytes"],
        **memory,
        "leace_growth_per_row": _growth_rate(by_rows, "leace"),
        "leopard_growth_per_row": _growth_rate(by_rows, "leopard"),
        "by_rows": by_rows,
        "by_features": by_features,
        "target": "leace_speed ≥ 0.7, leopard_times ≤ 1.5, leopard_peak < 1500, growth ≤ 1",
    }


def every_row(rows: int, features: int) -> dict[str, Any]:
    """Measure only the memory of a fit on every row, and add it to the results."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "x.npy"
        _make(file, rows, features)
        return {**json.loads(RESULTS.read_text()), **_every_row_memory(file, rows, features)}


def _every_row_memory(file: Path, rows: int, features: int) -> dict[str, Any]:
    found = _turns(["every_row"], file, rows, features, repeats=1)["every_row"]
    return {
        "every_row_peak_megabytes": found["peak_megabytes"],
        "every_row_evaluations": EVERY_ROW_EVALUATIONS,
    }


def _ratio(found: dict[str, Any], top: str, bottom: str) -> float:
    return float(found[top]["seconds"] / found[bottom]["seconds"])


def _growth_rate(by_rows: list[dict[str, Any]], name: str) -> float:
    """Compute the growth exponent of time between the two largest n; 1 is linear."""
    from math import log

    small, large = by_rows[-2], by_rows[-1]
    return log(large[name] / small[name]) / log(large["rows"] / small["rows"])


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _growth(file: Path, n: int, d: int, repeats: int) -> dict[str, Any]:
    """Measure seconds of every method for one n and d."""
    found = _turns(["leace", "leopard", "transform"], file, n, d, repeats)
    return {"rows": n, "features": d} | {name: one["seconds"] for name, one in found.items()}


def _turns(names: list[str], file: Path, n: int, d: int, repeats: int) -> dict[str, Any]:
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            command = [sys.executable, "-m", "benchmarks.scale", "--child", name, str(file)]
            done = subprocess.run(
                [*command, str(n), str(d)], check=True, capture_output=True, text=True
            )
            runs[name].append(json.loads(done.stdout.splitlines()[-1]))
    return {
        name: {
            "seconds": median(one["seconds"] for one in several),
            "peak_megabytes": max(one["peak_megabytes"] for one in several),
        }
        for name, several in runs.items()
    }


def _make(file: Path, rows: int, d: int) -> None:
    """Write random rows of two classes that differ in means and variances."""
    import numpy as np

    rng = np.random.default_rng(0)
    with file.open("wb") as out:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, d)}
        np.lib.format.write_array_header_1_0(out, header)
        for start in range(0, rows, CHUNK):
            n = min(CHUNK, rows - start)
            block = rng.standard_normal((n, d), dtype=np.float32)
            block[_labels(rows)[start : start + n] == 1, : d // 8] *= 1.5
            block[_labels(rows)[start : start + n] == 1, -1] += 0.5
            block.tofile(out)


def _labels(n: int) -> Any:
    import numpy as np

    return np.arange(n) % 2


# -- the compared programs, each in a separate process ---------------------------------------------


def _multiply(file: Path, n: int, d: int) -> float:
    """Read every row and multiply XᵀX, the least that LEACE must do."""
    import numpy as np

    total = np.zeros((d, d), np.float32)
    began = time.perf_counter()
    rows = np.load(file, mmap_mode="r")
    for start in range(0, n, CHUNK):
        X = np.array(rows[start : min(start + CHUNK, n)])
        total += X.T @ X
    return time.perf_counter() - began


def _leace(file: Path, n: int, d: int) -> float:
    from unspot import LEACE

    return _fitted(LEACE(), file, n)


def _estimator(d: int) -> Any:
    from unspot import LEOPARD
    from unspot.leopard import ManifoldSolver

    # Without patience, so that every fit takes the same number of evaluations.
    solver = ManifoldSolver(max_evaluations=EVALUATIONS, patience=10**6, max_rows=BUDGET)
    return LEOPARD(rank=min(125, d // 2), solver=solver, random_state=0)


def _leopard(file: Path, n: int, d: int) -> float:
    return _fitted(_estimator(d), file, n)


def _every_row(file: Path, n: int, d: int) -> float:
    from unspot import LEOPARD
    from unspot.leopard import ManifoldSolver

    solver = ManifoldSolver(max_evaluations=EVERY_ROW_EVALUATIONS)
    return _fitted(LEOPARD(rank=min(125, d // 2), solver=solver, random_state=0), file, n)


def _fitted(estimator: Any, file: Path, n: int) -> float:
    import numpy as np

    from unspot.io import sources as streams

    streams.LOAD_BYTES = 0  # the small sizes stay on disk too, so that all take the same path
    _warm(estimator)
    rows, z = np.load(file, mmap_mode="r")[:n], _labels(n)
    began = time.perf_counter()
    estimator.fit(rows, z)
    return time.perf_counter() - began


def _warm(estimator: Any) -> None:
    """Fit a few rows, so that imports and allocations are not measured."""
    import numpy as np
    from sklearn.base import clone

    rows = np.random.default_rng(0).normal(size=(300, 256)).astype(np.float32)
    clone(estimator).fit(rows, _labels(300))


def _budget(file: Path, n: int, d: int) -> float:
    """Fit only the rows that LEOPARD uses, which are already in memory."""
    import numpy as np

    from unspot.data.rows import sample_and_held_out

    z = _labels(n)
    looked_at = np.sort(np.concatenate(sample_and_held_out(z, BUDGET, np.random.default_rng(0))))
    rows = np.array(np.load(file, mmap_mode="r")[looked_at])
    _warm(_estimator(256))
    began = time.perf_counter()
    _estimator(d).fit(rows, z[looked_at])
    return time.perf_counter() - began


def _transform(file: Path, n: int, d: int) -> float:
    """Erase the rows and write them, with ``transform_file``."""
    import numpy as np

    from unspot import Eraser
    from unspot.scale import Erasure, transform_file

    part, target = file.with_name("part.npy"), file.with_name("clean.npy")
    source = file
    if len(np.load(file, mmap_mode="r")) != n:
        np.save(part, np.load(file, mmap_mode="r")[:n])
        source = part
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(d, min(125, d // 2))))[0]
    began = time.perf_counter()
    transform_file(Erasure(Eraser.projection(U)), source, target)
    seconds = time.perf_counter() - began
    target.unlink()
    part.unlink(missing_ok=True)
    return seconds


CONTESTANTS = {
    "multiply": _multiply,
    "leace": _leace,
    "leopard": _leopard,
    "every_row": _every_row,
    "budget": _budget,
    "transform": _transform,
}


def _child(name: str, file: str, n: str, d: str) -> None:
    import resource

    seconds = CONTESTANTS[name](Path(file), int(n), int(d))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak_megabytes": peak}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", nargs=4, metavar=("NAME", "FILE", "ROWS", "FEATURES"))
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rows-of-widths", type=int, default=200_000)
    parser.add_argument("--every-row", action="store_true")
    options = parser.parse_args()
    if options.child:
        _child(*options.child)
    elif options.every_row:
        RESULTS.write_text(json.dumps(every_row(options.rows, 256), indent=1) + "\n")
    else:
        figures = run(options.rows, rows_of_widths=options.rows_of_widths)
        print(json.dumps(figures, indent=1))
