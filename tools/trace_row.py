"""The way of one row: which modules and functions of unspot run for three commands.

``python tools/trace_row.py`` makes a small Parquet file, runs ``unspot fit`` (a cascade), ``unspot
transform`` and ``unspot evaluate --html`` on it, each in a process of its own under
``sys.setprofile``, and counts what runs, and how often the Parquet file is opened.
``--list`` prints the modules in the order in which a row meets them, ``--functions`` the functions
too, ``--json FILE`` writes the counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROWS, FEATURES = 400, 12
COMMANDS = {
    "fit": "fit rows.parquet --features emb --concept gender --rank 6 --method cascade "
    "--seed 0 -o gender.safetensors --force",
    "transform": "transform gender.safetensors rows.parquet -o clean.parquet --force",
    "evaluate": "evaluate gender.safetensors rows.parquet --features emb --concept gender "
    "--task job --html page.html --set seeds=1",
}

#: Runs in the traced process: calls of functions in unspot's own files, in order of first call.
#: What runs while a module is imported (class bodies, decorators) is not on the way of a row.
TRACER = """
import json, os, sys, threading
import unspot
root = os.path.dirname(unspot.__file__) + os.sep
seen, opened = {}, 0
def importing(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(root):
            return True
        frame = frame.f_back
    return False
def watch(frame, event, argument):
    global opened
    if event == "call":
        code = frame.f_code
        opened += code.co_qualname == "ParquetFile.__init__"
        own = code.co_filename.startswith(root) and code.co_filename.endswith(".py")
        if own and code.co_flags & 1 and not importing(frame):
            name = code.co_filename[len(root):-3].replace(os.sep, ".")
            seen.setdefault(name.removesuffix(".__init__"), {}).setdefault(code.co_qualname, 0)
            seen[name.removesuffix(".__init__")][code.co_qualname] += 1
from unspot.cli import main
sys.argv = ["unspot", *json.loads(sys.argv[1])]
threading.setprofile(watch)
sys.setprofile(watch)
try:
    main()
except SystemExit as end:
    code = end.code
finally:
    sys.setprofile(None)
    threading.setprofile(None)
json.dump({"seen": seen, "opened": opened, "code": code}, open("trace.json", "w"))
"""

#: A row does not meet these: they import names.
SILENT = {"lazy"}


def trace(folder: Path, command: str) -> dict[str, dict[str, int]]:
    """Count calls of functions by module, in the order of the first call."""
    arguments = json.dumps(COMMANDS[command].split())
    run = subprocess.run(
        [sys.executable, "-c", TRACER, arguments], cwd=folder, capture_output=True, text=True
    )
    record = json.loads((folder / "trace.json").read_text()) if not run.returncode else {}
    if not record or record["code"] not in (0, None):
        raise SystemExit(f"unspot {command} failed:\n{run.stdout}{run.stderr}")
    for module in SILENT:
        record["seen"].pop(module, None)
    return record


def counts(record: dict[str, Any]) -> dict[str, int]:
    """Count modules, functions and openings of the Parquet file."""
    functions = sum(
        not name.rsplit(".", 1)[-1].startswith("<")
        for calls in record["seen"].values()
        for name in calls
    )
    return {"modules": len(record["seen"]), "functions": functions, "opened": record["opened"]}


def make_rows(path: Path) -> None:
    """Write vectors, a concept and a task into a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    gender, job = rng.integers(2, size=(2, ROWS))
    X = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    X[:, 0] += gender
    X[:, 1] *= 1 + gender
    X[:, 2] += 2 * job
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), FEATURES)
    names = {"gender": np.array(["f", "m"])[gender], "job": np.array(["a", "b"])[job]}
    pq.write_table(pa.table({"emb": vectors, **names}), path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_rows(folder / "rows.parquet")
        for command in COMMANDS:
            record = trace(folder, command)
            table[command] = counts(record)
            print(command, table[command])
            for module, calls in (
                record["seen"].items() if options.list or options.functions else ()
            ):
                print("   ", module, *([", ".join(calls)] if options.functions else []))
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
