"""What all tests share: seeded laws, and which tests are slow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

#: Made by tools/list_slow_tests.py.
SLOW = set(Path(__file__).with_name("slow_tests.txt").read_text(encoding="utf-8").split())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that ``make test-fast`` leaves out."""
    for item in items:
        if item.nodeid.split("[")[0] in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def variance_coded() -> tuple[np.ndarray, np.ndarray]:
    """600 × 8, two classes that differ in the variance of two rotated directions only."""
    rng = np.random.default_rng(1)
    z = np.repeat([0, 1], 300)
    X = rng.normal(size=(600, 8))
    X[z == 1, :2] *= 3.0
    rotation, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    return X @ rotation.T, z


@pytest.fixture(scope="session")
def three_classes() -> tuple[np.ndarray, np.ndarray]:
    """700 × 10, three unequal classes of different means and variances."""
    rng = np.random.default_rng(2)
    z = np.repeat(["a", "b", "c"], [400, 200, 100])
    X = rng.normal(size=(700, 10)) @ rng.normal(size=(10, 10))
    X[z == "b"] += 1.0
    X[z == "c", :3] *= 2.0
    return X, z
