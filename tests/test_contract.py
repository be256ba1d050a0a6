"""Every kind of concept × groups × a given task goes through every function of the house.

A feature that forgets one of the combinations fails here, whatever its own tests look at.
"""

from __future__ import annotations

import itertools
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from unspot import Cascade, Certificate, Dataset, Evaluation, certify, evaluate, rank_path
from unspot.report import to_html

N, D = 480, 14


def concepts(rng: np.random.Generator) -> dict[str, object]:
    """A concept of every kind, each readable from the first two columns of the rows."""
    gender = np.array(["f", "m"])[rng.integers(2, size=N)]
    age = 40 + 12 * rng.normal(size=N)
    region = rng.integers(3, size=N)
    gaps = gender.astype(object)
    gaps[rng.random(N) < 0.1] = None
    return {
        "classes": gender,
        "number": age,
        "vector": {"place": np.column_stack([age, 30 * rng.normal(size=N)])},
        "several": {"gender": gender, "region": region},
        "mixed": {"gender": gender, "age": age},
        "gaps": {"gender": gaps, "age": age},
    }


KINDS = ("classes", "number", "vector", "several", "mixed", "gaps")


def signal(z: object) -> np.ndarray:
    """A number that the concept determines, for its first column."""
    first = next(iter(z.values())) if isinstance(z, dict) else np.asarray(z)
    if first.ndim == 2:
        first = first[:, 0]
    if first.dtype.kind == "f":
        return (first - first.mean()) / first.std()
    return np.where(first == "f", 1.0, -1.0)


CASES = list(itertools.product(KINDS, ("rows", "groups"), ("alone", "given")))


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def case(request, attacked_by):
    """Fit a case. All attackers try every kind once, and two of them the other combinations."""
    kind, grouping, condition = request.param
    rng = np.random.default_rng(7)
    z = concepts(rng)[kind]
    y = np.array(["cook", "nurse"])[rng.integers(2, size=N)]
    X = rng.normal(size=(N, D))
    X[:, 0] += signal(z)
    X[:, 1] *= 1.5 + 0.5 * signal(z)
    X[:, 2] += y == "nurse"
    groups = rng.integers(60, size=N) if grouping == "groups" else None
    data = Dataset.from_arrays(X, z, y, groups=groups, random_state=0)
    given = {"given": data.train.y} if condition == "given" else {}
    eraser = Cascade(rank=3, random_state=0)
    eraser.fit(data.train.X, data.train.z, **given)
    plain = (grouping, condition) == ("rows", "alone")
    with attacked_by() if plain else attacked_by("logistic", "quadratic"):
        yield SimpleNamespace(data=data, eraser=eraser, given=given, kind=kind, groups=groups)


def is_number(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def test_fit(case):
    erased = case.eraser.transform(case.data.test.X)
    assert erased.shape == case.data.test.X.shape
    assert np.isfinite(erased).all()
    assert case.eraser.eraser_.rank == 3


def test_evaluate_with_defaults(case, tmp_path):
    result = evaluate(case.eraser, case.data, seeds=1)
    attacks = [row for row in result.rows if row.key.partition(":")[0] == "attack"]
    assert attacks
    assert all(is_number(row.before.mean) and is_number(row.after.mean) for row in attacks)
    again = Evaluation.from_json(result.to_json())
    assert again.to_dict() == result.to_dict()
    page = result.to_html(tmp_path / "page.html")
    assert "<html" in page.read_text(encoding="utf-8")


def test_certify(case, tmp_path):
    given = {"given": "y"} if case.given else {}
    certificate = certify(case.eraser, case.data, budget="quick", margin=0.2, **given)
    assert certificate.verdict in ("HOLDS", "LEAKS", "INCONCLUSIVE")
    assert certificate.lower_bound < certificate.after < certificate.upper_bound
    assert Certificate.from_dict(certificate.to_dict()).to_dict() == certificate.to_dict()
    again = Certificate.from_dict(json.loads(certificate.to_json()))
    assert again.to_json() == certificate.to_json()
    page = certificate.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert certificate.statement.split("\n")[0].split(". ")[-1] in page.replace("\u00a0", " ")


@pytest.mark.parametrize(
    "case", [case for case in CASES if "alone" in case], indirect=True, ids="-".join
)
def test_path(case, tmp_path):
    """A path is fitted without a given task."""
    path = rank_path(case.eraser, case.data, ranks=[6, 3])
    assert [point.rank for point in path] == [6, 3]
    page = to_html(path, tmp_path / "page.html")
    assert "<html" in page.read_text(encoding="utf-8")
