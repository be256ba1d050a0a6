"""``unspot export``: files that other systems run, without unspot."""

from __future__ import annotations

import subprocess
import sys

import faiss
import numpy as np
import onnxruntime
import pytest
from typer.testing import CliRunner

from unspot import Eraser
from unspot.cli import app, main
from unspot.maps import Mixture, Normalise, Projection

X = np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32)


def mixture() -> Mixture:
    rng = np.random.default_rng(1)
    return Mixture(*(rng.normal(size=shape) for shape in [(2, 6), (2, 6, 6), (6, 2), (2,)]))


ERASERS = {
    "projection": (Projection(np.eye(6)[:, :4]), Normalise(6)),
    "mixture": (mixture(),),
}


@pytest.fixture
def eraser(tmp_path):
    saved = Eraser(ERASERS["projection"])
    saved.save(tmp_path / "gender.safetensors")
    return saved


def run(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def test_every_target_erases_the_same(eraser, tmp_path):
    path = tmp_path / "gender.safetensors"
    for target in ("onnx", "torch", "faiss"):
        result = run(path, "--to", target)
        assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(tmp_path / "gender.onnx")
    (erased,) = session.run(["erased"], {"embeddings": X})
    np.testing.assert_allclose(erased, eraser(X), atol=1e-6)
    index = faiss.read_index(str(tmp_path / "gender.faiss"))
    index.add(X)
    np.testing.assert_allclose(index.index.reconstruct_n(0, 7), eraser(X), atol=1e-6)
    assert index.metric_type == faiss.METRIC_INNER_PRODUCT


def test_torch_runs_them_without_unspot(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    for name, maps in ERASERS.items():
        Eraser(maps).save(tmp_path / f"{name}.safetensors")
        assert run(tmp_path / f"{name}.safetensors", "--to", "torch").exit_code == 0
    code = (
        "import sys; sys.modules['unspot'] = None\nimport numpy, torch\n"
        "rows = torch.from_numpy(numpy.load('rows.npy'))\n"
        f"for name in {list(ERASERS)}:\n"
        "    erase = torch.export.load(name + '.pt2').module()\n"
        "    numpy.save(name + '.npy', erase(rows).numpy())"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    for name, maps in ERASERS.items():
        erased = np.load(tmp_path / f"{name}.npy")
        np.testing.assert_allclose(erased, Eraser(maps)(X), rtol=1e-5, atol=1e-5)


def test_bad_input_is_refused_in_a_sentence(eraser, tmp_path, capsys):
    path = tmp_path / "gender.safetensors"

    def message(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["export", str(path), *map(str, arguments)])
        assert end.value.code == 2
        return capsys.readouterr().err

    assert "ends in .onnx" in message("--to", "onnx", "-o", tmp_path / "gender.bin")
    assert "without --model" in message("--to", "sentence-transformers", "-o", tmp_path / "new")
    assert "with --model" in message("--to", "onnx", "--model", "x")
    (tmp_path / "gender.onnx").write_text("mine")
    assert "--force" in message("--to", "onnx")
    assert (tmp_path / "gender.onnx").read_text() == "mine"
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").touch()
    arguments = ("--to", "sentence-transformers", "-m", "x", "-o", tmp_path / "model")
    assert "exists already" in message(*arguments)
    assert "folder" in message("--to", "sentence-transformers", "-m", "x")
    gone = message("--to", "sentence-transformers", "-m", tmp_path / "gone", "-o", tmp_path / "n")
    assert "no such folder" in gone
    Eraser(ERASERS["mixture"]).save(path)
    assert "affine" in message("--to", "faiss")
    assert not (tmp_path / "gender.faiss").exists()
