"""What the pages show exists: commands with their options, names to import, and links."""

from __future__ import annotations

import ast
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command

from unspot.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")]
    if not {"_build", "gallery", "generated"} & set(path.parts)
]
if not (ROOT / "docs").exists():
    pytest.skip("the pages are in the repository, not in the package", allow_module_level=True)
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(unspot [a-z][^`]*)`")
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")


def blocks(page, *languages):
    return [
        code for language, code in BLOCK.findall(page.read_text("utf-8")) if language in languages
    ]


def name_of(path):
    return str(path.relative_to(ROOT))


def shown_commands(page):
    """Lines that begin with ``unspot`` in shell blocks, and commands in the text."""
    text = BLOCK.sub("", page.read_text("utf-8"))
    for block in blocks(page, "sh", "bash", "console"):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("unspot "):
                yield re.split(r"\s+#|\|\|", line)[0]
    yield from (" ".join(command.split()) for command in INLINE.findall(text))


def options_of(command):
    return {option for p in command.params for option in (*p.opts, *p.secondary_opts)}


def unknown_words(command):
    """Commands and options that the program does not have."""
    program, unknown = get_command(app), []
    everywhere = options_of(program)
    for word in shlex.split(command)[1:]:
        if hasattr(program, "commands"):
            if word in program.commands:
                program = program.commands[word]
                continue
            if not word.startswith("-"):
                return [word]
        if word.startswith("-") and word != "--help":
            known = everywhere | options_of(program)
            unknown += [] if word.partition("=")[0] in known else [word]
    return unknown


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_options_exist(page):
    wrong = {c: unknown_words(c) for c in shown_commands(page) if unknown_words(c)}
    assert not wrong


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=name_of)
def test_imported_names_exist(page):
    codes = blocks(page, "python", "py") if page.suffix == ".md" else [page.read_text("utf-8")]
    for code in codes:
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unspot"):
                module = import_module(node.module)
                assert [n.name for n in node.names if not hasattr(module, n.name)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target, _ in LINK.findall(BLOCK.sub("", page.read_text("utf-8"))):
        made_by_the_build = "generated" in target or "gallery" in target
        if target and "://" not in target and not made_by_the_build:
            assert (page.parent / target).exists(), target


def test_the_pages_are_as_short_as_promised():
    hand_written = [page for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert sum(len(page.read_text("utf-8").split()) for page in hand_written) <= 30_000
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 700
