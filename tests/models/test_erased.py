"""Embedding functions that erase, in the styles of those who call them."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from unspot import Eraser
from unspot.models import ErasedEmbeddings

ERASER = Eraser.projection(np.eye(3)[:, :2])


def vectors(texts):
    assert isinstance(texts, list)
    return np.array([[len(text), text.count("a"), 7.0] for text in texts])


class LangChain:
    def embed_documents(self, texts):
        return vectors(texts).tolist()

    def embed_query(self, text):
        return vectors(["query: " + text])[0].tolist()


class Chroma:
    def __call__(self, input):
        return [row.astype(np.float32) for row in vectors(input)]

    def embed_query(self, input):
        return self(["query: " + text for text in input])


class SentenceTransformers:
    def encode(self, texts):
        return vectors(texts).astype(np.float32)

    def encode_query(self, texts):
        return vectors(["query: " + text for text in texts])


@pytest.mark.parametrize("function", [LangChain(), Chroma(), SentenceTransformers(), vectors])
def test_documents_and_queries_are_erased_in_every_style(function):
    embeddings = ErasedEmbeddings(function, ERASER)
    documents = [[2.0, 1.0, 0.0], [4.0, 0.0, 0.0]]
    query = [2.0, 1.0, 0.0] if function is vectors else [9.0, 1.0, 0.0]
    assert embeddings.embed_documents(("ab", "bcde")) == documents
    assert embeddings.embed_query("ab") == query
    called = embeddings(["ab", "bcde"])
    assert [type(row) for row in called] == [np.ndarray, np.ndarray]
    assert called[0].dtype == np.float32
    assert np.array_equal(called, documents)
    assert np.array_equal(embeddings("ab"), documents[0])
    assert np.array_equal(embeddings.embed_query(["ab"]), [query])
    assert asyncio.run(embeddings.aembed_query("ab")) == query
    assert asyncio.run(embeddings.aembed_documents(["ab", "bcde"])) == documents


def test_no_texts_give_no_vectors():
    assert ErasedEmbeddings(lambda texts: [], ERASER).embed_documents([]) == []


def test_the_eraser_may_be_a_file(tmp_path):
    ERASER.save(tmp_path / "eraser.safetensors")
    embeddings = ErasedEmbeddings(vectors, tmp_path / "eraser.safetensors")
    assert embeddings.embed_query("ab") == [2.0, 1.0, 0.0]


def test_other_widths_and_things_that_make_no_vectors_are_refused():
    with pytest.raises(ValueError, match="fitted on 3 features"):
        ErasedEmbeddings(lambda texts: [[1.0, 2.0] for _ in texts], ERASER).embed_query("ab")
    with pytest.raises(ValueError, match=r"str.*embed_documents"):
        ErasedEmbeddings("text-embedding-3", ERASER)
