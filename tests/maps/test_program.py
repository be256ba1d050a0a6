"""Programs: the steps of a chain of maps compute what the maps compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from unspot.maps import (
    MAPS,
    Cells,
    Compress,
    Dense,
    Expand,
    LayerNorm,
    Map,
    Mixture,
    Normalise,
    Nystrom,
    Oblique,
    Projection,
    Transport,
    trace,
)
from unspot.maps.program import OPERATIONS

D = 12


def chains():
    """At least one chain for every kind of map, and those that erasers are made of."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(D, D)))[0]
    mean, right = rng.normal(size=D), rng.normal(size=(D, 2))
    left = np.linalg.pinv(right).T  # so that the update is a projection
    flat = np.vstack([np.linalg.qr(rng.normal(size=(D - 1, D - 2)))[0], np.zeros((1, D - 2))])
    K = 3
    router = {"coef": rng.normal(size=(D, K)), "intercept": rng.normal(size=K)}
    shifts, matrices = rng.normal(size=(K, D)), rng.normal(size=(K, D, D))
    landmarks = rng.normal(size=(9, D))
    first = Dense(rng.normal(size=(D, 7)), rng.normal(size=7), relu=True)
    return {
        "projection": [Projection(U[:, :5])],
        "projection with mean": [Projection(U[:, :5], mean)],
        "large projection": [Projection(U[:, : D - 1], mean)],
        "large projection, constant column": [Projection(flat, mean)],
        "oblique": [Oblique(left, right, mean)],
        "compress": [Compress(U[:, :5])],
        "cascade": [Oblique(left, right, mean), Compress(U[:, :5]), Expand(U[:, :5])],
        "network": [first, LayerNorm(7), Dense(rng.normal(size=(7, D)), rng.normal(size=D))],
        "layer_norm": [LayerNorm(D)],
        "nystrom": [Nystrom(landmarks, rng.normal(size=(9, 4)), bandwidth=3.0)],
        "transport": [Transport(shifts, matrices, **router)],
        "transport by shifts": [Transport(shifts, **router)],
        "mixture": [Mixture(shifts[:, :4], matrices[:, :, :4], **router)],
        "cells": [Cells(landmarks)],
        "normalise": [Projection(U[:, :5]), Normalise(D)],
    }


CHAINS = chains()
KINDS = {m.kind for maps in CHAINS.values() for m in maps}


def applied(maps, x):
    for m in maps:
        x = m(x)
    return x


@pytest.mark.parametrize("kind", MAPS)
def test_every_kind_of_map_has_a_chain_here(kind):
    """A new map is added to the chains above, or it cannot be exported and nobody knows."""
    assert kind in KINDS


@pytest.mark.parametrize("shape", [(20, D), (2, 3, D), (D,)], ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_a_program_computes_what_the_maps_compute(name, shape):
    maps, x = CHAINS[name], np.random.default_rng(1).normal(size=shape)
    steps = trace(maps)
    np.testing.assert_allclose(steps(x), applied(maps, x), rtol=1e-12, atol=1e-12)
    assert steps(x).shape == (*shape[:-1], steps.n_out)
    assert steps.n_in == D


@pytest.mark.parametrize("name", CHAINS)
def test_single_precision_is_close(name):
    maps, x = CHAINS[name], np.random.default_rng(1).normal(size=(200, D)).astype(np.float32)
    result = trace(maps)(x)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, applied(maps, x.astype(float)), rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize("name", CHAINS)
def test_a_step_uses_only_what_came_before(name):
    steps = trace(CHAINS[name])
    known = {"x", *steps.constants}
    for step in steps.steps:
        assert step.operation in OPERATIONS
        assert {i for i in step.inputs if isinstance(i, str)} <= known
        known.add(step.output)
    assert steps.result in known
    assert steps.double <= steps.constants.keys()


def test_a_basis_is_stored_once():
    U = np.eye(D)[:, :5]
    assert sum(c.size for c in trace([Projection(U)]).constants.values()) == U.size


def test_a_projection_goes_through_the_kept_coordinates():
    """Rows that differ only in what is removed give the same bits, in single precision too."""
    maps = [Projection(np.eye(D)[:, :5])]
    x = np.random.default_rng(2).normal(size=(50, D)).astype(np.float32)
    y = x.copy()
    y[:, 5:] *= -1000
    np.testing.assert_array_equal(trace(maps)(x), trace(maps)(y))


@dataclass(frozen=True, eq=False)
class Sorted(Map):
    """x ↦ its sorted numbers, an operation that programs lack."""

    kind: ClassVar[str] = "sorted"

    def __call__(self, x):
        return x.sort(-1)


def test_an_operation_that_programs_lack_is_named():
    with pytest.raises(NotImplementedError, match=r"'sorted'.*sort.*matmul.*Call the eraser"):
        trace([Sorted()])
