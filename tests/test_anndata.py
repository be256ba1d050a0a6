"""AnnData: cells of the data set in scanpy's wheel."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
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


RARE = pytest.mark.filterwarnings("ignore:Got (given.*fewer than 10 rows|.* rows of class)")


@RARE
@pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment' option")  # of anndata
def test_new_cells_are_one_line_after_a_file(adata, tmp_path):
    h5py = pytest.importorskip("h5py")
    from anndata.io import read_elem, write_elem

    reference, query = adata[:600].copy(), adata[600:].copy()
    eraser = unspot.anndata.erase(reference, "phase", given="bulk_labels", eraser="leace")
    assert eraser.metadata["given"]["kind"] == "categories"
    with h5py.File(tmp_path / "cells.h5ad", "w") as file:  # the part of write_h5ad that is ours
        write_elem(file, "uns", dict(reference.uns["unspot"]))
        reference.uns["unspot"] = read_elem(file["uns"])
    del query.obs["phase"]
    unspot.anndata.transform(query, reference)
    np.testing.assert_allclose(query.obsm["X_unspot"], eraser(query.obsm["X_pca"]))
    record = query.uns["unspot"]["X_unspot"]
    assert (list(record["key"]), record["basis"]) == (["phase"], "X_pca")
    assert unspot.anndata.fitted(query).metadata["concept_name"] == "phase"


@RARE
@pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment' option")  # of anndata
def test_several_keys_and_covariates(adata):
    adata.obs["depth"] = np.log(adata.obs["n_counts"])
    eraser = unspot.anndata.erase(adata, ["phase", "depth"], keep=["bulk_labels"])
    assert eraser.metadata["concept_name"] == "phase,depth"
    assert [c["name"] for c in eraser.metadata["concepts"]] == ["phase", "depth"]
    unspot.anndata.erase(adata, ["phase"], given=["bulk_labels", "depth"], groups="louvain")
    given = unspot.anndata.fitted(adata).metadata["given"]
    assert given["columns"] == ["bulk_labels", "depth"]


@RARE
@pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment' option")  # of anndata
def test_cells_that_no_fit_has_seen_are_certified(adata):
    adata.obs["phase"] = adata.obs["phase"].astype(str).replace("G2M", "S")  # a rare class
    reference, query = adata[:350].copy(), adata[350:].copy()
    unspot.anndata.erase(reference, "phase")
    unspot.anndata.transform(query, reference)
    found = unspot.anndata.certify(query, "phase", given="bulk_labels", budget="quick")
    assert found.verdict is None
    assert "attackers who know bulk_labels" in found.statement


@pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment' option")  # of anndata
@pytest.mark.filterwarnings("ignore:Got .* rows of class")
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
    with pytest.raises(KeyError, match=r"given='bulk_label'.*Did you mean 'bulk_labels'"):
        unspot.anndata.erase(adata, "phase", given="bulk_label")
    with pytest.raises(KeyError, match=r"'X_unspot'.*uns\['unspot'\], which has none"):
        unspot.anndata.transform(adata, adata)


@RARE
@pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment' option")  # of anndata
def test_views_are_cells_too(adata):
    erased = unspot.anndata.erase(adata, "phase")(adata.obsm["X_pca"][:300])
    view = adata[:300]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a view becomes a copy
        unspot.anndata.transform(view, adata)
    np.testing.assert_array_equal(view.obsm["X_unspot"], erased)


def test_before_and_after_have_two_names(adata):
    with pytest.raises(ValueError, match="'X_pca' as basis and as adjusted_basis"):
        unspot.anndata.erase(adata, "phase", adjusted_basis="X_pca")


@RARE
def test_categories_of_whole_numbers_are_labels(adata):
    adata.obs["cluster"] = adata.obs["bulk_labels"].cat.codes.astype("category")
    eraser = unspot.anndata.erase(adata, "phase", given="cluster", eraser="leace")
    assert eraser.metadata["given"]["kind"] == "categories"


def test_columns_of_a_frame_in_another_order_are_refused(adata):
    names = [f"p{i}" for i in range(adata.obsm["X_pca"].shape[1])]
    frame = pd.DataFrame(adata.obsm["X_pca"], columns=names, index=adata.obs_names)
    adata.obsm["X_frame"] = frame
    unspot.anndata.erase(adata, "bulk_labels", basis="X_frame", eraser="leace")
    query = adata.copy()
    query.obsm["X_frame"] = frame[names[::-1]]
    with pytest.raises(ValueError, match="in another order"):
        unspot.anndata.transform(query, adata)
