"""Numbers, several concepts, what is given and what is kept: LEACE, LEOPARD and Cascade."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from unspot import LEACE, LEOPARD, Cascade, load
from unspot.data import Number, Table
from unspot.lab import INLP, KRaM, Obliviator
from unspot.leopard import ManifoldSolver

QUICK = ManifoldSolver(max_evaluations=40)
#: A direction is gone if less than this of it is left; what few rows can tell.
GONE = 0.25


def fast(rank, **parameters):
    return LEOPARD(rank=rank, solver=QUICK, random_state=0, **parameters)


def rows(n=400, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng, rng.normal(size=(n, d))


def covariance(A, B):
    A, B = np.asarray(A, dtype=float), np.asarray(B, dtype=float).reshape(len(A), -1)
    return (A - A.mean(axis=0)).T @ (B - B.mean(axis=0)) / len(A)


def one_hot(z):
    return (np.asarray(z)[:, None] == np.unique(z)).astype(float)


# -- Numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["euclidean", "whitened"])
def test_leopard_finds_the_direction_that_a_number_depends_on(metric):
    rng, X = rows()
    age = X[:, 2] ** 2 + 0.1 * rng.normal(size=len(X))  # no linear signal
    P = fast(5, metric=metric).fit(X, age).eraser_.P
    assert P[2, 2] < GONE


def test_the_search_does_not_cancel_noise_by_signal():
    """Before directions that go counted in part, 0.13 of the second was left."""
    left, n = [], 800
    for seed in range(3):
        rng, X = rows(n, d=5, seed=seed)
        z = rng.integers(2, size=n)
        X[z == 1, 0] *= 3.0
        age = X[:, 1] ** 2 + 0.1 * rng.normal(size=n)
        P = LEOPARD(rank=3, random_state=0).fit(X, {"z": z, "age": age}).eraser_.P
        left.append([P[0, 0], P[1, 1]])
    assert np.mean(left, axis=0).max() < 0.03


def test_a_vector_of_numbers():
    _, X = rows()
    place = X[:, :2] ** 2
    P = fast(4).fit(X, Number.read(place)).eraser_.P
    assert P[0, 0] < GONE
    assert P[1, 1] < GONE


def test_the_cascade_of_a_number_begins_with_leace_of_it():
    rng, X = rows()
    age = X[:, 0] + X[:, 2] ** 2 + 0.1 * rng.normal(size=len(X))
    cascade = Cascade(second=fast(3)).fit(X, age)
    assert np.abs(covariance(cascade.transform(X), age)).max() < 1e-9
    assert cascade.eraser_.rank == 3
    assert cascade.eraser_.P[2, 2] < GONE


def test_units_of_the_number_do_not_matter():
    rng, X = rows(200)
    age = np.abs(X[:, 0]) + 0.1 * rng.normal(size=len(X))
    a, b = (fast(4).fit(X, z).eraser_.P for z in (age, 1e3 * age + 7))
    np.testing.assert_allclose(a, b, atol=1e-6)


# -- Several concepts ----------------------------------------------------------------------------


def table(n=400, seed=0):
    rng, X = rows(n, 7, seed)
    gender = rng.choice(["f", "m"], n)
    X[gender == "m", 0] *= 4
    age = 40 + 10 * X[:, 1] ** 2 + rng.normal(size=n)
    return X, pd.DataFrame({"gender": gender, "age": age, "region": np.digitize(X[:, 2], [-1, 1])})


def test_one_fit_erases_all_concepts_of_a_table():
    X, Z = table()
    eraser = fast(4).fit(X, Z).eraser_
    assert np.diagonal(eraser.P)[:3].max() < GONE
    assert np.diagonal(eraser.P)[3:].min() > 0.8
    described = eraser.metadata["concepts"]
    assert [c["name"] for c in described] == ["gender", "age", "region"]
    assert [c["kind"] for c in described] == ["categories", "continuous", "categories"]


def test_leace_of_a_table_is_linear_erasure_of_every_column():
    X, Z = table()
    for method in ("oblique", "orthogonal"):
        erased = LEACE(method=method).fit_transform(X, Z)
        columns = np.column_stack([one_hot(Z["gender"]), one_hot(Z["region"]), Z["age"]])
        assert np.abs(covariance(erased, columns)).max() < 1e-9


def test_a_table_of_one_class_column_is_that_column():
    X, Z = table(200)
    one, other = (fast(4).fit(X, z).eraser_ for z in ({"gender": Z["gender"]}, Z["gender"]))
    np.testing.assert_array_equal(one.U, other.U)


def test_rows_with_a_missing_value_serve_the_other_concepts():
    X, Z = table()
    Z.loc[::2, "gender"] = None
    Z.loc[1::4, "age"] = np.nan
    P = fast(4).fit(X, Z).eraser_.P
    assert np.diagonal(P)[:3].max() < GONE
    erased = LEACE().fit_transform(X, Z)
    known = Z["gender"].notna().to_numpy()
    assert np.abs(covariance(erased[known], one_hot(Z["gender"][known]))).max() < 1e-9
    known = Z["age"].notna().to_numpy()
    assert np.abs(covariance(erased[known], Z["age"][known])).max() < 1e-9


def test_kinds_by_name_overrule_the_values():
    _, X = rows(100)
    years = np.random.default_rng(0).integers(20, 70, 100)
    Z = {"age": years, "z": years % 2}
    with pytest.raises(ValueError, match="'age': 'continuous'"):
        LEACE().fit(X, Z)
    eraser = LEACE().fit(X, Table.read(Z, kinds={"age": "continuous"})).eraser_
    assert eraser.metadata["concepts"][0]["kind"] == "continuous"


def test_files_hold_the_concepts(tmp_path):
    X, Z = table(200)
    LEACE().fit(X, Z).eraser_.save(tmp_path / "e.safetensors")
    loaded = load(tmp_path / "e.safetensors")
    assert [c["name"] for c in loaded.metadata["concepts"]] == list(Z)


# -- Given a task --------------------------------------------------------------------------------


def hiring(n=800, seed=0):
    """z depends on x through the job y in one direction, and also given it in another."""
    rng, X = rows(n, 6, seed)
    y = rng.integers(3, size=n)
    z = (rng.random(n) < np.array([0.2, 0.5, 0.8])[y]).astype(int)
    X[:, 0] += 2.0 * y
    X[:, 1] *= np.where(z == 1, 4.0, 1.0)
    X[:, 2] += z * (y == 0)  # means differ within one job only
    return X, z, y


def test_leace_given_a_task_has_equal_class_means_within_its_values():
    X, z, y = hiring()
    erased = LEACE().fit(X, z, given=y).transform(X)
    for job in range(3):
        part = erased[y == job]
        assert np.abs(covariance(part, z[y == job])).max() < 1e-9
    assert np.abs(covariance(erased, z)).max() > 0.05  # what the job explains stays


def test_a_job_of_one_class_costs_no_direction():
    X, z, y = hiring()
    z[y == 2] = 1
    assert LEACE(method="orthogonal").fit(X, z, given=y).eraser_.rank == 6 - 2
    both = {"z": z, "first": y == 0}  # the job decides the other concept
    assert LEACE(method="orthogonal").fit(X, both, given=y).eraser_.rank == 6 - 2


def test_leopard_given_a_task_keeps_what_the_task_explains():
    X, z, y = hiring()
    P = fast(5).fit(X, z, given=y).eraser_.P
    assert P[1, 1] < GONE
    assert P[0, 0] > 0.9


def test_given_a_number():
    rng, X = rows(800)
    y = rng.normal(size=800)
    X[:, 0] = y + 0.1 * rng.normal(size=800)
    z = np.sin(2 * y) + rng.normal(size=800)
    X[:, 1] = (z - np.sin(2 * y)) ** 2  # tells of z beside y
    P = fast(5).fit(X, z, given=y).eraser_.P
    assert P[1, 1] < GONE
    assert P[0, 0] > 0.8
    erased = LEACE().fit(X, z, given=y).transform(X)
    assert np.abs(covariance(erased, z - np.sin(2 * y))).max() < 0.05
    assert np.abs(covariance(erased, np.sin(2 * y))).max() > 0.2


def test_the_cascade_passes_on_what_is_given():
    X, z, y = hiring()
    cascade = Cascade(second=fast(2)).fit(X, z, given=y)
    erased = cascade.transform(X)
    for job in range(3):
        assert np.abs(covariance(erased[y == job], z[y == job])).max() < 1e-9
    assert cascade.eraser_.metadata["given"]["classes"] == [0, 1, 2]


@pytest.mark.parametrize("eraser", [LEACE(), fast(3), Cascade(second=fast(3))])
def test_a_concept_that_the_task_decides(eraser):
    X, _z, y = hiring()
    with pytest.raises(ValueError, match="function of what is given"):
        eraser.fit(X, y == 0, given=y)
    with pytest.raises(ValueError, match="function of what is given"):
        eraser.fit(X, {"a": y == 0, "b": y == 1}, given=y)
    number = clone(eraser)
    with pytest.raises(ValueError, match="function of what is given"):
        number.fit(X, Number.read(0.1 * y), given=y)
    with pytest.raises(ValueError, match="function of what is given"):
        number.fit(X[:60], 2 * X[:60, 3] + 1, given=X[:60, 3])
    with pytest.raises(ValueError, match="function of what is given"):
        number.fit(X, np.sin(2 * X[:, 3]), given=X[:, 3])
    number.fit(X, X[:, 3] + 0.1 * X[:, 4], given=X[:, 3])


# -- What is kept --------------------------------------------------------------------------------


def kept_problem(n=600, seed=0):
    rng, X = rows(n, 6, seed)
    y = rng.integers(3, size=n)
    z = (rng.random(n) < 0.3 + 0.2 * y).astype(int)
    X += np.outer(z, [2, 1, 0, 0, 0, 0]) + one_hot(y) @ rng.normal(size=(3, 6))
    return X @ rng.normal(size=(6, 6)) + 5.0, z, y


def test_splince_erases_one_covariance_and_keeps_the_other():
    X, z, y = kept_problem()
    P = LEACE().fit(X, z, keep=y).eraser_.P
    assert np.abs(P @ covariance(X, one_hot(z))).max() < 1e-8
    moved = P @ covariance(X, one_hot(y)) - covariance(X, one_hot(y))
    assert np.abs(moved).max() < 1e-8
    np.testing.assert_allclose(P @ P, P, atol=1e-8)


def test_splince_is_the_formula_of_its_authors():
    X, z, y = kept_problem()
    S = covariance(X, X)
    values, vectors = np.linalg.eigh(S)
    W = vectors / np.sqrt(values) @ vectors.T
    left_z = np.linalg.svd(W @ covariance(X, one_hot(z)))[0]
    left_y = np.linalg.svd(W @ covariance(X, one_hot(y)))[0]
    U = left_z[:, 1:]  # beside z, of rank one
    both = np.column_stack([left_z[:, :1], left_y[:, :2]])
    V = np.column_stack([left_y[:, :2], np.linalg.svd(both)[0][:, 3:]])
    expected = np.linalg.inv(W) @ V @ np.linalg.inv(U.T @ V) @ U.T @ W
    np.testing.assert_allclose(LEACE().fit(X, z, keep=y).eraser_.P, expected, atol=1e-7)


def test_splince_changes_rows_least():
    """Among random projections with both properties."""
    X, z, y = kept_problem()
    P = LEACE().fit(X, z, keep=y).eraser_.P
    centred = X - X.mean(axis=0)
    least = np.square(centred - centred @ P.T).sum()
    A = covariance(X, one_hot(z))[:, :1]
    B = np.linalg.svd(covariance(X, one_hot(y)))[0][:, :2]
    rng = np.random.default_rng(1)
    for _ in range(20):  # I − abᵀ with bᵀa = 1 and bᵀB = 0
        b = P.T @ rng.normal(size=6) + (np.eye(6) - P.T) @ rng.normal(size=6)
        b -= B @ (B.T @ b)
        other = np.eye(6) - np.outer(A[:, 0], b) / (b @ A[:, 0])
        assert np.abs(other @ A).max() < 1e-9
        assert np.square(centred - centred @ other.T).sum() >= least * (1 - 1e-9)


def test_where_what_is_erased_and_kept_meet():
    X, _, y = kept_problem()
    with pytest.raises(ValueError, match="meets that of z") as error:
        LEACE().fit(X, y == 0, keep=y)
    assert "without keep" in str(error.value)


@pytest.mark.parametrize("eraser", [LEACE(), fast(3), Cascade(second=fast(3))])
def test_what_is_erased_cannot_be_kept(eraser):
    X, z, _ = kept_problem()
    with pytest.raises(ValueError, match="each decides the other") as error:
        eraser.fit(X, z, keep=np.where(z == 1, "one", "zero"))
    assert "without keep" in str(error.value)


@pytest.mark.parametrize("name", ["given", "keep"])
@pytest.mark.parametrize("values", [np.zeros(600, dtype=int), np.full(600, 0.5)])
def test_a_constant_task(name, values):
    X, z, _ = kept_problem()
    with pytest.raises(ValueError, match=rf"{name} with the same value.*two.*Leave {name} out"):
        LEACE().fit(X, z, **{name: values})


def test_orthogonal_leace_cannot_keep():
    X, z, y = kept_problem()
    with pytest.raises(ValueError, match="method='oblique'"):
        LEACE(method="orthogonal").fit(X, z, keep=y)


def test_leopard_keeps_directions_that_tell_the_task():
    """Two directions of equal signal for z, one of which tells y too: another is given up first."""
    rng, X = rows(600, 4)
    y, z = rng.integers(2, size=(2, 600))
    X[:, 0] *= np.where(z, 2.0, 1.0)
    X[:, 1] *= np.where(z, 2.0, 1.0)
    X[:, 1] += 3.0 * y
    plain, kept = (fast(2).fit(X, z, keep=k).eraser_.P for k in (None, y))
    assert plain[1, 1] < 0.1
    assert kept[1, 1] > 0.5


def test_the_weight_of_what_is_kept_does_not_depend_on_units():
    X, z, y = kept_problem(300)
    a, b = (fast(3).fit(rows, z, keep=y).eraser_.P for rows in (X, 64 * X))
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_the_cascade_keeps_the_covariance_in_its_linear_stage():
    X, z, y = kept_problem()
    cascade = Cascade(second=fast(4)).fit(X, z, keep=y)
    P = cascade.eraser_.P
    assert np.abs(P @ covariance(X, one_hot(z))).max() < 1e-8
    np.testing.assert_allclose(P @ P, P, atol=1e-8)
    assert cascade.eraser_.rank == 4
    first = cascade.first_.P
    moved = first @ covariance(X, one_hot(y)) - covariance(X, one_hot(y))
    assert np.abs(moved).max() < 1e-8


@pytest.mark.parametrize(
    "eraser", [LEACE(), fast(2), Cascade(second=fast(2)), Obliviator(n_rounds=1, random_state=0)]
)
def test_classes_are_those_of_what_is_erased(eraser):
    X, Z = table(100)
    fitted = clone(eraser).fit(X, Z["gender"], keep=Z["region"])
    assert fitted.classes_.tolist() == sorted(set(Z["gender"]))


# -- What cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize("eraser", [KRaM(), INLP(), Cascade(KRaM(), fast(2))])
def test_other_methods_take_one_concept(eraser):
    X, Z = table(100)
    with pytest.raises(ValueError, match=r"LEOPARD, LEACE or Cascade"):
        eraser.fit(X, Z)
    with pytest.raises(ValueError, match=r"LEOPARD, LEACE or Cascade"):
        eraser.fit(X, Z["gender"], given=Z["region"])


def test_a_column_of_numbers_is_not_for_methods_of_labels():
    X, Z = table(100)
    with pytest.raises(ValueError, match=r"continuous concept, but INLP erases categories.*bins"):
        INLP().fit(X, {"age": Z["age"]})


@pytest.mark.parametrize(
    ("parameters", "needles"),
    [
        ({"solver": "paper"}, ["solver='paper'", "manifold"]),
    ],
)
def test_parameters_that_cannot_be(parameters, needles):
    X, Z = table(100)
    with pytest.raises(ValueError, match="expected") as error:
        LEOPARD(**{"rank": 3, **parameters}).fit(X, Z)
    for needle in needles:
        assert needle in str(error.value)


def test_attackers_cannot_choose_a_rank_given_a_task():
    X, Z = table(100)
    with pytest.raises(ValueError, match=r"rank='auto' with given.*a number.*unspot\.erase"):
        LEOPARD("auto").fit(X, Z["gender"], given=Z["region"])


def test_tables_do_not_come_in_streams():
    X, Z = table(100)
    with pytest.raises(ValueError, match="Pass all rows to fit"):
        LEACE().partial_fit(X, Z)
    with pytest.raises(ValueError, match="rows by number"):
        LEACE().fit(iter([(X, Z["gender"])]), given=Z["region"])
