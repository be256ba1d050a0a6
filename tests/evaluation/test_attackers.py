"""Attackers: each sees the law it exists for, the best come near Bayes, none sees nothing."""

import json

import numpy as np
import pytest
import torch

from unspot.data.concept import Classes
from unspot.datasets.synthetic import LAWS, law
from unspot.evaluation.attack_models import rows_needed, with_statistics
from unspot.evaluation.attackers import ATTACKERS, BUDGETS, attack
from unspot.evaluation.inference import accuracy_interval

#: The law that an attacker exists for.
EXISTS_FOR = {
    "logistic": "mean",
    "whitened-logistic": "mean",
    "quadratic": "variance",
    "neighbours": "mixture",
    "rbf": "ring",
    "mlp-64": "xor",
    "mlp-256": "mixture",
    "mlp-128-128": "mixture",
    "trees": "heavy",
    "rotated-trees": "ring",
    "whitened-rbf": "ring",
    "whitened-mlp-256": "xor",
    "mlp-512-512": "variance",
}

FAST = ("logistic", "quadratic")
#: They search for one kind of thing, and need not see another.
SEARCHES = ("residue", "interactions", "waves")
QUICK = tuple(name for name in BUDGETS["quick"].attackers if name not in SEARCHES)


def drawn(name, n=600, d=6, m=1500):
    rows = law(name, n=n, d=d)
    return (rows.X, rows.z, *rows.sample(m, random_state=1))


def test_the_default_precision_of_torch_does_not_matter():
    rows = drawn("xor", n=200, m=100)
    (plain,) = attack(*rows, attackers=["mlp-64"], budget="quick")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        (found,) = attack(*rows, attackers=["mlp-64"], budget="quick")
    finally:
        torch.set_default_dtype(before)
    np.testing.assert_array_equal(found.predictions, plain.predictions)


def test_every_attacker_has_a_law():
    assert set(EXISTS_FOR) == set(ATTACKERS) - set(SEARCHES)  # their laws are below
    assert set(EXISTS_FOR.values()) == set(LAWS) - {"independent"}


@pytest.mark.parametrize("name", EXISTS_FOR)
def test_an_attacker_sees_the_law_it_exists_for(name):
    X, z, X_test, z_test = drawn(EXISTS_FOR[name])
    (found,) = attack(X, z, X_test, z_test, attackers=[name], budget="quick")
    hits = int(np.sum(found.predictions.argmax(axis=1) == z_test))
    low, _ = accuracy_interval(hits, len(z_test), 0.001)
    assert low > np.bincount(z_test).max() / len(z_test)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["xor"])  # benchmarks/power.py has all
def test_the_best_attacker_comes_within_three_points_of_bayes(name):
    rows = law(name, n=5000, d=20)
    test = rows.sample(20_000, random_state=1)
    found = attack(rows.X, rows.z, *test, budget="standard")
    best = max(result.accuracy for result in found)
    assert rows.bayes_accuracy - 0.03 < best < rows.bayes_accuracy + 0.012


def test_a_line_does_not_see_a_product():
    line, curve = attack(*drawn("xor"), attackers=FAST)
    assert line.accuracy < 0.6 < 0.75 < curve.accuracy


def test_nobody_sees_what_is_not_there():
    X, z, X_test, z_test = drawn("independent", m=3000)
    for found in attack(X, z, X_test, z_test, budget="quick"):
        assert found.advantage < 4 * 0.5 / 3000**0.5
        assert found.log_loss_bits > 0.99


def test_the_numbers_of_a_result_belong_together():
    X, z, X_test, z_test = drawn("mixture")
    X_test, z_test = X_test[z_test < 2], z_test[z_test < 2]
    keep = z < 2
    (found,) = attack(X[keep], z[keep], X_test, z_test, attackers=["neighbours"])
    assert found.predictions.sum(axis=1) == pytest.approx(1)
    assert found.accuracy == np.mean(found.predictions.argmax(axis=1) == z_test)
    assert np.mean(found.guesses == found.predictions.argmax(axis=1)) > 0.9  # classes are even
    recalls = [np.mean(found.guesses[z_test == k] == k) for k in (0, 1)]
    assert found.balanced_accuracy == pytest.approx(np.mean(recalls))
    assert found.advantage == pytest.approx(found.balanced_accuracy - 1 / 2)
    chosen = found.predictions[np.arange(len(z_test)), z_test]
    assert found.log_loss_bits == pytest.approx(-np.log2(chosen).mean())
    assert found.n_rows == keep.sum()
    assert json.loads(json.dumps(found.to_dict()))["name"] == "neighbours"


@pytest.mark.parametrize("name", ["logistic", "mlp-64", "trees"])
def test_the_advantage_does_not_depend_on_the_shares_of_the_classes(name):
    """Two Gaussians 1.2 apart: the best rule is right on 72.6 % of both, however rare one is."""
    rng = np.random.default_rng(0)

    def drawn_with(share, n):
        z = (rng.random(n) < share).astype(int)
        X = rng.normal(size=(n, 3))
        X[:, 0] += 1.2 * z
        return X, z

    (found,) = attack(*drawn_with(0.05, 6000), *drawn_with(0.05, 20_000), attackers=[name])
    assert found.accuracy < 0.96  # where always guessing the larger class gets 0.95
    assert 0.14 < found.advantage < 0.245


def test_one_seed_one_result_whoever_else_attacks():
    rows = drawn("ring", n=200, m=200)
    names = ["rbf", "mlp-64", "trees"]
    first = attack(*rows, attackers=names, budget="quick", random_state=1)
    again = attack(*rows, attackers=names[::-1], budget="quick", random_state=1)
    other = attack(*rows, attackers=names, budget="quick", random_state=2)
    for a, b, c in zip(first, again[::-1], other, strict=True):
        assert np.array_equal(a.predictions, b.predictions)
        assert not np.array_equal(a.predictions, c.predictions)


def test_names_of_classes_do_not_matter():
    X, z, X_test, z_test = drawn("mixture", n=300, m=300)
    names = np.array(["one", "two", "zwei"])
    plain = attack(X, z, X_test, z_test, attackers=FAST)
    named = attack(X, names[z], X_test, names[z_test], attackers=FAST)
    for a, b in zip(plain, named, strict=True):
        assert np.array_equal(a.predictions, b.predictions)


@pytest.mark.parametrize("name", ["logistic", "mlp-64", "trees", "whitened-mlp-256"])
def test_shrinking_a_column_does_not_hide_it(name):
    X, z, X_test, z_test = drawn("independent")
    X, X_test = np.copy(X), np.copy(X_test)
    X[:, 0], X_test[:, 0] = 1e-4 * (X[:, 0] + 2 * z), 1e-4 * (X_test[:, 0] + 2 * z_test)
    (found,) = attack(X, z, X_test, z_test, attackers=[name], budget="quick")
    assert found.accuracy > 0.75


# -- small scales: an adversary with the file may enlarge anything ---------------------------------


def in_one_direction(size, dtype, n=4000, d=20):
    """Rows that tell 98.5 %, in one of their rotated directions, of this deviation."""
    rng = np.random.default_rng(0)
    z = np.arange(n) % 2
    C = rng.normal(size=(n, d))
    C[:, 0] = size * (C[:, 0] + 2.17 * (2 * z - 1)) / 2.4
    X = (C @ np.linalg.qr(rng.normal(size=(d, d)))[0]).astype(dtype)
    return X[: n // 2], z[: n // 2], X[n // 2 :], z[n // 2 :]


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        *(("f4", 10.0**-k) for k in (2, 3, 5, 6, 7)),
        *(("f8", 10.0**-k) for k in (2, 3, 5, 6, 7, 10, 13)),
    ],
)
def test_a_small_direction_is_seen_in_every_view_of_directions(dtype, size):
    names = ["whitened-logistic", "rotated-trees", "whitened-rbf"]
    assert names[0] in BUDGETS["quick"].attackers
    least = 0.45 if dtype == "f4" and size < 1e-6 else 0.47  # rounding costs a point or two
    for found in attack(*in_one_direction(size, dtype), attackers=names, budget="quick"):
        assert found.advantage > least


def test_a_large_column_does_not_hide_the_others():
    X, z, X_test, z_test = drawn("independent")
    for rows, labels in ((X, z), (X_test, z_test)):
        rows[:, 1] += 2 * labels
        rows[:, 0] *= 1e11
    for found in attack(X, z, X_test, z_test, attackers=QUICK, budget="quick"):
        assert found.advantage > 0.25


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_the_unit_of_the_rows_does_not_matter(size):
    X, z, X_test, z_test = drawn("mean")
    names = ["logistic", "whitened-logistic", "rotated-trees"]
    plain = attack(X, z, X_test, z_test, attackers=names, budget="quick")
    scaled = attack(size * X, z, size * X_test, z_test, attackers=names, budget="quick")
    for a, b in zip(plain, scaled, strict=True):
        assert b.advantage == pytest.approx(a.advantage, abs=0.02)
        assert a.advantage > 0.1


@pytest.mark.parametrize("constant", [0.0, 0.125])
def test_a_concept_in_the_rounding_of_constant_columns(constant):
    """As an eraser left it that wrote x − (x − μ)·r·lᵀ, with an l that is zero up to rounding."""
    rng = np.random.default_rng(0)
    z = np.arange(4000) % 2
    X = rng.normal(size=(4000, 6))
    last_digit = np.spacing(constant) if constant else 1e-17
    X[:, 2] = constant + last_digit * np.round(3 * rng.normal(size=4000) + 6 * z)
    parts = X[:2000], z[:2000], X[2000:], z[2000:]
    for found in attack(*parts, attackers=QUICK, budget="quick"):
        assert found.advantage > 0.3


@pytest.mark.parametrize(("dtype", "least"), [("f4", 0.25), ("f8", 0.45)])
def test_a_concept_in_the_rounding_of_a_projection(dtype, least):
    """It stands only in directions that a product with the rounded projector removes."""
    rng = np.random.default_rng(0)
    n, d, r = 10_000, 100, 50
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    z = np.arange(n) % 2
    C = rng.normal(size=(n, d))
    C[:, -1] += np.where(z, 10, -10)
    Y = (C @ Q.T).astype(dtype) @ (Q[:, :r] @ Q[:, :r].T).astype(dtype)
    names = ["logistic", "residue"]
    line, rest = attack(Y[:5000], z[:5000], Y[5000:], z[5000:], attackers=names, budget="quick")
    assert line.advantage < 0.03
    assert rest.advantage > least
    tried = attack(Y[:5000], z[:5000], Y[5000:], z[5000:], budget="quick")
    assert max(found.advantage for found in tried) > least


def test_rounding_errors_tell_nothing_by_themselves():
    """Rows of rank 3 in 8 columns, and labels that have nothing to do with them."""
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(4000, 3)) @ rng.normal(size=(3, 8)), rng.integers(2, size=4000)
    names = ["whitened-logistic", "residue"]
    for rows in (X, X.astype(np.float32)):
        for found in attack(rows[:1000], z[:1000], rows[1000:], z[1000:], attackers=names):
            assert abs(found.advantage) < 4 * 0.5 / 3000**0.5
            assert found.log_loss_bits > 0.99


def test_every_budget_looks_at_residue():
    assert all("residue" in budget.attackers for budget in BUDGETS.values())


def test_a_row_outside_the_subspace_is_no_trouble():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 8)), np.arange(400) % 2
    outside = X + rng.normal(size=X.shape)
    (found,) = attack(X, z, outside, z, attackers=["residue"])
    assert found.log_loss_bits < 10


# -- what is found only by a search ----------------------------------------------------------------


def advantages(concept, names, n=3000, d=8, change=None):
    """Of attackers on normal rows: the concept is a function of them, or they are changed by it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    z = np.asarray(concept(X) if change is None else np.arange(n) % 2).astype(int)
    X = X if change is None else change(X, z)
    half = n // 2
    found = attack(X[:half], z[:half], X[half:], z[half:], attackers=names, budget="quick")
    return [result.advantage for result in found]


@pytest.mark.parametrize(
    "concept",
    [
        lambda X: X[:, [0, 2, 3, 6]].prod(axis=1) > 0,
        lambda X: X[:, [0, 2, 6]].prod(axis=1) > 0,
        lambda X: (np.floor(X[:, 2]) + np.floor(X[:, 5])) % 2,
    ],
)
def test_combinations_of_columns_of_which_none_tells_alone(concept):
    searched, alone = advantages(concept, ["interactions", "logistic"])
    assert searched > 0.4
    assert alone < 0.1


def test_a_parity_of_three_of_sixty_bits():
    """Among two-valued columns, of which some have the upper value as their median."""
    X = (np.random.default_rng(0).random((3000, 60)) > 0.45).astype(float)
    z = X[:, [3, 20, 41]].sum(axis=1) % 2
    how = {"budget": "quick", "attackers": ["interactions"]}
    assert attack(X[:2000], z[:2000], X[2000:], z[2000:], **how)[0].advantage > 0.45


def test_combinations_tell_three_classes():
    (found,) = advantages(
        lambda X: np.floor(2 * X[:, 2]) % 2 + (np.floor(2 * X[:, 5]) % 2 > 0), ["interactions"]
    )
    assert found > 0.4  # of 0.67


def test_a_wave_of_any_direction():
    a = np.array([0.6, 0, -0.5, 0.3, 0.2]) / 0.74**0.5
    wave, network = advantages(lambda X: np.sin(4 * X @ a) > 0, ["waves", "mlp-64"], d=5)
    assert wave > 0.45
    assert network < 0.3


def bit_of_one_column(dtype, lowest):
    def change(X, z):
        X = X.astype(dtype)
        integers = X.view(f"i{X.itemsize}")
        integers[:, 3] = (integers[:, 3] & ~(1 << lowest)) | (z << lowest)
        return X.astype(np.float64)

    return change


@pytest.mark.parametrize(
    "change",
    [
        bit_of_one_column("f8", 0),
        bit_of_one_column("f8", 2),
        bit_of_one_column("f4", 0),
        bit_of_one_column("f2", 0),
        lambda X, z: np.where(z[:, None], X.astype(np.float16), X),
        lambda X, z: np.where(z[:, None], X.astype(np.float32), X),
        lambda X, z: np.round(X, 2) + 0.001 * (2 * np.round(X) + z[:, None]),  # a third decimal
        lambda X, z: (2 * np.floor(512 * X) + z[:, None]) / 1024,
    ],
)
@pytest.mark.parametrize("unit", [1.0, 1e-6])
def test_residue_reads_the_form_of_the_numbers(change, unit):
    if unit != 1.0:
        change, plain = (lambda X, z: unit * plain(X, z)), change
    (found,) = advantages(None, ["residue"], n=1200, change=change)
    assert found > (0.45 if unit == 1.0 else -0.1)


def test_the_form_of_numbers_tells_nothing_by_itself():
    (found,) = advantages(None, ["residue"], n=8000, change=lambda X, z: np.round(X, 3))
    assert abs(found) < 4 * 0.5 / 4000**0.5


def test_the_norm_of_a_row_tells():
    """Of rows of unit norm a projection takes the concept, and the norm that is left gives it."""

    def change(X, z):
        X[:, 0] += 1 + 2 * z
        return (X / np.linalg.norm(X, axis=1, keepdims=True))[:, 1:]

    trees, line = advantages(None, ["trees", "logistic"], change=change)
    assert trees > 0.25
    assert line < 0.05


def test_the_size_of_a_row_has_no_limits():
    X = np.array([[3.0, 4.0], [0.0, 0.0]])
    for unit in (1e-200, 1.0, 1e200):
        seen = with_statistics(unit * X)(unit * X)
        assert seen[0, 2] == pytest.approx(np.log(5) + np.log(unit))
        assert np.isfinite(seen).all()


def test_spread_in_a_small_direction():
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0]

    def change(X, z):
        X[:, 0] *= 1e-7 * (1 + 3 * z)
        return X @ rotation

    (found,) = advantages(None, ["quadratic"], change=change)
    assert found > 0.25


def test_rows_of_low_rank_and_constant_columns():
    X, z, X_test, z_test = drawn("variance", n=300, m=300)
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))[0]
    flat = [rows @ U @ U.T * [1, 1, 1, 1, 1, 0] for rows in (X, X_test)]
    for found in attack(flat[0], z, flat[1], z_test, budget="standard"):
        assert np.isfinite(found.predictions).all()
    nothing = [np.ones((300, 2)), np.ones((300, 2))]
    for found in attack(nothing[0], z, nothing[1], z_test, attackers=ATTACKERS, budget="quick"):
        assert np.isfinite(found.log_loss_bits)
        assert found.advantage <= 0


def test_fifty_classes_with_names():
    rng = np.random.default_rng(0)
    z = np.array([f"class {k:02}" for k in range(50)])[np.arange(1000) % 50]
    centres = 3 * rng.normal(size=(50, 8))
    X, X_test = (centres[np.arange(1000) % 50] + rng.normal(size=(1000, 8)) for _ in range(2))
    for found in attack(X, z, X_test, z, budget="quick"):
        assert found.accuracy > 0.5
        assert found.predictions.shape == (1000, 50)


def test_wide_rows_are_narrowed_before_they_are_squared():
    X, z, X_test, z_test = drawn("xor", n=1500, d=60)
    (found,) = attack(X, z, X_test, z_test, attackers=["quadratic"], budget="quick")
    assert found.accuracy > 0.7


def test_a_budget_limits_rows_and_attackers():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(13_000, 2)), np.arange(13_000) % 2
    found = attack(X, z, X, z, attackers=["logistic"], budget="quick")[0]
    assert found.n_rows == BUDGETS["quick"].max_rows == 12_000
    sizes = [len(BUDGETS[name].attackers) for name in ("quick", "standard", "thorough")]
    assert sizes == sorted(set(sizes))
    assert BUDGETS["thorough"].attackers == ATTACKERS


def test_a_rare_class_survives_the_budget():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(13_000, 3)), np.where(np.arange(13_000) < 20, "rare", "common")
    X[z == "rare"] += 6
    for found in attack(X, z, X, z, attackers=QUICK, budget="quick"):
        assert found.balanced_accuracy > 0.9 or found.name == "trees"
        assert found.n_rows < 12_010


def test_progress_is_shown_to_those_who_ask(capsys):
    rows = drawn("mean", n=60, m=60)
    attack(*rows, attackers=["logistic"])
    assert capsys.readouterr() == ("", "")
    attack(*rows, attackers=["logistic"], verbose=True)
    assert "Attacking" in capsys.readouterr().err


def test_bad_input_is_named():
    X, z, X_test, z_test = drawn("mean", n=60, m=60)
    with pytest.raises(ValueError, match=r"attackers='tree'.*Did you mean 'trees'"):
        attack(X, z, X_test, z_test, attackers=["tree"])
    with pytest.raises(ValueError, match="no attackers"):
        attack(X, z, X_test, z_test, attackers=[])
    with pytest.raises(ValueError, match=r"budget='slow'.*'quick'"):
        attack(X, z, X_test, z_test, budget="slow")
    with pytest.raises(ValueError, match=r"Got 39 rows to train attackers on.*at least 40"):
        attack(X[:39], z[:39], X_test, z_test)
    names = np.array([f"{k:02}" for k in range(50)])[np.arange(400) % 50]
    wide = np.zeros((400, 2))
    with pytest.raises(ValueError, match=r"Got 400 rows.*at least 500 to learn 50 classes"):
        attack(wide, names, wide, names)
    rare = np.where(np.arange(60) < 4, "rare", "common")
    with pytest.raises(ValueError, match=r"Got 4 rows of class rare.*at least 5 of every class"):
        attack(X, rare, X_test, rare)
    with pytest.raises(ValueError, match=r"not seen in training \(2\)"):
        attack(X, z, X_test, np.where(z_test == 1, 2, 0))
    with pytest.raises(ValueError, match=r"no row of class 1 in z_test.*stratified"):
        attack(X, z, X_test[z_test == 0], z_test[z_test == 0])
    with pytest.raises(ValueError, match="5 features in X_test and 6 in X_train"):
        attack(X, z, X_test[:, :5], z_test)
    with pytest.raises(ValueError, match="59 values in z_test for 60 rows"):
        attack(X, z, X_test, z_test[:59])
    with pytest.raises(ValueError, match="NaN or infinity"):
        attack(np.full_like(X, np.inf), z, X_test, z_test)
    assert [rows_needed(Classes(np.zeros(1, dtype=int), np.arange(k))) for k in (2, 4, 50)] == [
        40,
        40,
        500,
    ]


def test_small_differences_of_many_variances_are_read_as_by_naive_bayes():
    """More columns than products are tried of: their squares are."""
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(0)
    spreads = np.exp(0.06 * rng.normal(size=(2, 300)))
    z = rng.integers(2, size=2000)
    X = rng.normal(size=(2000, 300)) * spreads[z]
    stock = GaussianNB().fit(X[:1000], z[:1000]).score(X[1000:], z[1000:])
    how = {"attackers": ["quadratic"], "budget": "quick"}
    (found,) = attack(X[:1000], z[:1000], X[1000:], z[1000:], **how)
    assert found.score > stock - 0.03 > 0.65
