"""Programs: the steps of a chain of maps compute what the maps compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from unspot.maps import MAPS, Map, Projection, trace
from unspot.maps.program import INPUT, OPERATIONS

#: Maps whose steps depend on the row: they refuse to be traced.
WITHOUT_PROGRAM = {"gaussianised", "boundary"}


def applied(maps, x):
    for m in maps:
        x = m(x)
    return x


def computed(program, x):
    values = {INPUT: x}
    for name, array in program.constants.items():
        values[name] = array if name in program.double else array.astype(x.dtype)
    for step in program.steps:
        inputs = [values[i] if isinstance(i, str) else i for i in step.inputs]
        values[step.output] = OPERATIONS[step.operation](*inputs, **step.settings)
    return values[program.result]


def test_every_kind_of_map_has_a_chain(chains):
    """A new map is added to the chains in conftest.py, or nobody knows whether it has a program."""
    assert {m.kind for maps in chains.values() for m in maps} == MAPS.keys() - WITHOUT_PROGRAM


@pytest.mark.parametrize("shape", [(20, 12), (2, 3, 12), (12,)], ids=str)
def test_a_program_computes_what_the_maps_compute(chain, shape):
    x = np.random.default_rng(1).normal(size=shape)
    steps = trace(chain)
    result = computed(steps, x)
    np.testing.assert_allclose(result, applied(chain, x), rtol=1e-12, atol=1e-12)
    assert result.shape == (*shape[:-1], steps.n_out)
    assert steps.n_in == 12


def test_single_precision_is_close(chain):
    x = np.random.default_rng(1).normal(size=(200, 12)).astype(np.float32)
    result = computed(trace(chain), x)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, applied(chain, x.astype(float)), rtol=1e-5, atol=3e-5)


def test_a_step_uses_only_what_came_before(chain):
    steps = trace(chain)
    known = {"x", *steps.constants}
    for step in steps.steps:
        assert step.operation in OPERATIONS
        assert {i for i in step.inputs if isinstance(i, str)} <= known
        known.add(step.output)
    assert steps.result in known
    assert steps.double <= steps.constants.keys()


def test_a_basis_is_stored_once():
    U = np.eye(12)[:, :5]
    assert sum(c.size for c in trace([Projection(U)]).constants.values()) == U.size


def test_a_projection_goes_through_the_kept_coordinates():
    """Rows that differ only in what is removed give the same bits, in single precision too."""
    maps = [Projection(np.eye(12)[:, :5])]
    x = np.random.default_rng(2).normal(size=(50, 12)).astype(np.float32)
    y = x.copy()
    y[:, 5:] *= -1000
    np.testing.assert_array_equal(computed(trace(maps), x), computed(trace(maps), y))


@dataclass(frozen=True, eq=False)
class Sorted(Map):
    """x ↦ its sorted numbers, an operation that programs lack."""

    kind: ClassVar[str] = "sorted"

    def __call__(self, x):
        return x.sort(-1)


def test_an_operation_that_programs_lack_is_named():
    with pytest.raises(NotImplementedError, match=r"'sorted'.*sort.*matmul.*Call the eraser"):
        trace([Sorted()])
