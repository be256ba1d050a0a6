"""Run the examples of a page, and write what they print back into it.

    python tools/refresh_outputs.py docs/quickstart.md

All ``python`` blocks of a page run in one session, and each ``bash`` block runs in a shell, all in
one temporary folder. The ``text`` block after such a block, or the text between
``<!-- printed -->`` and ``<!-- end -->``, is replaced by the output. Blocks marked ``py`` and
``sh`` are not run. So the numbers in the docs always come from a run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BLOCK = re.compile(
    r"^```(?P<language>python|bash)\n(?P<code>.*?)^```\n(?P<gap>\s*)"
    r"(?:(?P<open>^```text\n|^<!-- printed -->\n)(?P<old>.*?)(?P<close>^```\n|^<!-- end -->\n))?",
    re.MULTILINE | re.DOTALL,
)


def refreshed(page: str) -> str:
    """Fill the page with the outputs of its examples."""
    session: dict[str, Any] = {"__name__": "__main__"}

    def replace(block: re.Match[str]) -> str:
        run = _python if block["language"] == "python" else _bash
        printed = run(block["code"], session)
        if block["open"] is None:
            return block[0]
        before = block[0].removesuffix(block["old"] + block["close"])
        return before + printed + block["close"]

    return BLOCK.sub(replace, page)


def _python(code: str, session: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<example>", "exec"), session)
    return _clean(printed.getvalue())


def _bash(code: str, session: dict[str, Any]) -> str:
    own = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": own, "COLUMNS": "100"}
    done = subprocess.run(
        ["bash", "-e", "-c", code], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise SystemExit(f"This example failed:\n{code}\n{done.stderr}")
    return _clean(done.stdout)


def _clean(printed: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())


def main() -> None:
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    for page in pages:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            text = refreshed(page.read_text(encoding="utf-8"))
        page.write_text(text, encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
