"""ONNX files, and transforms of faiss: the same numbers as the eraser."""

from __future__ import annotations

import json

import faiss
import numpy as np
import onnx
import onnxruntime
import pytest

from unspot import LEACE, Eraser
from unspot.erasers import Transport
from unspot.export.layers import layers
from unspot.lab import AdversarialErasure, FaRM, KernelErasure, MomentMatching


def rows(d: int = 12, n: int = 40) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(n, d)).astype(np.float32)


def run_onnx(path, X):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(["erased"], {"embeddings": X})[0]


# -- ONNX ----------------------------------------------------------------------------------------


def test_onnx_gives_the_same_rows(chain, tmp_path):
    eraser, X = Eraser(tuple(chain)), rows()
    eraser.to_onnx(tmp_path / "eraser.onnx")
    result = run_onnx(tmp_path / "eraser.onnx", X)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, eraser(X), rtol=1e-5, atol=1e-6)
    one = run_onnx(tmp_path / "eraser.onnx", X[:1])  # any number of rows
    np.testing.assert_allclose(one, result[:1], rtol=1e-5, atol=1e-6)


def test_onnx_files_are_checked_small_and_the_same_for_the_same_eraser(tmp_path):
    eraser = Eraser.projection(np.eye(40)[:, :5], concept_name="sex", known_rows=["secret"])
    eraser.to_onnx(tmp_path / "a.onnx")
    eraser.to_onnx(tmp_path / "b.onnx")
    content = (tmp_path / "a.onnx").read_bytes()
    assert content == (tmp_path / "b.onnx").read_bytes()
    assert len(content) < 40 * 5 * 8 + 2000
    model = onnx.load(tmp_path / "a.onnx")
    facts = {prop.key: json.loads(prop.value) for prop in model.metadata_props}["unspot"]
    assert facts == {"concept_name": "sex"}


FITTED = {
    "leace": LEACE(normalise=True),
    "farm": FaRM(training={"epochs": 1}, random_state=0),
    "kernel": KernelErasure(training={"epochs": 1}, n_landmarks=10, random_state=0),
    "adversarial": AdversarialErasure(training={"epochs": 1}, random_state=0),
    "matching": MomentMatching(),
    "transport": Transport(),
}


@pytest.fixture(scope="module")
def labelled():
    rng = np.random.default_rng(0)
    z = np.arange(200) % 2
    return (rng.normal(size=(200, 8)) + z[:, None]).astype(np.float32), z


@pytest.mark.parametrize("name", FITTED)
def test_files_of_fitted_methods(name, labelled, tmp_path):
    X, z = labelled
    eraser = FITTED[name].fit(X, z).eraser_
    eraser.to_onnx(tmp_path / "eraser.onnx")
    scale = np.abs(eraser(X)).max()
    np.testing.assert_allclose(
        run_onnx(tmp_path / "eraser.onnx", X), eraser(X), rtol=1e-5, atol=1e-5 * scale
    )


def test_an_eraser_that_needs_labels_says_so(labelled, tmp_path):
    eraser = MomentMatching(labels="given").fit(*labelled).eraser_
    with pytest.raises(ValueError, match="labels='predicted'"):
        eraser.to_onnx(tmp_path / "eraser.onnx")
    assert not list(tmp_path.iterdir())


# -- faiss ---------------------------------------------------------------------------------------


def test_layers_are_the_maps(chain):
    found, X = layers(chain), rows().astype(np.float64)
    if found is None:
        assert any(not m.linear and m.kind not in ("dense", "normalise") for m in chain)
        return
    Y = X
    for layer in found.layers:
        Y = Y @ layer.weight.T + (0 if layer.bias is None else layer.bias)
        Y = np.maximum(Y, 0) if layer.relu else Y
    if found.normalise:
        Y = Y / np.linalg.norm(Y, axis=1)[:, None]
    np.testing.assert_allclose(Y, Eraser(tuple(chain))(X), atol=1e-9)


AFFINE = ["projection", "projection with mean", "large projection", "oblique", "cascade"]


@pytest.mark.parametrize("name", [*AFFINE, "normalise", "normalised update", "compress"])
def test_faiss_erases_what_is_added_and_what_is_searched(name, chains, tmp_path):
    eraser, X = Eraser(tuple(chains[name])), rows(n=200)
    erased = eraser(X)
    index = eraser.to_faiss(faiss.IndexFlatL2(erased.shape[1]))
    index.add(X)
    faiss.write_index(index, str(tmp_path / "index.faiss"))
    read = faiss.read_index(str(tmp_path / "index.faiss"))
    plain = faiss.IndexFlatL2(erased.shape[1])
    plain.add(erased)
    for built in (index, read):
        distances, found = built.search(X[:20], 3)
        expected, numbers = plain.search(erased[:20], 3)
        np.testing.assert_array_equal(found, numbers)
        np.testing.assert_allclose(distances, expected, atol=1e-4)
    np.testing.assert_allclose(read.index.reconstruct_n(0, 200), erased, atol=1e-5)


def test_an_index_that_must_be_trained_is_trained_on_erased_vectors():
    eraser, X = Eraser.projection(np.eye(12)[:, :6]), rows(n=400)
    index = eraser.to_faiss(faiss.IndexIVFFlat(faiss.IndexFlatL2(12), 12, 4))
    index.train(X)
    index.add(X)
    assert index.search(X[:5], 1)[1].ravel().tolist() == [0, 1, 2, 3, 4]
    centres = faiss.downcast_index(index.index).quantizer.reconstruct_n(0, 4)
    assert not centres[:, 6:].any()


def test_vectors_in_an_index_hold_no_rounding_errors_of_what_was_removed(rng):
    """Single precision: a product with a square matrix would leave a tiny copy of the concept."""
    Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    kept, removed = rng.normal(size=(500, 20)), rng.normal(size=(500, 10))
    removed[:, 0] = 1000.0 * np.where(np.arange(500) % 2, 1, -1)
    X = np.hstack([kept, removed]) @ Q.T
    index = Eraser.projection(Q[:, :20]).to_faiss(faiss.IndexFlatL2(30))
    index.add(X.astype(np.float32))
    residue = index.index.reconstruct_n(0, 500).astype(np.float64) @ Q[:, 20:]
    signal = np.abs(residue[1::2].mean(0) - residue[::2].mean(0))
    assert (signal < 5 * residue.std(0) / np.sqrt(125)).all()


def test_bad_indexes_are_refused(chains):
    eraser = Eraser.projection(np.eye(12)[:, :6])
    with pytest.raises(ValueError, match=r"11 dimensions.*expected 12"):
        eraser.to_faiss(faiss.IndexFlatL2(11))
    with pytest.raises(ValueError, match=r"list.*faiss\.IndexFlatIP\(12\)"):
        eraser.to_faiss([])
    full = faiss.IndexFlatL2(12)
    full.add(rows())
    with pytest.raises(ValueError, match=r"40 vectors.*empty"):
        eraser.to_faiss(full)
    for name in ("mixture", "layers"):
        maps = tuple(chains[name])
        with pytest.raises(ValueError, match=r"affine.*index\.add\(eraser\(X\)\)"):
            Eraser(maps).to_faiss(faiss.IndexFlatL2(maps[-1].n_out))


@pytest.mark.parametrize("package", ["onnx", "faiss", "sentence_transformers"])
def test_a_missing_package_names_the_extra(package, monkeypatch, tmp_path):
    monkeypatch.setattr("unspot.checks.find_spec", lambda name: None)
    eraser = Eraser.projection(np.eye(12)[:, :6])
    calls = {
        "onnx": lambda: eraser.to_onnx(tmp_path / "eraser.onnx"),
        "faiss": lambda: eraser.to_faiss(None),
        "sentence_transformers": lambda: eraser.to_sentence_transformer(None),
    }
    with pytest.raises(ImportError, match=rf"{package}.*unspot\[models\]"):
        calls[package]()


def test_a_column_of_tiny_numbers_does_not_hide_the_others(labelled, tmp_path):
    """As in MiniLM, one of whose columns is of size 1e-33: LEACE has a factor of 1e30 there."""
    X, z = labelled
    X = X.copy()
    X[:, 3] *= 1e-33
    eraser = LEACE().fit(X, z).eraser_
    assert np.abs(eraser.P).max() > 1e25
    assert eraser.rank == eraser.reduce(X).shape[1] == 7
    index = eraser.to_faiss(faiss.IndexFlatL2(8))
    index.add(X)
    np.testing.assert_allclose(index.index.reconstruct_n(0, 200), eraser(X), atol=1e-5)
    distances = np.linalg.norm(eraser(X)[0] - eraser(X), axis=1)
    reduced = np.linalg.norm(eraser.reduce(X)[0] - eraser.reduce(X), axis=1)
    np.testing.assert_allclose(reduced, distances, atol=1e-5)
