"""Rows and labels of odd kinds: they work as others do, or a sentence says why not."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import unspot
from unspot import LEACE, LEOPARD, Cascade, Dataset, certify, plan
from unspot.erasers import MeanProjection

METHODS = {
    "leace": LEACE(),
    "mean": MeanProjection(),
    "leopard": LEOPARD(rank=3, random_state=0),
    "cascade": Cascade(rank=3, random_state=0),
}


def _rows(n=200):
    rng = np.random.default_rng(0)
    z = np.arange(n) % 2
    return rng.normal(size=(n, 6)) + 2 * z[:, None], z


@pytest.mark.parametrize("scale", [1e300, 1e200, 1e-200, 1e-300, 1e-308])
@pytest.mark.parametrize("method", METHODS)
def test_rows_of_an_extreme_scale_are_refused(method, scale):
    X, z = _rows()
    shown = {1e300: "as large as", 1e200: "as large as"}.get(scale, "that vary by")
    with pytest.raises(ValueError, match=rf"{shown} \de[+-]\d+ .*scale between.*[Mm]ultiply"):
        METHODS[method].fit(X * scale, z)


@pytest.mark.parametrize("scale", [1e34, 1e-34])
@pytest.mark.parametrize("method", METHODS)
def test_rows_of_a_scale_within_the_bounds_are_erased_as_others(method, scale):
    X, z = _rows()
    scale = 2.0 ** round(np.log2(scale))
    usual, other = (METHODS[method].fit(X * s, z).transform(X * s) / s for s in (1.0, scale))
    np.testing.assert_allclose(other, usual, atol=1e-5)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_a_certificate_of_rows_of_an_extreme_scale_is_refused(scale):
    X, z = _rows(400)
    data = Dataset.from_arrays(X * scale, z, random_state=0)
    with pytest.raises(ValueError, match=r"scale between.*[Mm]ultiply"):
        certify(None, data, budget="quick")


def test_a_file_of_an_extreme_scale_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("unspot.io.sources.LOAD_BYTES", 1000)
    X, z = _rows()
    np.save(tmp_path / "X.npy", X * 1e-200)
    with pytest.raises(ValueError, match="scale between"):
        LEACE().fit(tmp_path / "X.npy", z)


@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_numbers_that_erasure_makes_infinite_are_refused(dtype):
    X, z = _rows()
    eraser = LEACE().fit(X, z)
    rows = X.astype(dtype)
    rows[3] = np.finfo(dtype).max * np.array([1, -1, 1, -1, 1, -1], dtype)
    for erase in (eraser.transform, eraser.reduce):
        with pytest.raises(ValueError, match=r"Got row 3 of X.* beyond .*float.*wider type"):
            erase(rows)


def test_sparse_rows_are_refused_with_the_way_out():
    X, z = _rows()
    sparse, eraser = csr_array(X), LEACE().fit(X, z)
    for use in (
        LEACE().fit,
        Dataset.from_arrays,
        unspot.erase,
        lambda *rows: certify(eraser, *rows),
    ):
        with pytest.raises(TypeError, match=r"sparse matrix.*toarray"):
            use(sparse, z)
    with pytest.raises(TypeError, match=r"sparse matrix.*toarray"):
        plan(sparse, z)
    with pytest.raises(ValueError, match=r"shape \(\d+,\).*\(rows, features\)"):
        plan(X[:, 0], z)
    for use in (eraser.transform, eraser.eraser_):
        with pytest.raises(TypeError, match=r"sparse matrix.*toarray"):
            use(sparse)


def test_masked_rows_are_refused():
    X, z = _rows()
    hidden = np.ma.masked_greater(X, 3.0)
    for use in (LEACE().fit, Dataset.from_arrays):
        with pytest.raises(ValueError, match=r"masked array as X.*every place.*filled"):
            use(hidden, z)
    eraser = LEACE().fit(np.ma.array(X), z)  # nothing is masked
    for erase in (eraser.transform, eraser.reduce, eraser.eraser_, eraser.eraser_.reduce):
        with pytest.raises(ValueError, match="masked"):
            erase(hidden)


@pytest.mark.parametrize("unit", [1, 0.5])
def test_masked_labels_are_refused(unit):
    X, z = _rows()
    with pytest.raises(ValueError, match=r"masked array as z, with 1 masked.*Drop those rows"):
        LEACE().fit(X, np.ma.masked_array(unit * z, mask=np.arange(len(z)) == 3))


def test_tensors_of_half_precision_and_with_gradients_are_rows_and_labels():
    X, z = _rows()
    tensor = torch.tensor(X, dtype=torch.bfloat16, requires_grad=True)
    rows = tensor.detach().float().numpy()
    codes = torch.tensor(z, dtype=torch.bfloat16, requires_grad=True)
    erased = LEACE().fit(tensor, codes).transform(tensor)
    np.testing.assert_array_equal(erased, LEACE().fit(rows, z.astype(float)).transform(rows))
    data = Dataset.from_arrays(tensor, codes, random_state=0)
    np.testing.assert_array_equal(data.test.X, Dataset.from_arrays(rows, z, random_state=0).test.X)
