"""Copy Vega, Vega-Lite and Vega-Embed into the package, with all licences that they need.

Needs npm and the npm registry. Run it after changing ``VERSIONS``:

    python tools/vendor_charts.py
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

VERSIONS = {"vega": "6.4.0", "vega-lite": "6.5.0", "vega-embed": "7.3.0"}
STATIC = Path(__file__).parents[1] / "unspot" / "report" / "static"

#: Dependencies of command-line programs that are not in the bundles.
NOT_BUNDLED = {
    *("ansi-regex", "ansi-styles", "cliui", "commander", "emoji-regex", "escalade"),
    *("get-caller-file", "get-east-asian-width", "iconv-lite", "rw", "safer-buffer"),
    *("string-width", "strip-ansi", "wrap-ansi", "y18n", "yargs", "yargs-parser"),
}

README = """\
# Charts of the report

The report draws its charts with Vega-Lite, so that one HTML file needs no network. These are the
bundles of the npm packages, unchanged, brought here by `tools/vendor_charts.py`:

{table}

`LICENSES.txt` holds the licences of these packages and of the packages bundled in them.
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wanted = [f"{name}@{version}" for name, version in VERSIONS.items()]
        command = ["npm", "install", "--prefix", folder, "--ignore-scripts", "--no-audit", *wanted]
        subprocess.run(command, check=True)
        modules = Path(folder) / "node_modules"
        STATIC.mkdir(exist_ok=True)
        rows = ["| file | package | sha256 |", "|---|---|---|"]
        for name, version in VERSIONS.items():
            file = STATIC / f"{name}.min.js"
            shutil.copyfile(modules / name / "build" / file.name, file)
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            rows.append(f"| `{file.name}` | {name}@{version} | `{digest}` |")
        (STATIC / "README.md").write_text(README.format(table="\n".join(rows)), encoding="utf-8")
        (STATIC / "LICENSES.txt").write_text(licences(modules), encoding="utf-8")


def licences(modules: Path) -> str:
    """Every licence text once, with the packages that have it."""
    carried: dict[str, list[str]] = {}
    for package in sorted(modules.glob("*/package.json")):
        about = json.loads(package.read_text(encoding="utf-8"))
        if about["name"] in NOT_BUNDLED:
            continue
        texts = sorted(package.parent.glob("LICEN[CS]E*"))
        text = texts[0].read_text(encoding="utf-8").strip() if texts else about["license"]
        carried.setdefault(text, []).append(f"{about['name']}@{about['version']}")
    return "\n\n".join(f"{', '.join(names)}\n\n{text}" for text, names in carried.items()) + "\n"


if __name__ == "__main__":
    main()
