"""Projector identities, and the paper's appendix B."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspot.leopard import complement, nearest_projector


def projection_loss(U):
    """Equation 3."""
    return float(np.sum((U.T @ U - np.eye(U.shape[1])) ** 2))


@settings(max_examples=40, deadline=None)
@given(d=st.integers(1, 12), data=st.data())
def test_appendix_b_distance_to_nearest_projector_is_the_projection_loss(d, data):
    r = data.draw(st.integers(1, d))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    U = np.eye(d, r) + 0.3 * rng.normal(size=(d, r))
    Q = nearest_projector(U)
    P = Q @ Q.T
    np.testing.assert_allclose(P @ P, P, atol=1e-12)
    np.testing.assert_allclose(np.trace(P), r, rtol=1e-12)
    distance = np.sum((U @ U.T - P) ** 2)
    np.testing.assert_allclose(distance, projection_loss(U), rtol=1e-9, atol=1e-12)


def test_nearest_projector_is_the_top_eigenspace(rng):
    U = rng.normal(size=(7, 3))
    _, vectors = np.linalg.eigh(U @ U.T)
    top = vectors[:, -3:]
    Q = nearest_projector(U)
    np.testing.assert_allclose(Q @ Q.T, top @ top.T, atol=1e-10)


def test_no_projector_of_that_rank_is_nearer(rng):
    U = np.eye(6, 2) + 0.2 * rng.normal(size=(6, 2))
    best = projection_loss(U)
    for _ in range(200):
        Q = nearest_projector(rng.normal(size=(6, 2)))
        assert np.sum((U @ U.T - Q @ Q.T) ** 2) >= best - 1e-12


@pytest.mark.parametrize("q", [0, 1, 4, 5])
def test_complement_completes_the_space(rng, q):
    Q = nearest_projector(rng.normal(size=(5, q))) if q else np.zeros((5, 0))
    R = complement(Q)
    np.testing.assert_allclose(Q @ Q.T + R @ R.T, np.eye(5), atol=1e-12)


def test_subspaces_need_no_torch():
    program = (
        "import sys, unspot.leopard, unspot.data.dataset, unspot.data.rows, unspot.data.rows\n"
        "from unspot.leopard import complement, start\n"
        "print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert run.stdout.strip() == b"False"
