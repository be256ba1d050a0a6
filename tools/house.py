"""The house in numbers and as a picture, read from the source and never imported.

``python tools/house.py`` prints, for each room, modules, code lines, functions and imports inside
functions; ``python tools/house.py FOLDER`` does so for another package. ``python tools/house.py
--numbers`` writes the table of the house before and after it was halved into
``docs/architecture.md``. The test of the import graph and the picture in the docs use the same
functions.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = Path(__file__).parent.parent / "unspot"
#: Not rooms: the front door.
DOOR = {"__init__", "__main__", "_version"}


class Import(NamedTuple):
    """Import of one module of the package by another."""

    importer: str
    imported: str
    line: int


def modules(package: Path = PACKAGE) -> dict[str, Path]:
    """List files by dotted name, without the name of the package."""
    names = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        names[".".join(parts).removesuffix(".__init__")] = path
    return names


def room(module: str) -> str:
    """Return the folder of a module, or its name if it is at the top."""
    return module.split(".")[0]


def imports(package: Path = PACKAGE) -> Iterator[Import]:
    """Yield all imports inside the package, also those inside functions."""
    known = modules(package)
    for importer, path in known.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                targets = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for target in targets:
                name = target.removeprefix(f"{package.name}.")
                if name != target:  # a name in a module, or the module itself
                    name = name if name in known else name.rpartition(".")[0]
                    yield Import(importer, name or "__init__", node.lineno)


def room_graph(package: Path = PACKAGE) -> dict[str, set[str]]:
    """Map each room to those that it imports from."""
    graph: dict[str, set[str]] = {room(name): set() for name in modules(package)}
    for entry in imports(package):
        if room(entry.importer) != room(entry.imported):
            graph[room(entry.importer)].add(room(entry.imported))
    return {name: to - DOOR for name, to in graph.items() if name not in DOOR}


def code_lines(path: Path) -> int:
    """Count lines that are neither blank, nor comments, nor docstrings."""
    text = path.read_text(encoding="utf-8")
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            documentation |= set(docstring_lines(node))
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in documentation
        for number, line in enumerate(text.splitlines(), 1)
    )


def docstring_lines(node: ast.AST) -> range:
    """Find the lines of a docstring; an empty range if there is none."""
    first = next(iter(getattr(node, "body", None) or ()), None)
    value = first.value if isinstance(first, ast.Expr) else None
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return range(value.lineno, (value.end_lineno or 0) + 1)
    return range(0)


def function_lengths(path: Path) -> list[int]:
    """Count the lines of each function, without its docstring."""
    lengths = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            whole = (node.end_lineno or 0) - node.lineno + 1
            lengths.append(whole - len(docstring_lines(node)))
    return lengths


def local_imports(path: Path) -> int:
    """Count import statements inside functions."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, functions)
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    return len(inside)


def summary(paths: list[Path]) -> list[str]:
    """Summarise modules, code lines, functions, and imports inside functions."""
    lengths = sorted(length for path in paths for length in function_lengths(path))
    lines = sum(map(code_lines, paths))
    p90 = lengths[int(0.9 * (len(lengths) - 1))] if lengths else 0
    middle = f"{statistics.median(lengths):.0f}" if lengths else "0"
    return [
        str(len(paths)),
        f"{lines:,}",
        f"{lines / len(paths):.0f}",
        f"{len(lengths):,}",
        f"{middle}, {p90}, {max(lengths, default=0)}",
        str(sum(length > 40 for length in lengths)),
        str(sum(map(local_imports, paths))),
    ]


HEAD = (
    "room modules code_lines lines_per_module functions median,p90,max_lines over_40 local_imports"
)


def picture(order: list[str], package: Path = PACKAGE) -> str:
    """Draw the rooms as SVG, each to the right of all that it imports.

    An import that follows from others (a imports b, b imports c, a imports c) is not drawn, and
    what every room may import (the single modules at the left of the table) has no lines.
    """
    graph, files = room_graph(package), modules(package)
    place = {name: i for i, name in enumerate(order)}
    folders = [name for name in order if package.joinpath(name).is_dir() or name == "eraser"]
    left = {a: {b for b in graph[a] & set(folders) if place[b] < place[a]} for a in folders}
    column: dict[str, int] = {}
    for name in folders:
        column[name] = 1 + max((column[b] for b in left[name]), default=-1)
    corner = {}
    for number in set(column.values()):
        stack = [name for name in folders if column[name] == number]
        for i, name in enumerate(stack):
            corner[name] = (10 + 136 * number, 150 + 74 * (i - len(stack) / 2))
    parts = [
        _line(corner[a], corner[b], f"{a} imports {b}", backwards=place[b] > place[a])
        for a in folders
        for b in sorted(_direct(a, left) | {b for b in graph[a] if place.get(b, 0) > place[a]})
    ]
    for name, (x, y) in corner.items():
        paths = [path for module, path in files.items() if room(module) == name]
        parts.append(_box(name, x, y, f"{sum(map(code_lines, paths)):,} lines"))
    width = 120 + 136 * max(column.values())
    return (
        f'<svg viewBox="0 0 {width} 300" role="img" aria-label="Rooms and their imports" '
        f'style="width:100%" font-family="sans-serif" fill="currentColor">{"".join(parts)}</svg>'
    )


def _direct(name: str, left: dict[str, set[str]]) -> set[str]:
    """Find the imports of a room that do not follow from its other imports."""

    def behind(start: str) -> set[str]:
        return left[start].union(*map(behind, left[start]))

    return left[name] - set().union(*map(behind, left[name]))


def _line(
    start: tuple[float, float], end: tuple[float, float], title: str, *, backwards: bool
) -> str:
    (x, y), (to_x, to_y) = start, end
    begin, arrive = (x + 100, to_x) if backwards else (x, to_x + 100)
    bend = (arrive - begin) / 2
    style = (
        'stroke="#c0392b" stroke-width="2" stroke-dasharray="5 4"'
        if backwards
        else 'stroke="#8aa4b5"'
    )
    return (
        f'<path d="M{begin} {y + 22} C{begin + bend} {y + 22} {arrive - bend} {to_y + 22} '
        f'{arrive} {to_y + 22}" fill="none" {style}><title>{title}</title></path>'
    )


def _box(name: str, x: float, y: float, size: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="100" height="44" rx="6" fill="#2a6f97"/>'
        f'<text x="{x + 50}" y="{y + 20}" font-size="14" fill="white" text-anchor="middle">{name}'
        f'</text><text x="{x + 50}" y="{y + 35}" font-size="10" fill="white" '
        f'text-anchor="middle">{size}</text>'
    )


def lines_in(path: Path) -> int:
    """Count code lines of a module, or of all modules of a folder."""
    return sum(map(code_lines, path.rglob("*.py") if path.is_dir() else [path]))


# -- The house in numbers --------------------------------------------------------------------------

#: What the house was before: numbers of the review of 188 modules, with the lab among the rest.
BEFORE = {
    "code lines": "28,812",
    "modules": "188",
    "functions": "2,561",
    "lines of a function: median, 90 %, largest": "6, 19, 170",
    "functions of more than 40 lines": "26",
    "classes": "279",
    "functions of more than 9 parameters": "26",
    "imports inside functions": "342",
    "annotations that are Any": "1,008",
    "calls of isinstance": "430",
    "commands, options": "17, 209",
    "lines of tests": "31,846",
    "lines of benchmarks and tools": "6,664",
    "words of documentation, without what is generated": "54,000",
    "examples": "15",
}


def numbers(paths: list[Path]) -> dict[str, str]:
    """Measure a part of the package, by the names of ``BEFORE``."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [n for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    names = [n.id for n in nodes if isinstance(n, ast.Name)]
    listed = summary(paths)
    counts = {
        "classes": sum(isinstance(n, ast.ClassDef) for n in nodes),
        "functions of more than 9 parameters": sum(_parameters(f) > 9 for f in functions),
        "annotations that are Any": sum(map(_is_any, nodes)),
        "calls of isinstance": names.count("isinstance"),
    }
    return {
        "code lines": listed[1],
        "modules": listed[0],
        "functions": listed[3],
        "lines of a function: median, 90 %, largest": listed[4],
        "functions of more than 40 lines": listed[5],
        "imports inside functions": listed[6],
        **{name: f"{count:,}" for name, count in counts.items()},
    }


def _is_any(node: ast.AST) -> bool:
    """Tell whether a parameter, variable or result is annotated with Any alone."""
    annotation = getattr(node, "annotation", None) or getattr(node, "returns", None)
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    return len(given.posonlyargs + given.args + given.kwonlyargs)


def around() -> dict[str, str]:
    """Count commands, tests, pages and examples."""
    root = PACKAGE.parent
    commands = _commands()
    scripts = [*root.glob("benchmarks/*.py"), *root.glob("tools/*.py")]
    return {
        "commands, options": f"{len(commands)}, {sum(commands.values())}",
        "lines of tests": f"{sum(map(_lines, root.glob('tests/**/*.py'))):,}",
        "lines of benchmarks and tools": f"{sum(map(_lines, scripts)):,}",
        "words of documentation, without what is generated": f"{words(root / 'docs'):,}",
        "examples": str(len(list(root.glob("examples/*.py")))),
    }


def words(docs: Path) -> int:
    """Count words in the pages that are written by hand."""
    skipped = {"_generated", "_build", "gallery", "api"}
    pages = (p for p in docs.rglob("*.md") if not skipped & set(p.relative_to(docs).parts))
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _commands() -> dict[str, int]:
    """Count the options of every command outside the lab."""
    sys.path.insert(0, str(PACKAGE.parent))
    import typer

    from unspot.cli import app

    group: Any = typer.main.get_command(app)
    return {
        name: sum(p.param_type_name == "option" and p.name != "help" for p in command.params)
        for name, command in group.commands.items()
        if name != "lab"
    }


def write_numbers(page: Path) -> None:
    """Write the table below the marker of the page, in place of an older one."""
    files = modules()
    lab = [path for name, path in files.items() if room(name) == "lab"]
    core = [path for path in files.values() if path not in lab]
    after, apart = {**numbers(core), **around()}, numbers(lab)
    rows = [
        f"| {name} | {was} | {after[name]} | {apart.get(name, '')} |"
        for name, was in BEFORE.items()
    ]
    table = "\n".join(["| | before | after | `lab` |", "|---|--:|--:|--:|", *rows])
    head, _, rest = page.read_text(encoding="utf-8").partition(MARKER)
    rest = rest[rest.index("\n## ") :]
    page.write_text(f"{head}{MARKER}\n\n{table}\n{rest}", encoding="utf-8")


MARKER = "<!-- numbers -->"


def listed_rooms(page: Path) -> list[str]:
    """Read the order of the rooms from the table in ``docs/architecture.md``."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = lines.index("| room | what is in it |")
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("| `"):
            break
        rows.append(line.split("`")[1])
    return rows


def main() -> None:
    if sys.argv[1:] == ["--numbers"]:
        write_numbers(PACKAGE.parent / "docs" / "architecture.md")
        return
    package = Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE
    files = modules(package)
    by_room: dict[str, list[Path]] = defaultdict(list)
    for name, path in files.items():
        by_room["(top)" if room(name) == name and path.parent == package else room(name)].append(
            path
        )
    rows = [HEAD.split(), *([name, *summary(paths)] for name, paths in sorted(by_room.items()))]
    rows.append(["all", *summary(list(files.values()))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


if __name__ == "__main__":
    main()
