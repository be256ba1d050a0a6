"""A tiny sentence-transformers model, made here from a config."""

from __future__ import annotations

import json

import pytest
import torch
import transformers

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    """The folder of a random BERT of one layer, 16 wide."""
    folder = tmp_path_factory.mktemp("tiny-bert")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS]
    vocabulary += [f"##{letter}" for letter in LETTERS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    settings = {"tokenizer_class": "BertTokenizer", "model_max_length": 40}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def sentence_model(tiny_bert):
    """Mean pooling and unit norm behind that BERT."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    return SentenceTransformer(
        modules=[
            modules.Transformer(str(tiny_bert)),
            modules.Pooling(16, "mean"),
            modules.Normalize(),
        ],
        device="cpu",
        prompts={"query": "ask "},
    )
