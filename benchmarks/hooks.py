"""A forward pass with an affine eraser on every layer, compared with the bare pass."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertModel

from unspot import LEACE, Eraser, hooks

#: The shape of MiniLM-L6, which has half of the layers and of the width of BERT-base.
WIDTH, LAYERS, HEADS = 384, 6, 12


def run(batch: int = 32, length: int = 128, repeat: int = 7) -> dict[str, Any]:
    """CPU time of passes in turn, one thread; the median of the ratios of neighbours."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=1000,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
    )
    model = BertModel(config).eval()
    ids = torch.randint(1000, (batch, length))
    figures: dict[str, Any] = {"batch": batch, "length": length, "width": WIDTH, "layers": LAYERS}
    for name, eraser in _erasers().items():
        ratios = []
        for _ in range(repeat):
            bare = _seconds(model, ids)
            with hooks(model, {"encoder.layer.*": eraser}):
                ratios.append(_seconds(model, ids) / bare)
        figures[f"{name}_times_the_bare_pass"] = statistics.median(ratios)
    return figures


def _erasers() -> dict[str, Eraser]:
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(2000, WIDTH)), np.arange(2000) % 2
    U = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH // 2)))[0]
    return {"leace": LEACE().fit(X, z).eraser_, "projection_to_half": Eraser.projection(U)}


def _seconds(model: torch.nn.Module, ids: torch.Tensor) -> float:
    began = time.process_time()
    with torch.inference_mode():
        model(ids)
    return time.process_time() - began
