"""Each walk works as its page prints it, and so do the examples of other pages."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def _tool(name):
    spec = spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if not (ROOT / "tools" / "write_walks.py").exists():
    pytest.skip("the tools are in the repository, not in the package", allow_module_level=True)
walks = _tool("write_walks")
WALKS = sorted(walks.WALKS.glob("*.sh"))
PRINTED = re.compile(r"\n```text\n(.*?)\n```\n", re.DOTALL)


def first_lines(page):
    """The first line of each output, without its numbers."""
    return [walks.masked(printed.split("\n")[0]) for printed in PRINTED.findall(page)]


def test_there_are_walks():
    assert len(WALKS) >= 2


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.stem)
def test_the_page_is_made_of_the_walk(walk):
    page = (walks.PAGES / f"{walk.stem}.md").read_text("utf-8")
    parts = walks.blocks(walk.read_text("utf-8"))
    text = "\n\n".join(part if is_text else f"```sh\n{part}\n```" for is_text, part in parts)
    head, _, shown = page.partition("\n\n")
    assert walk.name in head
    assert PRINTED.sub("", shown).split() == text.split(), "run python tools/write_walks.py"


@pytest.mark.slow
@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.stem)
def test_the_walk_works_as_the_page_prints_it(walk):
    page = (walks.PAGES / f"{walk.stem}.md").read_text("utf-8")
    assert first_lines(walks.page(walk)) == first_lines(page)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["../choosing", "concepts", "models", "pipelines", "sites"])
def test_the_page_prints_what_its_examples_print(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "howto" / f"{name}.md").read_text("utf-8")
    printed = PRINTED.findall(_tool("refresh_outputs").refreshed(page))
    assert list(map(walks.masked, printed)) == list(map(walks.masked, PRINTED.findall(page)))
