"""AnnData: cells of the data set in scanpy's wheel."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import unspot
from unspot import LEACE, Cascade


@pytest.fixture(scope="module")
def cells():
    scanpy = pytest.importorskip("scanpy")
    return scanpy.datasets.pbmc68k_reduced()


@pytest.fixture
def adata(cells):
    return cells.copy()


def accuracy(X, z):
    half = len(z) // 2
    return LogisticRegression(max_iter=300).fit(X[:half], z[:half]).score(X[half:], z[half:])


def test_a_column_of_cells_is_erased(adata):
    before = adata.obsm["X_pca"].copy()
    z, phase = (adata.obs[key].to_numpy() for key in ("bulk_labels", "phase"))
    eraser = unspot.anndata.erase(adata, "bulk_labels")
    after = adata.obsm["X_unspot"]
    np.testing.assert_array_equal(adata.obsm["X_pca"], before)
    assert (after.shape, after.dtype) == (before.shape, before.dtype)
    majority = max(np.mean(z == name) for name in set(z))
    assert accuracy(before, z) > majority + 0.2
    assert accuracy(after, z) < majority + 0.1
    assert accuracy(after, phase) > accuracy(before, phase) - 0.1
    assert eraser.metadata["concept_name"] == "bulk_labels"
    np.testing.assert_array_equal(eraser(before), after)


def test_a_record_of_texts_is_left(adata):
    unspot.anndata.erase(adata, "phase", eraser="leace", adjusted_basis="X_clean")
    record = adata.uns["unspot"]["X_clean"]
    assert {type(value) for value in record.values()} == {str}  # which h5ad files hold
    assert (record["key"], record["basis"]) == ("phase", "X_pca")
    assert "LEACE" in record["eraser"]


@pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment' option")  # of anndata
def test_estimators_and_fitted_erasers(adata):
    first = unspot.anndata.erase(adata, "phase", eraser=Cascade(rank=10))
    again = unspot.anndata.erase(adata, "phase", eraser=Cascade(rank=10))
    np.testing.assert_array_equal(first.P, again.P)  # a seed, as scanpy has
    new = adata[:50].copy()
    assert unspot.anndata.erase(new, "phase", eraser=first, adjusted_basis="X_new") is first
    np.testing.assert_allclose(new.obsm["X_new"], first(new.obsm["X_pca"]))


def test_unknown_names_are_refused(adata):
    with pytest.raises(KeyError, match=r"'phases'.*Did you mean 'phase'"):
        unspot.anndata.erase(adata, "phases")
    with pytest.raises(KeyError, match=r"'X_pcs'.*obsm.*Did you mean 'X_pca'"):
        unspot.anndata.erase(adata, "phase", basis="X_pcs")
    with pytest.raises(ValueError, match=r"ndarray.*AnnData"):
        unspot.anndata.erase(adata.X, "phase")
    with pytest.raises(ValueError, match="4 features"):
        unspot.anndata.erase(adata, "phase", eraser=LEACE().fit(np.eye(4), [0, 1, 0, 1]).eraser_)
    assert "X_unspot" not in adata.obsm
