"""One step of density matching, compared with dense autograd and with its matrix products."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from unspot.leopard import GaussianMixture, PairWeights, discrepancy_and_grad


def run(rows: int = 8192, rank: int = 125, big_rows: int = 32_768) -> dict[str, Any]:
    """Measure time and peak memory of one loss and gradient (K = 2, float32)."""
    g = torch.Generator().manual_seed(0)
    z = torch.arange(rows) % 2
    Y = torch.randn(rows, rank, generator=g) + 0.1 * z[:, None]
    tiled, products = (
        _best(lambda: discrepancy_and_grad(Y, PairWeights.between(z))),
        _best(lambda: _products(Y)),
    )
    began = time.perf_counter()
    gradient = _dense(Y, z)  # only once: it takes long and needs several GB
    dense = time.perf_counter() - began
    ours = discrepancy_and_grad(Y, PairWeights.between(z))[1]
    return {
        "rows": rows,
        "rank": rank,
        "threads": torch.get_num_threads(),
        "tiled_seconds": tiled,
        "dense_autograd_seconds": dense,
        "products_seconds": products,
        "times_faster_than_dense": dense / tiled,
        "times_the_products": tiled / products,
        "gradient_relative_difference": float((gradient - ours).norm() / gradient.norm()),
        "big_rows": big_rows,
        "big_memory_above_inputs_MB": _memory(big_rows, rank),
    }


def _best(step: Callable[[], Any], repeat: int = 5) -> float:
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return min(times)


def _products(Y: torch.Tensor) -> None:
    """Compute only the products of a step, 1.5 times 2·b²·r operations, in pieces."""
    half = Y[: len(Y) // 2]
    for part in half.split(1024):
        # For half of the rows: the products of all distances, and both halves of the gradient.
        tile = part @ Y.T
        tile @ Y
        tile.T @ part


def _dense(Y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Compute Eqs. 4–6 with n×n matrices and autograd."""
    Y = Y.clone().requires_grad_()
    d2 = torch.cdist(Y, Y).square()
    n = len(Y)
    kernel = GaussianMixture.paper()
    k = kernel(d2, d2.sum() / (n * n - n))
    k = k - torch.diag(k.diagonal())
    a = (z == 0).to(Y.dtype)
    b = 1 - a
    na, nb = a.sum(), b.sum()
    loss = a @ k @ a / (na * (na - 1)) + b @ k @ b / (nb * (nb - 1)) - 2 * (a @ k @ b) / (na * nb)
    (gradient,) = torch.autograd.grad(loss, Y)
    return gradient


def _memory(rows: int, rank: int) -> float:
    """Measure peak resident memory above the inputs, in a separate process."""
    program = f"from benchmarks.density import peak; print(peak({rows}, {rank}))"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    return float(run.stdout)


def peak(rows: int, rank: int) -> float:
    """Measure MB above the memory before the step."""
    Y, z = torch.randn(rows, rank), torch.arange(rows) % 2
    discrepancy_and_grad(Y[:600], PairWeights.between(z[:600]))
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = _status("VmRSS")
    discrepancy_and_grad(Y, PairWeights.between(z))
    return (_status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    """Read a value from the status of this process in Linux, in kB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


if __name__ == "__main__":
    for key, value in run().items():
        print(f"{key:32} {value}")
