"""Search in mixed pools, iLISI and the robustness index, against other implementations."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import ndcg_score
from sklearn.metrics.pairwise import euclidean_distances

from unspot import LEACE, evaluate
from unspot.evaluation import lisi, retrieval, robustness_index


def pool(n=60, n_sources=3, d=5, seed=0):
    rng = np.random.default_rng(seed)
    ids, sources = np.tile(np.arange(n), n_sources), np.repeat(list("abc"[:n_sources]), n)
    X = rng.normal(size=(n, d))[ids] + 0.5 * rng.normal(size=(n * n_sources, d))
    X[:, 0] += 2.0 * np.searchsorted(list("abc"), sources)
    return X, ids, sources


def test_retrieval_is_that_of_a_sorted_list():
    X, ids, sources = pool()
    similarity = -euclidean_distances(X)
    np.fill_diagonal(similarity, -np.inf)
    first = similarity.argmax(axis=1)
    ten = np.argsort(-similarity, axis=1)[:, :10]
    relevant = (ids == ids[:, None]) & ~np.eye(len(X), dtype=bool)
    np.fill_diagonal(similarity, -1e9)
    found = retrieval(X, ids, sources)
    assert found.recall.value == pytest.approx(np.mean(ids[first] == ids))
    assert found.ndcg.value == pytest.approx(ndcg_score(relevant, similarity, k=10))
    assert found.same_source.value == pytest.approx(np.mean(sources[ten] == sources[:, None]))
    assert found.fair_share == pytest.approx(59 / 179)
    assert (found.n_queries, found.n_alone) == (180, 0)


def test_intervals_cover_the_recall_of_many_pools():
    truth = np.mean([retrieval(*pool(seed=s)[:2]).recall.value for s in range(200)])
    found = [retrieval(*pool(seed=s)[:2]).recall for s in range(200)]
    assert 0.9 <= np.mean([r.low <= truth <= r.high for r in found]) <= 0.99


def test_ids_that_occur_once():
    X, ids, _ = pool(30, 2)
    with pytest.raises(ValueError, match=r"60 ids that occur once each.*several rows share.*Give"):
        retrieval(X, np.arange(60))
    with pytest.raises(ValueError, match=r"one id for all 60 rows.*others do not.*Give"):
        retrieval(X, np.zeros(60))
    with pytest.raises(ValueError, match=r"1 missing labels in ids.*each an id of its own"):
        retrieval(X, [None, *ids[1:]])
    ids[:10] = 100 + np.arange(10)  # now twenty rows are alone
    found = retrieval(X, ids)
    assert (found.n_queries, found.n_alone, found.same_source) == (40, 20, None)


def test_lisi_is_that_of_harmonypy():
    package = pytest.importorskip("harmonypy.lisi")
    X, _, sources = pool(150)
    expected = package.compute_lisi(X, {"source": sources}, ["source"], perplexity=20)[:, 0]
    np.testing.assert_allclose(lisi(X, sources, perplexity=20), expected, rtol=1e-3)


def test_the_robustness_index_by_counting():
    X, _, sources = pool(40)
    classes = np.where(X[:, 1] > 0, "f", "m")
    distances = euclidean_distances(X)
    np.fill_diagonal(distances, np.inf)
    good = bad = 0
    for i, near in enumerate(np.argsort(distances, axis=1)[:, :7]):
        good += sum(classes[j] == classes[i] and sources[j] != sources[i] for j in near)
        bad += sum(classes[j] != classes[i] and sources[j] == sources[i] for j in near)
    assert robustness_index(X, classes, sources, k=7) == pytest.approx(good / (good + bad))


# -- In an evaluation ------------------------------------------------------------------------------


def test_an_evaluation_searches_before_and_after():
    X, ids, sources = pool(120)
    eraser = LEACE().fit(*pool(120, seed=1)[::2])
    ids[:10] = 1000 + np.arange(10)
    found = evaluate(eraser, X, sources, pairs=ids, metrics=["search"])
    before, after = (retrieval(rows, ids, sources) for rows in (X, eraser.transform(X)))
    for key in ("recall_at_1", "ndcg", "same_source"):
        name = key.removesuffix("_at_1")
        values = found[key].before.mean, found[key].after.mean
        assert values == pytest.approx([getattr(side, name).value for side in (before, after)])
    assert after.recall.value > 2 * before.recall.value
    assert f"{after.recall.low:.3f} to {after.recall.high:.3f}" in found["recall_at_1"].note
    assert "10 ids occur once" in found["recall_at_1"].note
    assert f"fair is {100 * after.fair_share:.1f} %" in found["same_source"].note
    with pytest.raises(ValueError, match="360 ids that occur once each"):
        evaluate(eraser, X, sources, pairs=np.arange(360), metrics=["search"])
    with pytest.raises(ValueError, match=r"no ids of rows that belong together \(pairs\)"):
        evaluate(eraser, X, sources, metrics=["search"])


def test_a_number_of_ones_own_is_of_the_rows_in_their_order():
    X, _, sources = pool()
    eraser = LEACE().fit(*pool(seed=1)[::2])

    def first(rows, numbers):
        return rows[0, numbers[0]]

    found = evaluate(eraser, X, sources, utility=first, metrics=["utility"])["utility"]
    assert (found.before.mean, found.after.mean) == (X[0, 0], eraser.transform(X)[0, 0])


def test_what_looks_mixed_has_the_attacker_beside_it(attacked_by):
    """Sources differ by the sign of a product: neighbours are mixed, and a boundary is not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 12))
    sources = np.where(X[:, 0] * X[:, 1] > 0, "a", "b")
    with attacked_by("logistic", "quadratic"):
        found = evaluate(None, X, sources, metrics=["mixing"])
        attack = evaluate(None, X, sources, metrics=["attack"])["attack"].after.mean
    assert found["ilisi"].after.mean > 1.7  # of 2
    assert attack > 0.75
    assert f"{100 * attack:.1f} % (guessing: 50.0 %)" in found["ilisi"].note


def test_few_ids_that_are_all_found_do_not_show_that_all_are():
    X, ids, _ = pool(n=75, n_sources=1)
    recall = retrieval(np.repeat(X, 2, axis=0), np.repeat(ids, 2)).recall
    assert recall.value == recall.high == 1
    assert recall.low == pytest.approx(0.025 ** (1 / 75), abs=0.01)  # the exact end
