"""Results made by hand, with names that try to be markup, and a page of them."""

from dataclasses import replace

import numpy as np
import pytest

from unspot import Dataset, Eraser
from unspot.choice.path import PathPoint, RankPath
from unspot.evaluation import Evaluation, Row, Value
from unspot.report.contents import read_contents
from unspot.report.views import make_views

#: Class names, words and labels that must appear as text.
NASTY = (
    "<script>window.hacked = 1</script>",
    "\"quoted\" & 'single'",
    "🐆 léopard",
    "שלום عالم",
    '</script><img src=x onerror="window.hacked = 2">',
    "a_b $c$ %d {{7*7}} \\x",
)


def evaluation_of(method="LEOPARD", rank=3, *, after=0.42, utility=0.7, classes=NASTY[:3]):
    """An evaluation with a row of every kind."""
    names = ("logistic", "mlp-64", "trees")
    rows = (
        Row("chance", "Chance", "share", Value(0.36), Value(0.36)),
        Row("linear", "Linear probe", "share", Value(0.9, 0.01), Value(0.4, 0.02), "lower"),
        Row("attack", "Strongest attacker", "share", Value(0.95), Value(after), "lower"),
        Row("mdl", "MDL", "kbit", Value(1.2, 0.1), Value(9.5, 0.2), "higher", "online code."),
        Row("two_sample", "Two-sample p-value", "p", Value(0.0004), Value(0.3)),
        Row("neighbours", "A_50%", "", Value(1.0), Value(utility), "higher"),
        Row("task_linear", "Task", "share", Value(0.8, 0.01), Value(utility, 0.01), "higher"),
        Row("tpr_gap", "TPR gap, RMS", "", Value(0.2), None, "lower", f"No rows of {NASTY[0]}."),
    )
    gaps = [
        {"class": c, "label": label, "share": 0.2 + 0.1 * i, "before": 0.1 * i, "after": 0.01 * i}
        for c in classes
        for i, label in enumerate(NASTY)
    ]
    gaps[0] |= {"before": None, "after": None}
    metadata = {
        "eraser": {
            "method": method,
            "rank": rank,
            "parameters": {"rank": rank, "kernel": "paper"},
            "fingerprint": "0123456789abcdef",
            "digest": f"{method} {rank}",
            "classes": list(classes),
            "class_counts": [300] * len(classes),
            "n_rows": 900,
        },
        "data": NASTY[0],
        "n_rows": {"train": 900, "test": 500},
        "n_features": 6,
        "classes": list(classes),
        "seeds": 3,
        "budget": "quick",
        "versions": {"unspot": "0"},
        "seconds": {"linear": 1.5, "mdl": 2.0},
        "statement": f"The concept: attackers are right on 95.0 % before and {100 * after:.1f} % "
        "after.\nWhat is left is at most 9.9 points.",
    }
    attackers = {
        "before": [_attacker(name, 0.95 - 0.05 * i) for i, name in enumerate(names)],
        "after": [_attacker(name, after - 0.02 * i) for i, name in enumerate(names)],
        "chance": 1 / len(classes),
        "score": "balanced accuracy",
    }
    return Evaluation(f"{method} on words", rows, metadata, {"attackers": attackers, "gaps": gaps})


def _attacker(name, accuracy):
    """Its accuracy by rows is higher: what counts is that by classes."""
    interval = [accuracy - 0.04, accuracy + 0.04]
    return {
        "name": name,
        "accuracy": accuracy + 0.03,
        "score": accuracy,
        "interval": interval,
    }


@pytest.fixture(scope="session")
def make_certificate(make_certificate):
    """Certificates that say of which eraser they are."""

    def certificate_of(accuracy=0.41, *, method="LEOPARD", rank=3, **settings):
        eraser = {"method": method, "rank": rank, "digest": f"{method} {rank}"}
        return replace(make_certificate(accuracy, **settings), metadata={"eraser": eraser})

    return certificate_of


@pytest.fixture(scope="session")
def make_evaluation():
    return evaluation_of


@pytest.fixture(scope="session")
def nasty():
    return NASTY


@pytest.fixture(scope="session")
def rows():
    """Three classes with names like markup: means differ along one axis, spreads along another."""
    rng = np.random.default_rng(0)
    z = np.array(NASTY[:3])[np.arange(900) % 3]
    X = rng.normal(size=(900, 6)) + 3.0 * (np.arange(900) % 3)[:, None] * np.eye(6)[0]
    X[:, 1] *= 1.0 + 2.0 * (np.arange(900) % 3)
    names = np.array([f"{NASTY[i % 6]} {i}" for i in range(900)])
    return Dataset.from_arrays(X, z, names=names, random_state=0)


@pytest.fixture(scope="session")
def views(rows):
    return make_views(
        {
            "mean gone": Eraser.projection(np.eye(6)[:, 1:]),
            NASTY[4]: Eraser.projection(np.eye(6)[:, 2:]),
        },
        rows,
    )


@pytest.fixture(scope="session")
def contents(make_certificate):
    """Everything that a report can hold."""
    results = {
        "before": make_certificate(0.95),
        "mean gone": (evaluation_of("LEACE", 5, after=0.8, utility=0.9), make_certificate(0.8)),
        NASTY[4]: (evaluation_of(), make_certificate()),
    }
    return read_contents(results, title=f"Title {NASTY[0]}")


def path_of(ranks=(5, 3, 1), *, original=True, metrics=("attack", "neighbours")):
    """A path of ranks without fits: the fewer dimensions, the weaker the attackers."""

    def point(rank):
        numbers = {"attack": 0.3 + 0.1 * rank, "neighbours": 0.5 + rank / 12}
        numbers = {name: numbers.get(name, 0.5) for name in metrics}
        return PathPoint(rank, None, 0.01 * rank, metrics={k: (v, 0.0) for k, v in numbers.items()})

    z = np.array(NASTY[:3])[np.arange(60) % 3]
    data = Dataset.from_arrays(
        np.random.default_rng(0).normal(size=(60, 6)),
        z,
        random_state=0,
        name="words.parquet",
        concept="gender",
    )
    points = tuple(map(point, ranks))
    return RankPath(points, data, "LEOPARD", original=point(6) if original else None)


@pytest.fixture(scope="session")
def make_path():
    return path_of
