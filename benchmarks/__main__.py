"""Run the benchmarks, print their results and write them as JSON: ``make bench``."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from unspot.machine import versions

#: Run by default: minutes. All others are run by name.
QUICK = ("density", "ratios")
RESULTS = Path(__file__).parent / "results"


def main(names: list[str]) -> None:
    for name in names or QUICK:
        module = import_module(f"benchmarks.{name}")
        print(f"\n{name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        figures = module.run()
        for key, value in figures.items():
            print(f"  {key:40} {_short(value)}", flush=True)
        RESULTS.mkdir(exist_ok=True)
        text = json.dumps({"versions": versions(), **figures}, indent=1, default=str)
        (RESULTS / f"{name}.json").write_text(text + "\n")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main(sys.argv[1:])
