"""What all tests share: seeded laws, and which tests are slow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings

from unspot.evaluation.attackers import BUDGETS
from unspot.evaluation.certificate import AttackerReport, Certificate, UtilityKept
from unspot.evaluation.measure import HALVINGS
from unspot.lab.maps import Fourier, FreeForm, LayerNorm, Nystrom, Transport
from unspot.maps import Compress, Dense, Expand, Map, Mixture, Normalise, Oblique, Projection, Scale

#: Some virtual machines name matrix instructions (AMX) that they do not have, and torch's products
#: in bfloat16 then end the process. oneDNN reads this when torch computes its first.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# The same examples on every run and every machine, in CI and at home. For others:
# ``pytest --hypothesis-profile default --hypothesis-seed 1``.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

#: Made by tools/list_slow_tests.py.
SLOW = set(Path(__file__).with_name("slow_tests.txt").read_text(encoding="utf-8").split())

#: Fixtures of these files that fit for seconds: a quick test that needs one is slow.
SLOW_FIXTURES = {
    "tests/choice/test_erase.py": "result",
    "tests/choice/test_numbers.py": "path",
    "tests/erasers/test_auto_rank.py": "fitted",
    "tests/erasers/test_residue.py": "fitted",
    "tests/lab/test_adversarial.py": "fitted",
    "tests/lab/test_bench.py": "result",
    "tests/lab/test_farm.py": "fitted",
    "tests/lab/test_kernelized.py": "fitted",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that ``make test-fast`` leaves out."""
    for item in items:
        name = item.nodeid.split("[")[0]
        fixture = SLOW_FIXTURES.get(name.split("::")[0])
        if name in SLOW or fixture in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def attacked_by() -> Callable[..., AbstractContextManager[None]]:
    """Budgets of few attackers, or of all, and one halving, for what is not about them."""

    @contextmanager
    def attacked_by(*names: str, halvings: int = 1) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for budget in ("quick", "standard"):
                few = {"attackers": names} if names else {}
                patch.setitem(BUDGETS, budget, replace(BUDGETS[budget], **few))
                patch.setitem(HALVINGS, budget, halvings)
            yield

    return attacked_by


@pytest.fixture(autouse=True)
def one_halving(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them cost time, and only certificates are about them: tests marked ``halvings``."""
    for budget in ("quick", "standard") if "halvings" not in request.keywords else ():
        monkeypatch.setitem(HALVINGS, budget, 1)


@pytest.fixture
def cheap(attacked_by: Any) -> Iterator[None]:
    with attacked_by("logistic", "quadratic"):
        yield


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


def _certificate_of(accuracy=0.41, *, margin=0.03, p_value=0.004, **changes) -> Certificate:
    """A certificate with two attackers of three classes, three points on each side."""
    reports = tuple(
        AttackerReport(name, a, a - 1 / 3, (a - 1 / 3 - 0.03, a - 1 / 3 + 0.03))
        for name, a in (("logistic", accuracy - 0.04), ("trees", accuracy))
    )
    facts = {
        "attackers": reports,
        "before": 0.95 - 1 / 3,
        "chance": 1 / 3,
        "p_value": p_value,
        "confirmable": 0.02,
        "spread": 0.001,
        "alpha": 0.05,
        "budget": "quick",
        "n_rows": 500,
        "margin": margin,
        "kept": (UtilityKept("neighbours", 1.0, 0.8, ""),),
    }
    return Certificate(**{**facts, **changes})


@pytest.fixture(scope="session")
def make_certificate():
    return _certificate_of


def _chains() -> dict[str, list[Map]]:
    """At least one chain for every kind of map, and those that erasers are made of."""
    d, K = 12, 3
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(d, d)))[0]
    mean, right = rng.normal(size=d), rng.normal(size=(d, 2))
    left = np.linalg.pinv(right).T  # so that the update is a projection
    flat = np.vstack([np.linalg.qr(rng.normal(size=(d - 1, d - 2)))[0], np.zeros((1, d - 2))])
    router = {"coef": rng.normal(size=(d, K)), "intercept": rng.normal(size=K)}
    shifts, matrices = rng.normal(size=(K, d)), rng.normal(size=(K, d, d))
    landmarks = rng.normal(size=(9, d))
    first = Dense(rng.normal(size=(d, 7)), rng.normal(size=7), relu=True)
    return {
        "projection": [Projection(U[:, :5])],
        "projection with mean": [Projection(U[:, :5], mean)],
        "large projection": [Projection(U[:, : d - 1], mean)],
        "large projection, constant column": [Projection(flat, mean)],
        "oblique": [Oblique(left, right, mean)],
        "compress": [Compress(U[:, :5])],
        "cascade": [Oblique(left, right, mean), Compress(U[:, :5]), Expand(U[:, :5])],
        "units": [Scale(1 + mean**2), Compress(U[:, :5]), Expand(U[:, :5], mean)],
        "network": [first, LayerNorm(7), Dense(rng.normal(size=(7, d)), rng.normal(size=d))],
        "layer_norm": [LayerNorm(d)],
        "nystrom": [Nystrom(landmarks, rng.normal(size=(9, 4)), bandwidth=3.0)],
        "fourier": [Fourier(rng.normal(size=(d, 9)), rng.normal(size=9))],
        "transport": [Transport(shifts, matrices, **router)],
        "transport by shifts": [Transport(shifts, **router)],
        "mixture": [Mixture(shifts[:, :4], matrices[:, :, :4], **router)],
        "free_form": [FreeForm(**router, left=rng.normal(size=(d, K)), centre=np.ones(K) / K)],
        "normalise": [Projection(U[:, :5]), Normalise(d)],
        "normalised update": [Oblique(left, right, mean), Normalise(d)],
        "layers": [first, Dense(rng.normal(size=(7, d)), rng.normal(size=d))],
    }


CHAINS = _chains()


@pytest.fixture
def chains() -> dict[str, list[Map]]:
    return CHAINS


@pytest.fixture(params=list(CHAINS))
def chain(request: pytest.FixtureRequest) -> list[Map]:
    """A chain of maps of 12 features; a test that asks for it runs on every one."""
    return CHAINS[request.param]


# -- The program inside a test ---------------------------------------------------------------------

#: Exit codes of ``unspot certify`` that are verdicts.
VERDICTS = (0, 3, 4)


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def has_verdict(self) -> bool:
        return self.code in VERDICTS


@pytest.fixture
def cli(capsys, monkeypatch):
    """Run ``unspot`` with arguments; gives the exit code, stdout and stderr."""
    from unspot.cli import main

    monkeypatch.delenv("UNSPOT_DEBUG", raising=False)
    monkeypatch.setattr("unspot.cli.options.SHOW_AFTER", 3600)  # on a busy machine, work takes long

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        seen = capsys.readouterr()
        return Ran(int(ended.value.code or 0), seen.out, seen.err)

    return run


@pytest.fixture(scope="session")
def rows():
    """Embeddings of 400 rows and 6 features, and a concept that a mean and a variance show."""
    rng = np.random.default_rng(0)
    z = np.repeat(["f", "m"], 200)
    X = rng.normal(size=(400, 6)).astype(np.float32)
    X[z == "m", 0] += 2
    X[z == "m", 1] *= 3
    return X, z
