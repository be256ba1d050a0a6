"""Commands with a sentence-transformers folder: exported, and embedded with all its modules."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from unspot import Eraser, load
from unspot.cli import app
from unspot.models import embed_texts

TEXTS = ["she is a nurse", "he", "a poet who lives far from here"]


@pytest.fixture
def files(sentence_model, tmp_path):
    sentence_model.save_pretrained(str(tmp_path / "model"))
    Eraser.projection(np.eye(16)[:, :9]).normalised().save(tmp_path / "eraser.safetensors")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output


def test_an_exported_model_and_an_eraser_after_the_model_give_the_same(files, sentence_model):
    eraser = load(files / "eraser.safetensors")
    expected = eraser(sentence_model.encode(TEXTS))
    run("export", files / "eraser.safetensors", "--to", "sentence-transformers",
        "-m", files / "model", "-o", files / "clean")  # fmt: skip
    run("embed", files / "texts.txt", "-m", files / "clean", "-o", files / "a.npy")
    run("embed", files / "texts.txt", "-m", files / "model", "-o", files / "b.npy",
        "--eraser", files / "eraser.safetensors")  # fmt: skip
    for name in ("a.npy", "b.npy"):
        np.testing.assert_allclose(np.load(files / name), expected, atol=2e-6)


def test_pooling_that_is_asked_for_leaves_the_other_modules_out(files, sentence_model):
    whole = embed_texts(TEXTS, files / "model")
    np.testing.assert_allclose(whole, sentence_model.encode(TEXTS), atol=1e-6)
    plain = embed_texts(TEXTS, files / "model", pooling="mean")
    np.testing.assert_allclose(plain / np.linalg.norm(plain, axis=1)[:, None], whole, atol=1e-5)
    assert not np.allclose(np.linalg.norm(plain, axis=1), 1.0, atol=1e-3)


def test_fit_normalise(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", X=rng.normal(size=(60, 4)), z=np.arange(60) % 2)
    run("fit", tmp_path / "data.npz", "-f", "X", "-c", "z", "-m", "leace", "--normalise",
        "-o", tmp_path / "eraser.safetensors")  # fmt: skip
    eraser = load(tmp_path / "eraser.safetensors")
    np.testing.assert_allclose(np.linalg.norm(eraser(rng.normal(size=(5, 4))), axis=1), 1.0)
