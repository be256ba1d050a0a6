"""Presets, and the closed form of the mean heuristic."""

from __future__ import annotations

import pytest
import torch

from unspot.leopard import GaussianMixture, mean_bandwidth


def test_paper_preset_is_the_text_of_the_paper():
    # exp(−d²/2(ασ)²) with α = ⅛, ¼, ½, 1, 2.
    assert GaussianMixture.paper().multipliers == tuple(
        2 * a**2 for a in (1 / 8, 1 / 4, 1 / 2, 1, 2)
    )
    d2 = torch.tensor([0.3, 2.0])
    by_hand = sum(torch.exp(-d2 / (2 * (a * 1.5) ** 2)) for a in (1 / 8, 1 / 4, 1 / 2, 1, 2))
    torch.testing.assert_close(GaussianMixture.paper()(d2, 1.5**2), by_hand)


@pytest.mark.parametrize(
    ("n", "expected"),
    [(1, [1]), (2, [0.5, 1]), (5, [0.25, 0.5, 1, 2, 4]), (10, [2.0**e for e in range(-5, 5)])],
)
def test_reference_preset_is_what_made_the_tables(n, expected):
    assert GaussianMixture.reference(n).multipliers == tuple(expected)


@pytest.mark.parametrize("n", [1, 2, 5, 10])
def test_paper_preset_has_as_many_kernels_as_asked(n):
    multipliers = GaussianMixture.paper(n).multipliers
    assert len(multipliers) == n
    assert 2.0 in multipliers  # α = 1: the mean heuristic itself


def test_mean_heuristic_in_closed_form():
    Y = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    d2 = ((Y[:, None] - Y[None]) ** 2).sum(-1)
    assert float(mean_bandwidth(Y)) == pytest.approx(float(d2.sum() / (40 * 39)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"multipliers": ()}, "one or more positive numbers"),
        ({"multipliers": (0.0,)}, "one or more positive numbers"),
        ({"multipliers": (1.0,), "bandwidth": "median"}, "'pooled' or 'pair' or a positive"),
        ({"multipliers": (1.0,), "bandwidth": -1.0}, "'pooled' or 'pair' or a positive"),
    ],
)
def test_bad_kernels(arguments, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(**arguments)


def test_no_kernels():
    with pytest.raises(ValueError, match="n_kernels=0"):
        GaussianMixture.paper(0)
