"""Lists that are made from the code when the docs are built, so they are never out of date.

A page can have these directives, each on its own line:

- ``@public unspot.erasers.registry make`` becomes a table of these classes and functions of a
  module, with a page for each; ``@public unspot.leopard`` lists all names in ``__all__``;
- ``@modules unspot.leopard`` becomes a table of the modules of a package, with the first sentence
  of each docstring;
- ``@methods`` becomes the table of ``unspot.methods()``;
- ``@commands`` becomes the help of every command, as text and tables;
- ``@rooms`` becomes the picture of the rooms and their imports;
- ``@lines leopard eraser.py`` becomes a table of the lines of code in these folders and files.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from command_lists import commands
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

FOLDER = "api/generated"
PUBLIC = re.compile(r"^@public ([\w.]+)(?: ([\w. ]+))?$", re.MULTILINE)
MODULES = re.compile(r"^@modules ([\w.]+)$", re.MULTILINE)
ROOMS = re.compile(r"^@rooms$", re.MULTILINE)
COMMANDS = re.compile(r"^@commands$", re.MULTILINE)
LINES = re.compile(r"^@lines (.+)$", re.MULTILINE)
METHODS = re.compile(r"^@methods$", re.MULTILINE)


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the lists into a page."""
    folder = "../" * docname.count("/") + FOLDER
    text = PUBLIC.sub(lambda m: _directive(_table(m[1], m[2], app.first_names, folder)), source[0])
    text = MODULES.sub(lambda m: modules(m[1]), text)
    text = ROOMS.sub(lambda _: rooms(Path(app.srcdir)), text)
    text = COMMANDS.sub(lambda _: commands(), text)
    text = LINES.sub(lambda m: lines_of(m[1].split(), Path(app.srcdir)), text)
    source[0] = METHODS.sub(lambda _: methods(), text)


# -- public names --------------------------------------------------------------------------------


def names(module: str, only: str | None = None) -> list[str]:
    """List classes and functions of a module: those in ``only``, or all public ones."""
    imported = import_module(module)
    listed = only.split() if only else getattr(imported, "__all__", None)
    if listed is None:
        logger.warning("%s has no __all__: nothing in it is public", module)
        return []
    return [f"{module}.{name}" for name in listed if _has_page(imported, name)]


def _has_page(module: ModuleType, name: str) -> bool:
    """Tell whether a name is a class or function; constants have no page."""
    try:
        return callable(getattr(module, name))
    except (AttributeError, ImportError) as error:  # public names are imported on first use
        logger.warning("%s.%s is listed, but cannot be imported: %s", module.__name__, name, error)
        return False


def _object(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def _table(module: str, only: str | None, first: dict[int, str], folder: str) -> str:
    """Write an autosummary. A name that has a page under another name is listed as that."""
    listed = [first.setdefault(id(_object(name)), name) for name in names(module, only)]
    lines = [".. autosummary::", f"   :toctree: {folder}", "   :nosignatures:", ""]
    return "\n".join([*lines, *(f"   ~{name}" for name in listed)])


def _directive(rst: str) -> str:
    return f"```{{eval-rst}}\n{rst}\n```"


def list_for_autosummary(app: Sphinx) -> None:
    """Write all tables into one file, from which autosummary makes its pages."""
    app.first_names = {}
    page = Path(app.srcdir, "api.md").read_text(encoding="utf-8")
    folder = str(Path(app.srcdir, FOLDER))
    tables = [_table(m[1], m[2], app.first_names, folder) for m in PUBLIC.finditer(page)]
    listing = Path(app.doctreedir, "public_names.rst")
    listing.parent.mkdir(parents=True, exist_ok=True)
    listing.write_text("\n\n".join(tables) + "\n", encoding="utf-8")
    app.config.autosummary_generate = [str(listing)]


# -- modules and methods -------------------------------------------------------------------------


def modules(package: str) -> str:
    """List the modules of a package in a table. They are read, not imported."""
    folder = Path(import_module(package).__path__[0])
    lines = ["| module | what |", "|---|---|"]
    for path in sorted(folder.glob("[!_]*.py")):
        about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        lines.append(f"| `{path.stem}` | {_as_markdown(about)} |")
    return "\n".join(lines)


def _as_markdown(docstring: str) -> str:
    sentence = " ".join(docstring.split("\n\n")[0].split())
    return sentence.replace("``", "`").replace("|", "\\|")


def rooms(folder: Path) -> str:
    """Draw the rooms, in the order of the table on the page about the architecture."""
    house = _house(folder)
    picture = house.picture(house.listed_rooms(folder / "architecture.md"))
    return f"```{{raw}} html\n{picture}\n```"


def lines_of(names: list[str], folder: Path) -> str:
    """Count lines of code in a table, with their sum."""
    house = _house(folder)
    lines = {f"`{name}`": house.lines_in(house.PACKAGE / name) for name in names}
    lines["together"] = sum(lines.values())
    return "\n".join(["| | lines |", "|---|--:|", *(f"| {k} | {n:,} |" for k, n in lines.items())])


def _house(folder: Path) -> ModuleType:
    spec = spec_from_file_location("house", folder.parent / "tools" / "house.py")
    house = module_from_spec(spec)
    spec.loader.exec_module(house)
    return house


def methods() -> str:
    """List the erasure methods and what they can do in a table."""
    lines = [
        "| class, name | what it does | linear | closed form | streaming | concepts |",
        "|---|---|:-:|:-:|:-:|---|",
    ]
    for info in import_module("unspot").methods():
        facts = (info.linear, info.closed_form, info.streaming)
        cells = [f"`{info.path.split(':')[1]}`<br>`{info.name}`", _as_markdown(info.summary)]
        cells += ["✓" if fact else "" for fact in facts] + [", ".join(info.concepts)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


# -- docstrings ----------------------------------------------------------------------------------


def keep_bars(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape bars: |x| in a docstring is an absolute value, not a substitution of reST."""
    in_example = False
    for i, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if not in_example:
            parts = line.split("``")  # every second one is code
            parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
            lines[i] = "``".join(parts)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", list_for_autosummary, priority=100)  # before autosummary itself
    app.connect("source-read", expand)
    app.connect("autodoc-process-docstring", keep_bars, priority=900)  # after numpydoc
    return {"parallel_read_safe": True}
