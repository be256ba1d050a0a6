"""The eraser that CONTRIBUTING.md shows really works: a reader will copy it."""

from __future__ import annotations

import doctest
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from unspot import Cascade, load

PAGE = Path(__file__).parent.parent / "CONTRIBUTING.md"


@pytest.fixture
def axes(tmp_path, monkeypatch):
    if not PAGE.exists():
        pytest.skip("CONTRIBUTING.md is in the repository, not in the package")
    (code,) = re.findall(
        r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    path = tmp_path / "axes.py"
    path.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("axes", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "axes", module)
    spec.loader.exec_module(module)
    return module


def test_its_doctest_runs(axes):
    found = doctest.testmod(axes)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.filterwarnings("ignore:Skipping check:sklearn.exceptions.SkipTestWarning")
def test_it_obeys_scikit_learn(axes):
    check_estimator(axes.AxisErasure())


def test_it_cascades_and_is_saved(axes, tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 6))
    z = np.repeat(["a", "b"], 50)
    X[z == "b", 0] += 3
    fitted = Cascade(second=axes.AxisErasure(3)).fit(X, z)
    fitted.eraser_.save(tmp_path / "eraser.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "eraser.safetensors")(X), fitted.transform(X))
