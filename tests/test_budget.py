"""The budget of the house. Who needs room makes room: no number here grows."""

from __future__ import annotations

import ast
import inspect
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import unspot.erasers as erasers

ROOT = Path(__file__).parent.parent
spec = spec_from_file_location("house", ROOT / "tools" / "house.py")
house = module_from_spec(spec)
spec.loader.exec_module(house)

MODULES = house.modules()
LAB = {name: path for name, path in MODULES.items() if house.room(name) == "lab"}
CORE = {name: path for name, path in MODULES.items() if name not in LAB}


def test_lines_and_modules():
    assert sum(map(house.code_lines, CORE.values())) <= 16_500
    assert len(CORE) <= 100
    assert sum(map(house.code_lines, LAB.values())) <= 4_500


def test_words_of_docs():
    pages = [p for p in (ROOT / "docs").rglob("*.md") if not {"_generated", "_build"} & {*p.parts}]
    assert len(pages) > 5
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 30_000


def test_no_long_functions():
    long = [
        f"{name}: {length}"
        for name, path in CORE.items()
        for length in house.function_lengths(path)
        if length > 60
    ]
    assert not long


@pytest.mark.parametrize("name", erasers.__all__)
def test_parameters_of_estimators(name):
    estimator = getattr(erasers, name)
    if inspect.isclass(estimator) and hasattr(estimator, "get_params"):
        assert len(estimator._get_param_names()) <= 10


# -- one decision, one place -----------------------------------------------------------------------

KIND = re.compile(
    r"isinstance\([^)]*(?<!pa\.)\b(Classes|Number|Table)\b|\bis_continuous\b|\bis_number\("
    r"|\b(concept|target|labels|split)\.kind\b\s*(==|!=|in)"
)


def test_only_the_concept_knows_its_kind():
    """Nobody else asks whether a concept is classes, a number or a table."""
    asking = [
        f"{name}:{i}: {line.strip()}"
        for name, path in CORE.items()
        if name not in ("data.concept", "data.columns", "data.groups")
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if KIND.search(line)
    ]
    assert not asking


# -- language --------------------------------------------------------------------------------------

#: First words of a docstring that has no verb, or no subject.
REFUSED = re.compile(
    r"(Of|The same|By|As|What|Who|Whose|Whether|Which|Where|How|Those|That|From|In|On|For|With)\b"
)


def documented(path: Path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            text = ast.get_docstring(node)
            if text:
                yield node, text.splitlines()[0]


def test_first_lines_say_what_a_thing_does():
    refused = [
        f"{name}:{node.lineno} {line}"
        for name, path in MODULES.items()
        for node, line in documented(path)
        if REFUSED.match(line)
    ]
    assert not refused


#: Identifiers that do not say what a thing is.
VAGUE = {"found", "own", "told", "Way", "Known", "Told", "Kept"}


def identifiers(tree: ast.AST):
    """Yield each name that is defined or used, with its line; attributes may be of others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node.lineno
        elif isinstance(node, ast.alias):
            yield node.asname or node.name, node.lineno


def test_names_say_what_a_thing_is():
    example = "class Kept:\n    def own(self, told):\n        found = Way()\n"
    names = {name for name, _ in identifiers(ast.parse(example))}
    assert names & VAGUE == {"Kept", "own", "told", "found", "Way"}
    vague = [
        f"{name}:{line} {identifier}"
        for name, path in CORE.items()
        for identifier, line in identifiers(ast.parse(path.read_text(encoding="utf-8")))
        if identifier in VAGUE
    ]
    assert not vague
