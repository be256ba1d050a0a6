"""``unspot embed`` from texts to a file that the other commands read."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from unspot.cli import app, main
from unspot.io import read_table
from unspot.models.embedding import embed_texts

transformers = pytest.importorskip(
    "transformers", reason='transformers is not installed: pip install "unspot[text]"'
)
torch = pytest.importorskip("torch")
pytest.importorskip("pyarrow", reason='pyarrow is not installed: pip install "unspot[io]"')

TEXTS = ["she is a nurse", "he", "a poet who lives far from here", "dj"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A random BERT of one layer, 8 wide."""
    folder = tmp_path_factory.mktemp("tiny-bert")
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    vocabulary += [f"##{letter}" for letter in letters]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    config = {"tokenizer_class": "BertTokenizer", "model_max_length": 40}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.BertModel(
            transformers.BertConfig(
                vocab_size=len(vocabulary),
                hidden_size=8,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=16,
                max_position_embeddings=40,
            )
        ).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def bios(tmp_path):
    rows = [f"{text},{gender}" for text, gender in zip(TEXTS, "fmmf", strict=True)]
    (tmp_path / "bios.csv").write_text("\n".join(["bio,gender", *rows]) + "\n")
    return tmp_path / "bios.csv"


def run(*arguments):
    return CliRunner().invoke(app, ["embed", *map(str, arguments)])


def failed(capsys, *arguments):
    """What the program says on the error stream, after it ended with a user's error."""
    with pytest.raises(SystemExit) as ended:
        main(["embed", *map(str, arguments)])
    assert ended.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_a_table_comes_out_with_vectors_and_labels(bios, model, tmp_path):
    out = tmp_path / "out.parquet"
    result = run(bios, "--text", "bio", "--model", model, "-o", out)
    assert result.exit_code == 0, result.output
    assert "4 texts as vectors of 8 numbers" in result.output
    table = read_table(out, concept="gender", names="bio")
    assert table.z.tolist() == list("fmmf")
    assert table.names.tolist() == TEXTS
    np.testing.assert_array_equal(table.X, embed_texts(TEXTS, model))


def test_an_array_comes_out(bios, model, tmp_path):
    out = tmp_path / "out.npy"
    result = run(bios, "--text", "bio", "-m", model, "--pooling", "mean", "-o", out, "--quiet")
    assert result.exit_code == 0, result.output
    assert result.output == ""
    np.testing.assert_array_equal(np.load(out), embed_texts(TEXTS, model, pooling="mean"))


def test_options_reach_the_model(bios, model, tmp_path):
    out = tmp_path / "out.parquet"
    options = ("--max-length", 8, "--batch-size", 2, "--device", "cpu", "--column", "bert")
    assert run(bios, "--text", "bio", "-m", model, "-o", out, *options).exit_code == 0
    X = read_table(out, features="bert").X
    np.testing.assert_allclose(X, embed_texts(TEXTS, model, max_length=8), rtol=1e-4, atol=1e-5)


def test_pickled_biographies_become_what_the_loader_reads(model, tmp_path):
    from unspot.lab import load_bias_in_bios

    for split in ("train", "dev", "test"):
        records = [
            {"g": g, "p": "poet", "hard_text": t} for g, t in zip("fmmf", TEXTS, strict=True)
        ]
        (tmp_path / f"{split}.pickle").write_bytes(pickle.dumps(records))
        out = tmp_path / f"{split}_cls.npy"
        result = run(tmp_path / f"{split}.pickle", "--text", "hard_text", "-m", model, "-o", out)
        assert result.exit_code == 0, result.output
    data = load_bias_in_bios(tmp_path)
    assert data.train.z.tolist() == ["female", "male", "male", "female"]
    np.testing.assert_array_equal(data.test.X, embed_texts(TEXTS, model))


def test_an_existing_file_is_replaced_only_by_force(bios, model, tmp_path, capsys):
    out = tmp_path / "out.npy"
    out.write_text("mine")
    arguments = (bios, "--text", "bio", "-m", model, "-o", out)
    message = failed(capsys, *arguments)
    assert "exists already" in message
    assert "--force" in message
    assert out.read_text() == "mine"
    assert run(*arguments, "--force").exit_code == 0
    assert np.load(out).shape == (4, 8)


def test_mistakes_are_found_before_the_model_is_loaded(bios, tmp_path, capsys):
    absent = tmp_path / "no-model-here"
    both = ("-m", absent, "-o")
    assert "ends in .npy or .parquet" in failed(capsys, bios, "--text", "bio", *both, "out.csv")
    assert "Did you mean 'bio'" in failed(capsys, bios, "--text", "boi", *both, "out.npy")
    out = tmp_path / "out.parquet"
    options = ("--column", "gender")
    assert "Give the vectors another name" in failed(
        capsys, bios, "--text", "bio", *both, out, *options
    )
    assert "there is no such folder" in failed(capsys, bios, "--text", "bio", *both, out)
    assert not out.exists()


def test_blank_texts_are_refused_with_their_row(model, tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("bio,x\na,1\n  ,2\n")
    message = failed(capsys, path, "--text", "bio", "-m", model, "-o", tmp_path / "out.npy")
    assert "blank" in message
    assert "row 1" in message


def test_without_transformers_the_program_says_what_to_install(
    bios, model, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "transformers", None)
    message = failed(capsys, bios, "--text", "bio", "-m", model, "-o", tmp_path / "out.npy")
    assert 'pip install "unspot[text]"' in message


def test_the_command_is_listed_and_its_help_loads_no_model():
    code = (
        "import sys; from typer.testing import CliRunner; from unspot.cli import app\n"
        "print(CliRunner().invoke(app, ['embed', '--help']).output)\n"
        "print([m for m in ('torch', 'transformers', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--pooling" in done.stdout
    assert done.stdout.strip().endswith("[]")
