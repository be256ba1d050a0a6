"""Erasers are applied where only numpy, safetensors and lazy-loader are installed.

One process serves all tests: it refuses every other package that the house uses, and writes what it
computed.
"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from unspot import LEACE, Eraser
from unspot.erasers import Transport
from unspot.maps import Dense, Normalise

PROGRAM = """
import json, sys
from importlib.abc import MetaPathFinder

INSTALLED = {"unspot", "numpy", "safetensors", "lazy_loader"}

class Bare(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        package = name.split(".")[0]
        if package in INSTALLED or package in sys.stdlib_module_names or package in before:
            return None
        raise ModuleNotFoundError(f"No module named {package!r} (in a bare environment)", name=name)

before = {name.split(".")[0] for name in sys.modules}
sys.meta_path.insert(0, Bare())
import numpy as np
import unspot

said = {}
for name in sys.argv[1:]:
    eraser = unspot.load(f"{name}.safetensors")
    X = np.load(f"{name}.npy")
    np.save(f"{name}.clean.npy", eraser(X))
    np.save(f"{name}.reduced.npy", eraser.reduce(X))
try:
    unspot.LEACE
except ImportError as error:
    said["LEACE"] = str(error)
from unspot.scale import Erasure, transform_file
from pathlib import Path
name = sys.argv[1]
erasure = Erasure(unspot.load(f"{name}.safetensors"))
transform_file(erasure, Path(f"{name}.npy"), Path("file.npy"))
loaded = {name.split(".")[0] for name in sys.modules}
said["loaded"] = sorted(loaded - set(sys.stdlib_module_names) - before)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def erasers():
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(1000, 384)).astype(np.float32)  # more products than one BLAS call gets
    z = np.arange(1000) % 2
    narrow = rng.normal(size=(300, 6)) + (np.arange(300) % 2)[:, None]
    layers = Dense(rng.normal(size=(6, 8)), rng.normal(size=8), relu=True), Normalise(8)
    return {
        "leace": (LEACE().fit(wide, z).eraser_, wide),
        "projection": (Eraser.projection(np.linalg.qr(rng.normal(size=(384, 20)))[0]), wide),
        "network": (Eraser(layers), narrow),
        "transport": (Transport().fit(narrow, np.arange(300) % 2).eraser_, narrow),
    }


@pytest.fixture(scope="module")
def bare(erasers, tmp_path_factory):
    """A folder in which a bare process has applied all erasers, and what it said."""
    folder = tmp_path_factory.mktemp("bare")
    for name, (eraser, X) in erasers.items():
        eraser.save(folder / f"{name}.safetensors")
        np.save(folder / f"{name}.npy", X)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *erasers], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


@pytest.mark.parametrize("name", ["leace", "projection", "network", "transport"])
def test_erased_rows_are_those_of_the_full_installation(name, erasers, bare):
    eraser, X = erasers[name]
    folder, _ = bare
    np.testing.assert_allclose(np.load(folder / f"{name}.clean.npy"), eraser(X), atol=1e-6)
    np.testing.assert_allclose(np.load(folder / f"{name}.reduced.npy"), eraser.reduce(X), atol=1e-5)


def test_a_file_is_erased_too(erasers, bare):
    eraser, X = erasers["leace"]
    np.testing.assert_allclose(np.load(bare[0] / "file.npy"), eraser(X), atol=1e-6)


def test_nothing_else_is_loaded(bare):
    assert set(bare[1]["loaded"]) <= {"unspot", "numpy", "safetensors", "lazy_loader"}
    assert "bare environment" in bare[1]["LEACE"] or "scikit-learn" in bare[1]["LEACE"]


WITHOUT_TORCH = """
import sys

class Without:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Without)
import unspot
unspot.LEACE
unspot.LEOPARD
"""


def test_without_torch_leopard_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True)
    assert "LEOPARD needs torch: pip install torch" in done.stderr.splitlines()[-1]
