"""Export to a sentence-transformers folder by command, and unit norm by command."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from unspot import Eraser, load
from unspot.cli import app

TEXTS = ["she is a nurse", "he", "a poet who lives far from here"]


@pytest.fixture
def files(sentence_model, tmp_path):
    sentence_model.save_pretrained(str(tmp_path / "model"))
    Eraser.projection(np.eye(16)[:, :9]).normalised().save(tmp_path / "eraser.safetensors")
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output


def test_an_exported_model_and_an_eraser_after_the_model_give_the_same(files, sentence_model):
    from sentence_transformers import SentenceTransformer

    eraser = load(files / "eraser.safetensors")
    expected = eraser(sentence_model.encode(TEXTS))
    run("export", files / "eraser.safetensors", "--to", "sentence-transformers",
        "-m", files / "model", "-o", files / "clean")  # fmt: skip
    clean = SentenceTransformer(str(files / "clean"), device="cpu")
    np.testing.assert_allclose(clean.encode(TEXTS), expected, atol=2e-6)


def test_fit_normalise(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", X=rng.normal(size=(60, 4)), z=np.arange(60) % 2)
    run("fit", tmp_path / "data.npz", "-f", "X", "-c", "z", "-m", "leace", "--set",
        "normalise=true", "-o", tmp_path / "eraser.safetensors")  # fmt: skip
    eraser = load(tmp_path / "eraser.safetensors")
    np.testing.assert_allclose(np.linalg.norm(eraser(rng.normal(size=(5, 4))), axis=1), 1.0)
