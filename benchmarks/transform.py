"""Time and memory to erase files, compared with the least work that is possible.

There are two comparisons, each a ratio within one run:

- ``product``: an eraser with d = 768 is applied to a ``.npy`` file, and compared with only the
  matrix product on rows that are already in memory.
- ``by_hand``: the same for d = 256, compared with simple numpy code that reads, multiplies and
  writes in chunks, but does not check, rename or sync. Threads and processes as workers are
  compared on the same file, cut into parts.

``python -m benchmarks.transform [--rows N] [--rows-by-hand N]`` prints JSON. Each measurement runs
in a separate process, so that its peak memory can be measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

CHUNK = 8192  # rows at a time, for the programs that have no chunks of their own


def run(
    rows: int = 1_000_000,
    rows_by_hand: int = 2_000_000,
    *,
    repeats: int = 3,
    folder: str | None = None,
) -> dict[str, Any]:
    """Measure both, with files of ``rows`` × 768 and ``rows_by_hand`` × 256 numbers.

    Parameters
    ----------
    rows, rows_by_hand : int
        The sizes: 3 GB and 2 GB (twice that on disk) by default.
    repeats : int
        Number of runs; each time is their median. The compared programs take turns.
    folder : str, optional
        Where to make the temporary folder.
    """
    with tempfile.TemporaryDirectory(dir=folder) as name:
        product = _against_product(Path(name), rows, 768, repeats)
        by_hand = _against_hand(Path(name), rows_by_hand, 256, repeats)
    return {"product": product, "by_hand": by_hand}


def _against_product(folder: Path, rows: int, d: int, repeats: int) -> dict[str, Any]:
    _make(folder, rows, d)
    found = _turns(folder, rows, d, ["product", "transform"], repeats)
    (folder / "x.npy").unlink()
    return {
        "rows": rows,
        "features": d,
        "seconds": {name: one["seconds"] for name, one in found.items()},
        "speed_of_product": found["product"]["seconds"] / found["transform"]["seconds"],
        "peak_megabytes": found["transform"]["peak_megabytes"],
        "target": "speed_of_product ≥ 0.5, peak_megabytes < 1000",
    }


def _against_hand(folder: Path, rows: int, d: int, repeats: int) -> dict[str, Any]:
    _make(folder, rows, d, parts=4)
    names = ["by_hand", "by_hand_synced", "transform", "threads", "processes"]
    found = _turns(folder, rows, d, names, repeats)
    seconds = {name: one["seconds"] for name, one in found.items()}
    return {
        "rows": rows,
        "features": d,
        "seconds": seconds,
        "speed_of_hand": seconds["by_hand"] / seconds["transform"],
        "speed_of_synced_hand": seconds["by_hand_synced"] / seconds["transform"],
        "threads_against_processes": seconds["processes"] / seconds["threads"],
        "peak_megabytes": found["transform"]["peak_megabytes"],
        "target": "speed_of_hand ≥ 0.6, peak_megabytes < 600",
    }


def _turns(folder: Path, rows: int, d: int, names: list[str], repeats: int) -> dict[str, Any]:
    """Run each program in turn, several times, in separate processes; the medians."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            command = [sys.executable, "-m", "benchmarks.transform", "--child"]
            command += [name, str(folder), str(rows), str(d)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs[name].append(json.loads(done.stdout))
    return {
        name: {
            "seconds": median(one["seconds"] for one in several),
            "peak_megabytes": max(one["peak_megabytes"] for one in several),
        }
        for name, several in runs.items()
    }


def _make(folder: Path, rows: int, d: int, parts: int = 0) -> None:
    """A file of random rows, an eraser that keeps half of the dimensions, and the file in parts."""
    import numpy as np

    from unspot import Eraser

    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(d, d // 2)))[0]
    Eraser.projection(U).save(folder / "eraser.safetensors")
    block = rng.standard_normal((CHUNK, d), dtype=np.float32)
    (folder / "parts").mkdir(exist_ok=True)
    bounds = [(folder / "x.npy", rows)]
    bounds += [(folder / "parts" / f"{i}.npy", rows // parts) for i in range(parts)]
    for path, n in bounds:
        with path.open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (n, d)}
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, n, CHUNK):
                block[: min(CHUNK, n - start)].tofile(file)


# -- the compared programs, each in a separate process ---------------------------------------------


def _product(folder: Path, rows: int, d: int) -> None:
    import numpy as np

    from unspot import load

    P = load(folder / "eraser.safetensors").P.astype(np.float32)
    X = np.random.default_rng(0).standard_normal((CHUNK, d), dtype=np.float32)
    out = np.empty_like(X)
    with _clock():
        for start in range(0, rows, CHUNK):
            n = min(CHUNK, rows - start)
            np.matmul(X[:n], P, out=out[:n])


def _transform(folder: Path, rows: int, d: int) -> None:
    from unspot import load
    from unspot.scale import Erasure, transform_file

    erasure = Erasure(load(folder / "eraser.safetensors"))
    target = folder / "clean.npy"
    with _clock():
        transform_file(erasure, folder / "x.npy", target)
    target.unlink()


def _by_hand(folder: Path, rows: int, d: int, synced: bool = False) -> None:
    import numpy as np

    from unspot import load

    P = load(folder / "eraser.safetensors").P.astype(np.float32)
    target = folder / "hand.npy"
    with _clock():
        X = np.load(folder / "x.npy", mmap_mode="r")
        with target.open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (rows, d)}
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, rows, CHUNK):
                (X[start : start + CHUNK] @ P).tofile(file)
            if synced:
                file.flush()
                os.fsync(file.fileno())
    target.unlink()


def _by_hand_synced(folder: Path, rows: int, d: int) -> None:
    _by_hand(folder, rows, d, synced=True)


def _threads(folder: Path, rows: int, d: int) -> None:
    import shutil

    from unspot import load
    from unspot.scale import Erasure, transform_files

    erasure = Erasure(load(folder / "eraser.safetensors"))
    with _clock():
        transform_files(erasure, [folder / "parts"], folder / "clean", workers=2)
    shutil.rmtree(folder / "clean")


def _process(folder: Path, name: str) -> None:
    from threadpoolctl import threadpool_limits

    from unspot import load
    from unspot.scale import Erasure
    from unspot.scale.files import erase_file

    erasure = Erasure(load(folder / "eraser.safetensors"))
    with threadpool_limits(1):
        erase_file(erasure, folder / "parts" / name, folder / "clean" / name, hashed=True)


def _processes(folder: Path, rows: int, d: int) -> None:
    import shutil
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    (folder / "clean").mkdir()
    names = sorted(path.name for path in (folder / "parts").iterdir())
    with _clock(), ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(_process, [folder] * len(names), names))
    shutil.rmtree(folder / "clean")


class _clock:
    """Prints the seconds inside, and the peak of resident memory."""

    def __enter__(self) -> None:
        self.started = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        seconds = time.perf_counter() - self.started
        print(json.dumps({"seconds": seconds, "peak_megabytes": _peak_megabytes()}))


def _peak_megabytes() -> float:
    # Not getrusage: its maximum is inherited from the parent.
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


CONTESTANTS: dict[str, Callable[[Path, int, int], None]] = {
    "product": _product,
    "transform": _transform,
    "by_hand": _by_hand,
    "by_hand_synced": _by_hand_synced,
    "threads": _threads,
    "processes": _processes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rows-by-hand", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, folder, rows, d = options.child
        CONTESTANTS[name](Path(folder), int(rows), int(d))
        return
    found = run(options.rows, options.rows_by_hand, repeats=options.repeats, folder=options.folder)
    print(json.dumps(found, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
