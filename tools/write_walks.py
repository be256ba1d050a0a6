"""Run the walks of ``tests/walks``, and write a how-to page of each, with what it printed.

    python tools/write_walks.py              # all pages
    python tools/write_walks.py labels_apart # one of them

A walk is a shell script. Its comments are the text of the page, and the commands between them are
its blocks. All blocks run in one folder, one after the other. ``docs/howto/*.md`` are never edited
by hand: ``tests/test_walks.py`` runs the walks, and fails if a page says anything else.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WALKS, PAGES = ROOT / "tests" / "walks", ROOT / "docs" / "howto"


def blocks(walk: str) -> Iterator[tuple[bool, str]]:
    """Split a walk into texts and blocks of commands.

    Examples
    --------
    >>> list(blocks("# # Title\\n#\\n# Text.\\nls\\npwd\\n"))
    [(True, '# Title\\n\\nText.'), (False, 'ls\\npwd')]
    """
    kind, lines, until = True, list[str](), ""
    for line in walk.splitlines():
        is_text = not until and (line == "#" or line.startswith("# "))
        if is_text != kind and lines:
            yield kind, "\n".join(lines).strip("\n")
            lines = []
        kind = is_text
        lines.append(line[2:] if is_text else line)
        if not until and (found := re.search(r"<<'(\w+)'", line)):
            until = found[1]
        elif line == until:
            until = ""
    yield kind, "\n".join(lines).strip("\n")


def page(walk: Path) -> str:
    """Run a walk, and write its page with what each block printed."""
    parts = [f"<!-- Made by tools/write_walks.py from tests/walks/{walk.name}. -->"]
    with tempfile.TemporaryDirectory() as folder:
        for is_text, part in blocks(walk.read_text(encoding="utf-8")):
            if is_text:
                parts.append(part)
                continue
            parts.append(f"```sh\n{part}\n```")
            if printed := _run(part, Path(folder)):
                parts.append(f"```text\n{printed}```")
    return "\n\n".join(parts) + "\n"


def _run(commands: str, folder: Path) -> str:
    """Run a block, and return stdout and stderr together, as on a terminal.

    There the line of progress is gone in the end: here the lines with a clock are left out.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-eu", "-c", commands],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment,
    )
    if done.returncode:
        raise SystemExit(f"This block failed:\n{commands}\n{done.stdout}")
    lines = re.sub(r"(?m)^\d+:\d\d  .*\n", "", done.stdout).strip("\n").splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def masked(text: str) -> str:
    """Replace numbers, which differ a little from machine to machine.

    Examples
    --------
    >>> masked("12,345 rows  (0.5 s)")
    'N rows (N s)'
    """
    return re.sub(r"\s+", " ", re.sub(r"[\d][\d.,e]*", "N", text)).strip()


def main() -> None:
    """Write the pages of the walks that are named, or of all."""
    names = sys.argv[1:] or [walk.stem for walk in sorted(WALKS.glob("*.sh"))]
    PAGES.mkdir(exist_ok=True)
    for name in names:
        target = PAGES / f"{name}.md"
        target.write_text(page(WALKS / f"{name}.sh"), encoding="utf-8")
        print(target.relative_to(ROOT))


if __name__ == "__main__":
    main()
