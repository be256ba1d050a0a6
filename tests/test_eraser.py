"""The frozen eraser: what it does to arrays, and that files keep it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from unspot import LEACE, Cascade
from unspot.eraser import Eraser, load
from unspot.leopard import nearest_projector
from unspot.maps import Compress, Expand, Oblique, Projection


@pytest.fixture
def eraser(rng):
    return Eraser.projection(nearest_projector(rng.normal(size=(6, 4))), method="test", n=3)


@settings(max_examples=30, deadline=None)
@given(
    d=st.integers(2, 10),
    leading=st.sampled_from([(), (3,), (2, 3)]),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    data=st.data(),
)
def test_any_leading_dimensions_and_dtype(d, leading, dtype, data):
    r = data.draw(st.integers(1, d))
    rng = np.random.default_rng(0)
    eraser = Eraser.projection(nearest_projector(rng.normal(size=(d, r))))
    X = rng.normal(size=(*leading, d)).astype(dtype)
    for x in (X, torch.from_numpy(X)):
        erased, reduced = eraser(x), eraser.reduce(x)
        assert erased.shape == (*leading, d)
        assert reduced.shape == (*leading, r)
        assert erased.dtype == x.dtype
        assert type(erased) is type(x)
    tolerance = {np.float16: 1e-2, np.float32: 1e-5, np.float64: 1e-12}[dtype]
    np.testing.assert_allclose(eraser(X), X.astype(float) @ eraser.P, atol=tolerance)


def test_it_is_shown_in_a_line(eraser):
    assert repr(eraser) == "<Eraser by test: projection to rank 4 of 6 features>"
    chain = (Compress(np.eye(3)[:, :2]), Expand(np.eye(3)[:, :2]))
    few = {"method": "LEACE", "classes": ["f", "m"]}
    assert repr(Eraser(chain, few)) == (
        "<Eraser by LEACE: compress → expand of 3 features; concept f, m>"
    )
    many = {"classes": list(range(28))}
    assert repr(Eraser(chain, many)).endswith("of 3 features; concept 28 classes>")


@pytest.mark.parametrize(
    ("classes", "shown"),
    [(np.array(["f", "m"]), "; concept f, m"), (("f", "m"), "; concept f, m"), (None, ""), (5, "")],
)
def test_it_is_shown_whatever_its_metadata_hold(classes, shown):
    eraser = Eraser.projection(np.eye(3)[:, :2], classes=classes)
    assert repr(eraser) == f"<Eraser: projection to rank 2 of 3 features{shown}>"


def test_projector_identities(eraser):
    P = eraser.P
    np.testing.assert_allclose(P, P.T, atol=1e-12)
    np.testing.assert_allclose(P @ P, P, atol=1e-12)
    assert np.linalg.matrix_rank(P) == eraser.rank == 4


def test_reduced_distances_are_those_of_erased(eraser, rng):
    X = rng.normal(size=(20, 6))
    erased, reduced = eraser(X), eraser.reduce(X)
    for Y in (erased, reduced):
        Y -= Y[:1]
    np.testing.assert_allclose(np.linalg.norm(erased, axis=1), np.linalg.norm(reduced, axis=1))


def test_mean_is_kept(rng):
    eraser = Eraser.projection(np.eye(3)[:, :1], mean=np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(eraser(np.zeros(3)), [0.0, 2.0, 3.0])
    np.testing.assert_allclose(eraser.reduce(np.zeros(3)), [-1.0])


def test_integers_bfloat16_lists_and_gradients(eraser):
    assert eraser(np.arange(6)).dtype == np.float64
    assert eraser(torch.arange(6)).dtype == torch.float64
    assert eraser([1.0] * 6).shape == (6,)
    assert eraser(torch.ones(6, dtype=torch.bfloat16)).dtype == torch.bfloat16
    x = torch.ones(6, dtype=torch.float64, requires_grad=True)
    eraser(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), eraser.P.sum(axis=0))


def test_it_is_frozen(eraser):
    with pytest.raises(AttributeError):
        eraser.maps = ()
    with pytest.raises(ValueError, match="read-only"):
        eraser.U[0, 0] = 1.0


def test_its_matrix_is_frozen_too(eraser):
    with pytest.raises(ValueError, match="read-only"):
        eraser.P[:] = 0
    oblique = Eraser((Oblique(np.eye(3)[:, :1], np.eye(3)[:, :1], np.zeros(3)),))
    with pytest.raises(ValueError, match="read-only"):
        oblique.P[:] = 0
    assert oblique.rank == 2


def test_arrays_of_the_caller_stay_the_callers():
    """They can still be written to, and that does not change the eraser."""
    U, mean = np.eye(3)[:, :1].copy(), np.zeros(3)
    X = np.ones((1, 3))
    view = U[:]
    view.setflags(write=False)
    erasers = [Eraser((Projection(array, mean),)) for array in (U, view)]
    for eraser in (*erasers, Eraser.projection(U, mean)):
        U[:], mean[:] = np.eye(3)[:, :1], 0.0
        np.testing.assert_array_equal(eraser(X), [[1.0, 0.0, 0.0]])
        U[:], mean[:] = 0.0, 7.0
        np.testing.assert_array_equal(eraser(X), [[1.0, 0.0, 0.0]])


def test_metadata_is_added_without_a_copy_of_the_arrays(eraser):
    more = eraser.with_metadata(n=4, source="a.parquet")
    assert more.metadata == {"method": "test", "n": 4, "source": "a.parquet"}
    assert eraser.metadata == {"method": "test", "n": 3}
    assert more.U is eraser.U


def test_oblique_reduces_to_its_range(rng):
    left = rng.normal(size=(6, 1))
    right = left / (left.T @ left)  # so that it is a projection
    eraser = Eraser((Oblique(left, right, np.zeros(6)),))
    X = rng.normal(size=(10, 6))
    assert eraser.rank == 5
    erased, reduced = eraser(X), eraser.reduce(X)
    assert reduced.shape == (10, 5)
    np.testing.assert_allclose(
        np.linalg.norm(erased - erased[0], axis=1), np.linalg.norm(reduced - reduced[0], axis=1)
    )


def test_file_keeps_everything(eraser, tmp_path, rng):
    mixed = Eraser((Compress(eraser.U), Expand(eraser.U)), {"classes": np.array(["a", "ü"])})
    X = rng.normal(size=(5, 6)).astype(np.float32)
    for original in (eraser, mixed):
        path = tmp_path / "deep" / "e.safetensors"
        original.save(path)
        loaded = load(path)
        np.testing.assert_array_equal(loaded(X), original(X))
        assert loaded.rank == original.rank
    assert loaded.metadata == {"classes": ["a", "ü"]}
    assert [p.name for p in path.parent.iterdir()] == ["e.safetensors"]  # no temporary file left


def test_bad_files(tmp_path):
    from safetensors.numpy import save_file

    with pytest.raises(FileNotFoundError, match="there is no such file"):
        load(tmp_path / "none.safetensors")
    junk = tmp_path / "junk.safetensors"
    junk.write_bytes(b"not at all")
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        load(junk)
    foreign = tmp_path / "foreign.safetensors"
    save_file({"weight": np.ones(3)}, foreign)
    with pytest.raises(ValueError, match="unspot did not write"):
        load(foreign)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((2, 5)), r"shape \(2, 5\), but expected \(…, 6\)"),
        (np.array([["a"] * 6]), "expected numbers"),
        (np.float64(1.0), r"expected \(…, 6\)"),
    ],
)
def test_bad_arrays(eraser, X, message):
    with pytest.raises(ValueError, match=message):
        eraser(X)


@pytest.mark.parametrize("make", [LEACE, lambda: Cascade(rank=2, random_state=0)])
def test_a_data_frame_must_have_the_columns_of_the_fit_in_its_order(make, rng, tmp_path):
    pd = pytest.importorskip("pandas")
    z = np.arange(80) % 2
    frame = pd.DataFrame(rng.normal(size=(80, 4)) + z[:, None], columns=list("abcd"))
    fitted = make().fit(frame, z)
    fitted.eraser_.save(tmp_path / "e.safetensors")
    eraser = load(tmp_path / "e.safetensors")
    assert eraser.metadata["features"] == list("abcd")
    np.testing.assert_array_equal(eraser(frame), fitted.transform(frame))
    np.testing.assert_array_equal(eraser(frame.to_numpy()), fitted.transform(frame))
    other_columns = {
        "in another order": frame[list("dcba")],
        "without d": frame[list("abc")],
        "with e": frame.assign(e=0.0),
    }
    for came, other in other_columns.items():
        for erase in (eraser, eraser.reduce, fitted.transform):
            message = "eature names" if erase == fitted.transform else came
            with pytest.raises(ValueError, match=message):
                erase(other)
    numbered = pd.DataFrame(frame.to_numpy())
    np.testing.assert_array_equal(eraser(numbered), eraser(frame))


def test_any_table_with_names_of_columns_is_checked(rng):
    pa = pytest.importorskip("pyarrow")
    eraser = Eraser.projection(np.eye(2)[:, :1], features=["a", "b"])
    table = pa.table({"a": [1.0], "b": [2.0]})
    assert eraser(table).tolist() == [[1.0, 0.0]]
    with pytest.raises(ValueError, match="in another order"):
        eraser(table.select(["b", "a"]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nan_and_infinity_are_refused_with_the_row(bad, dtype, eraser):
    X = np.ones((700, 6), dtype)
    assert np.isfinite(eraser(np.full((700, 6), np.finfo(dtype).max / 16, dtype))).all()
    X[[5, 600], 2] = bad
    for rows in (X, X.reshape(7, 100, 6), torch.tensor(X)):
        for erase in (eraser, eraser.transform, eraser.reduce):
            with pytest.raises(ValueError, match=r"2 values .*first in row 5\)"):
                erase(rows)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_column_of_vectors_is_taken_with_and_without_its_frame(library, rng):
    frames = pytest.importorskip(library)
    X, z = rng.normal(size=(60, 3)), np.arange(60) % 2
    frame = frames.DataFrame({"emb": X.tolist()})
    erased = LEACE().fit_transform(X, z)
    for rows in (frame, frame["emb"]):
        fitted = LEACE().fit(rows, z)
        np.testing.assert_allclose(fitted.transform(rows), erased)
        np.testing.assert_allclose(fitted.eraser_.transform(rows), erased)


def test_an_estimator_saves_its_eraser(rng, tmp_path):
    X, z = rng.normal(size=(60, 3)), np.arange(60) % 2
    fitted = LEACE().fit(X, z)
    fitted.save(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(
        load(tmp_path / "e.safetensors").transform(X), fitted.transform(X)
    )
    with pytest.raises(NotFittedError):
        LEACE().save(tmp_path / "none.safetensors")


def test_no_basis_where_there_is_none(rng):
    eraser = Eraser((Compress(np.eye(4)[:, :2]), Expand(np.eye(4)[:, :2])), {"method": "X"})
    with pytest.raises(ValueError, match="not one orthogonal projection and has no basis U"):
        _ = eraser.U
    assert eraser.reduce(np.ones(4)).shape == (2,)


def test_a_failed_save_leaves_the_old_file(eraser, tmp_path, monkeypatch):
    import os

    path = tmp_path / "e.safetensors"
    eraser.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        eraser.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["e.safetensors"]


def test_frames_of_several_types_of_numbers(rng):
    """As the estimator takes them."""
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    frame["c"], frame["d"] = rng.random(60) < 0.5, pd.array(rng.integers(5, size=60), dtype="Int64")
    fitted = LEACE().fit(frame, np.arange(60) % 2)
    np.testing.assert_allclose(fitted.eraser_(frame), fitted.transform(frame))
