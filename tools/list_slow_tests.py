"""Write ``tests/slow_tests.txt``, the tests that ``make test-fast`` leaves out.

``python tools/list_slow_tests.py`` runs the whole suite once and lists every test function with a
case that takes longer than 0.15 seconds. ``--junit FILE`` reads the times of a run that was made
with ``pytest --junitxml FILE`` instead.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
LIST = ROOT / "tests" / "slow_tests.txt"
SECONDS = 0.15


def slow_tests(junit: Path) -> list[str]:
    """List ``file::function`` of slow tests, without parameters."""
    slow = set()
    for case in ElementTree.parse(junit).iter("testcase"):
        if float(case.get("time", 0)) > SECONDS:
            file = case.get("classname", "").replace(".", "/") + ".py"
            name = case.get("name", "").split("[")[0]
            if (ROOT / file).exists():  # doctests have other names, and are quick
                slow.add(f"{file}::{name}")
    return sorted(slow)


def run(junit: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n2", f"--junitxml={junit}"]
    ignored = ["--ignore", "tests/scale/test_ray.py"]
    subprocess.run(
        [*command, *ignored], cwd=ROOT, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--junit", type=Path)
    given = parser.parse_args().junit
    with tempfile.TemporaryDirectory() as folder:
        junit = given or Path(folder) / "times.xml"
        if given is None:
            run(junit)
        names = slow_tests(junit)
    LIST.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    print(f"{len(names)} slow tests in {LIST.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
