"""The paper's description length: its ceiling, and that it is no code."""

import numpy as np
import pytest

from unspot.data.concept import Classes
from unspot.lab.description_length import paper_bits


@pytest.mark.parametrize(("n", "d", "shares"), [(2000, 5, (0.5, 0.5)), (3000, 30, (0.7, 0.2, 0.1))])
def test_the_papers_scheme_saturates_at_its_ceiling(n, d, shares):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 3
    z = rng.choice(len(shares), size=n, p=shares)
    of_classes = np.bincount(z) / n
    entropy = -(of_classes * np.log2(of_classes)).sum()
    ceiling = n * (0.001 * np.log2(len(shares)) + 2.001 * entropy)
    assert paper_bits(X, Classes.read(z)) == pytest.approx(ceiling, rel=0.03)


def test_informative_labels_cost_less_and_presets_are_worse():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    z = Classes.read(X[:, 0] > 0)
    reference = paper_bits(X, z, probe="reference")
    assert reference < 2 * 600
    assert paper_bits(X, z, probe="paper") > reference
