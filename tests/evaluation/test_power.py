"""The measured power and coverage of the attackers, and the ideal learners of each law."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.power import LAWS
from unspot.evaluation.inference import recalls

ROOT = Path(__file__).parents[2]
MEASURED = json.loads((ROOT / "benchmarks" / "results" / "power.json").read_text())
COVERAGE = json.loads((ROOT / "benchmarks" / "results" / "coverage.json").read_text())
#: Laws whose ideal learner takes long.
WAVES = [name for name in LAWS if "aᵀx" in name]


def test_every_law_was_measured():
    assert set(MEASURED["laws"]) == set(LAWS)


@pytest.mark.parametrize("name", MEASURED["laws"])
def test_the_strongest_attacker_has_most_of_what_can_be_learned(name):
    share = MEASURED["laws"][name]["share"]
    assert share is None or share >= 0.8


def test_bounds_are_right_and_alarms_are_rare_as_promised():
    laws = [law for law in COVERAGE.values() if "too high" in law]
    assert len(laws) == 10  # five kinds of rows, with a leak and without
    for law in laws:
        assert law["too high"] + law["too low"] <= 0.05
        assert law.get("false alarms", 0.0) <= 0.05


def test_the_page_shows_what_was_measured():
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for name, found in MEASURED["laws"].items():
        numbers = f"{100 * found['ideal']:.1f} | {100 * found['advantage']:.1f}"
        assert f"| {name} | {numbers} | `{found['strongest']}` |" in page


@pytest.mark.parametrize("name", [name for name in LAWS if name not in WAVES])
def test_an_ideal_learner_learns_its_law(name):
    """From few rows, so that it takes no time: what it lacks are only digits of its parameters."""
    n, n_test = (10_000, 20_000) if LAWS[name].n_test > 10_000 else (2000, 2000)
    X, z = LAWS[name].draw(np.random.default_rng(0), n)
    X_test, z_test = LAWS[name].draw(np.random.default_rng(1), n_test)
    guesses = LAWS[name].ideal(X, z)(X_test)
    K = z.max() + 1
    advantage = recalls(guesses, z_test, K).mean() - 1 / K
    assert advantage > 0.7 * MEASURED["laws"][name]["ideal"]
