"""The house: rooms import in one direction, and light things stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from unspot import Eraser

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "architecture.md"

spec = spec_from_file_location("house", ROOT / "tools" / "house.py")
house = module_from_spec(spec)
spec.loader.exec_module(house)

#: (importer, imported): why a room may import from one to its right. At most two.
EXCEPTIONS = {
    ("erasers", "choice"): 'LEOPARD(rank="auto") chooses its rank by a path of ranks',
    ("evaluation", "report"): "a result writes its own page: Evaluation.to_html",
}


# -- one direction -------------------------------------------------------------------------------


def test_the_table_lists_every_room_once():
    listed = house.listed_rooms(TABLE)
    assert len(set(listed)) == len(listed)
    assert set(listed) == set(house.room_graph())


def test_no_room_imports_from_its_right():
    order = {name: i for i, name in enumerate(house.listed_rooms(TABLE))}
    against = [
        f"{entry.importer}:{entry.line} imports {entry.imported}"
        for entry in house.imports()
        if {house.room(entry.importer), house.room(entry.imported)} <= order.keys()
        and order[house.room(entry.imported)] > order[house.room(entry.importer)]
        and (house.room(entry.importer), house.room(entry.imported)) not in EXCEPTIONS
    ]
    assert not against


def test_exceptions_are_few_and_needed():
    assert len(EXCEPTIONS) <= 2
    graph = house.room_graph()
    for importer, imported in EXCEPTIONS:
        assert imported in graph[importer], f"{importer} → {imported} is no exception any more"


def test_a_cycle_would_be_found(tmp_path):
    """The graph sees imports inside functions, of modules and of names."""
    package = tmp_path / "toy"
    (package / "left").mkdir(parents=True)
    (package / "right.py").write_text("from toy.left.deep import thing\n")
    (package / "left" / "__init__.py").write_text("")
    (package / "left" / "deep.py").write_text("def f():\n    from toy import right\n")
    assert house.room_graph(package) == {"left": {"right"}, "right": {"left"}}


#: Core modules that look a name up in the lab: by text, so that nothing imports it before.
LOOKS_INTO_LAB = {"cli", "erasers.registry", "maps.base"}


def test_nobody_imports_the_lab():
    """The lab is imported by name only, in the three places that need it."""
    importers = {e.importer for e in house.imports() if house.room(e.imported) == "lab"}
    assert {name for name in importers if house.room(name) != "lab"} == set()
    naming = {
        name
        for name, path in house.modules().items()
        if house.room(name) != "lab" and '"unspot.lab' in path.read_text(encoding="utf-8")
    }
    assert naming == LOOKS_INTO_LAB


def test_few_loose_modules():
    loose = {name for name, path in house.modules().items() if path.parent == house.PACKAGE}
    assert len(loose - house.DOOR - {"unspot", ""}) <= 5


# -- light ---------------------------------------------------------------------------------------

HEAVY = ("torch", "pandas")


def loaded(code: str, *arguments: str) -> list[str]:
    """Which of the heavy packages a fresh process has imported after running the code.

    An estimator needs scikit-learn, which itself imports pandas if it is installed.
    """
    program = (
        f"import sys\n{code}\nprint('HEAVY', *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split("HEAVY")[-1].split()


def command(*arguments: str) -> str:
    return (
        f"sys.argv = {['unspot', *arguments]!r}\n"
        "from unspot.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code"
    )


@pytest.fixture
def eraser_file(tmp_path):
    path = tmp_path / "eraser.safetensors"
    Eraser.projection(np.eye(4)[:, :2], method="LEOPARD").save(path)
    return str(path)


def test_the_package_is_light():
    assert not loaded("import unspot\nfrom unspot import Dataset, Eraser\nunspot.methods()")


def test_estimators_load_no_more_than_scikit_learn():
    assert loaded("from unspot import LEACE, Cascade") == loaded("import sklearn.base")


def test_loading_and_erasing_is_light(eraser_file):
    code = "import numpy, unspot\nunspot.load(sys.argv[1])(numpy.ones((3, 4)))"
    assert not loaded(code, eraser_file)


def test_fitting_leace_is_light():
    code = (
        "import numpy as np\nfrom unspot import LEACE\n"
        "X = np.random.default_rng(0).normal(size=(40, 3))\n"
        "LEACE().fit(X, np.arange(40) % 2).transform(X)"
    )
    assert loaded(code) == loaded("import sklearn.base")


def test_help_is_light():
    assert not loaded(command("--help"))


def test_inspect_is_light(eraser_file):
    assert not loaded(command("inspect", eraser_file))


# -- imports inside functions --------------------------------------------------------------------

#: What may be imported inside a function: optional or slow to load.
LATE = {
    "numpy", "torch", "sklearn", "scipy", "joblib", "pandas", "pyarrow", "matplotlib", "jinja2",
    "dask", "distributed", "ray", "rich", "transformers", "tokenizers", "threadpoolctl", "h5py",
    "zarr", "polars", "fcntl", "resource", "safetensors", "markupsafe", "importlib.metadata",
    "faiss", "onnx", "huggingface_hub", "sentence_transformers", "anndata", "concept_erasure",
    "fairlearn",
}  # fmt: skip


def test_imports_inside_functions_have_a_reason():
    """Outside the commands, only optional and slow packages, and what loads them."""
    files = house.modules()
    late = []
    for name, path in files.items():
        if house.room(name) in {"cli", "lazy", "__main__"}:
            continue  # commands start quickly because they import when they run
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                late += [f"{name}:{n.lineno} {m}" for n, m in _imported(function)]
    assert not late


def _imported(function):
    for node in ast.walk(function):
        if isinstance(node, ast.ImportFrom):
            targets = [node.module or ""]
        elif isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            continue
        for target in targets:
            late = target.split(".")[0] in LATE or target in LATE
            if not late and not target.startswith("unspot"):
                yield node, target
