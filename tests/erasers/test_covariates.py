"""Covariates: age and sex stay, what rows tell about a site beyond them goes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from unspot import LEACE, LEOPARD, Cascade
from unspot.data import Classes, Number
from unspot.data.concept import read_covariate
from unspot.erasers import Transport
from unspot.leopard import ManifoldSolver


def people(n=1500, seed=0, *, shift=2.0, scale=1.0):
    """Rows of three sites: column 0 grows with age, 1 shows the site, 2 its scale, 3 the sex."""
    rng = np.random.default_rng(seed)
    site = rng.integers(3, size=n)
    age = np.round(35 + 15 * site + 10 * rng.normal(size=n))  # whole numbers
    sex = np.where(rng.random(n) < 0.3 + 0.2 * site, "f", "m")
    X = rng.normal(size=(n, 8))
    X[:, 0] += (age - 50) / 8
    X[:, 1] += shift * site
    X[:, 2] *= 1.0 + scale * site
    X[:, 3] += 2.0 * (sex == "f")
    return X, site, {"age": age, "sex": sex}


def r2(X, y):
    return LinearRegression().fit(X, y).score(X, y)


def fast(rank):
    return LEOPARD(rank, solver=ManifoldSolver(max_evaluations=40), random_state=0)


@pytest.mark.parametrize("table", [dict, pd.DataFrame], ids=["dict", "frame"])
def test_leace_leaves_no_partial_correlation(table):
    X, site, covariates = people()
    erased = LEACE().fit(X, site, given=table(covariates)).transform(X)
    known = read_covariate(covariates, "given", len(X)).basis(0)
    residuals = [A - LinearRegression().fit(known, A).predict(known) for A in (erased, X)]
    left, before = (np.abs(np.cov(rows.T, site)[-1, :-1]).max() for rows in residuals)
    assert left < 1e-9 < 0.1 < before


@pytest.mark.parametrize(
    ("eraser", "name"),
    [
        (LEACE(), "given"),
        (Transport(), "given"),
        (Transport(), "keep"),
        (Cascade(second=fast(5)), "given"),
        (Cascade(Transport(), fast(5)), "given"),
    ],
)
def test_what_covariates_explain_stays(eraser, name):
    X, site, covariates = people()
    new, new_site, known = people(seed=1)
    without_sites, _, _ = people(seed=1, shift=0.0, scale=0.0)
    erased = eraser.fit(X, site, **{name: covariates}).transform(new)
    female = known["sex"] == "f"
    for task in (known["age"], female):
        assert r2(erased, task) > r2(without_sites, task) - 0.1
    columns = np.column_stack([known["age"], female])
    before, after, alone = (
        r2(np.hstack([rows, columns]), new_site) for rows in (new, erased, new[:, :0])
    )
    assert before > alone + 0.2
    assert after < alone + 0.03


def test_leace_keeps_covariances_with_a_table():
    X, site, covariates = people()
    covariates["age"] = covariates["age"] + 60 * np.random.default_rng(2).normal(size=len(X))
    erased = LEACE().fit(X, site, keep=covariates).transform(X)
    for task in (covariates["age"], covariates["sex"] == "f"):
        np.testing.assert_allclose(np.cov(erased.T, task)[-1], np.cov(X.T, task)[-1], atol=1e-9)
    assert np.abs(np.cov(erased.T, site == 0)[-1, :-1]).max() < 1e-9


def test_transport_makes_residual_covariances_equal():
    X, site, covariates = people(4000)
    moved = Transport().fit(X, site, given=covariates).transform(X)
    spreads = [moved[site == k][:, 2].std() for k in range(3)]
    assert max(spreads) / min(spreads) < 1.25  # 3 before


def cells(n=3000, seed=0):
    """Two types far apart; one site has both, and each other site one of them."""
    rng = np.random.default_rng(seed)
    site = rng.integers(3, size=n)
    kind = np.where(site == 0, rng.integers(2, size=n), site - 1)
    X = rng.normal(size=(n, 8)) * np.where(site == 0, 2.0, 1.0)[:, None]
    X += np.outer(kind, [20.0, 5, 0, 0, 0, 0, 0, 0]) + np.outer(
        site == 1, [0, 0, 3.0, 0, 0, 0, 0, 0]
    )
    return X, site, np.array(["blood", "skin"])[kind]


def test_a_type_that_one_site_has_alone():
    X, site, kind = cells()
    assert LEACE().fit(X, site, given=kind).eraser_.rank == 6  # a mean within each type


@pytest.mark.parametrize("name", ["given", "keep"])
def test_transport_does_not_scale_what_covariates_explain(name):
    X, site, kind = cells()
    moved = Transport().fit(X, site, **{name: kind}).transform(X)
    gaps = []
    for rows in (X, moved):
        means = {
            k: rows[(site == k[0]) & (kind == k[1])].mean(axis=0)
            for k in ((0, "blood"), (0, "skin"), (1, "blood"), (2, "skin"))
        }
        apart = np.linalg.norm(means[0, "blood"] - means[0, "skin"])
        gaps.append(np.linalg.norm(means[0, "blood"] - means[1, "blood"]) / apart)
        gaps.append(np.linalg.norm(means[0, "skin"] - means[2, "skin"]) / apart)
    assert apart > 15
    assert gaps[0] > 0.1
    assert max(gaps[2:]) < 0.02
    spreads = [moved[(site == k) & (kind == "blood")][:, 4].std() for k in (0, 1)]
    assert spreads[0] / spreads[1] < 1.6  # 2 before


def test_forms_of_covariates():
    X, site, covariates = people(300)
    about = LEACE().fit(X, site, given=covariates).eraser_.metadata["given"]
    assert about == {"kind": "several", "classes": None, "columns": ["age", "sex"]}
    age = covariates["age"]
    one = LEACE().fit(X, site, given=Number.read(age)).eraser_.P
    for given in (age, {"age": age}, pd.DataFrame({"age": age}), age.astype(int).tolist()):
        np.testing.assert_allclose(LEACE().fit(X, site, given=given).eraser_.P, one)
    both = read_covariate({"age": age, "sex": Classes.read(covariates["sex"])}, "given", 300)
    assert both.kinds == {"age": "continuous", "sex": "categories"}


# -- Bad input -----------------------------------------------------------------------------------


def test_a_covariate_that_is_missing_for_some_rows():
    X, site, covariates = people(600)
    covariates["age"][::10] = np.nan
    with pytest.warns(UserWarning, match=r"no value of given\['age'\] in 60 of 600 rows"):
        erased = LEACE().fit(X, site, given=covariates).transform(X)
    assert r2(erased[1::10], covariates["age"][1::10]) > 0.6


def test_rare_classes_are_merged():
    X, site, covariates = people(600)
    job = np.array(["cook"] * 300 + ["nurse"] * 290 + ["judge"] * 6 + ["mayor"] * 4)
    with pytest.warns(UserWarning, match=r"given\['job'\].*fewer than 10 rows.* 2 rarest"):
        merged = LEACE().fit(X, site, given={**covariates, "job": job}).eraser_.P
    job[590:] = "judge"
    by_hand = LEACE().fit(X, site, given={**covariates, "job": job}).eraser_.P
    np.testing.assert_allclose(merged, by_hand)


@pytest.mark.parametrize("eraser", [LEACE(), Transport(), fast(4)])
def test_covariates_that_determine_the_site(eraser):
    X, site, covariates = people(300)
    scanner = np.array(["A", "B", "C"])[site]
    with pytest.raises(ValueError, match=r"function of what is given.*leave given out"):
        eraser.fit(X, site, given={"age": covariates["age"], "scanner": scanner})
    first, second = np.array([0, 0, 1])[site], np.array([0, 1, 1])[site]
    with pytest.raises(ValueError, match="function of what is given"):
        eraser.fit(X, site, given={"maker": first, "model": second})


@pytest.mark.parametrize("eraser", [LEACE(), Transport(), Cascade(Transport(), fast(4))])
def test_a_table_to_keep_with_a_column_that_is_the_site(eraser):
    X, site, covariates = people(300)
    scanner = np.array(["A", "B", "C"])[site]
    with pytest.raises(ValueError, match=r"each decides the other.*without keep"):
        eraser.fit(X, site, keep={"age": covariates["age"], "scanner": scanner})


def test_a_gap_is_said_once():
    X, site, covariates = people(300)
    covariates["age"][::10] = np.nan
    with pytest.warns(UserWarning, match=r"no value of given\['age'\] in 30 of 300 rows"):
        read = read_covariate(covariates, "given", 300)
    LEACE().fit(X, site, given=read)  # as ``erase`` does with every candidate


def test_a_constant_covariate():
    X, site, covariates = people(300)
    with pytest.raises(ValueError, match=r"given\['sex'\] with the same value"):
        LEACE().fit(X, site, given={**covariates, "sex": ["f"] * 300})


# -- The pages about sites and tables --------------------------------------------------------------

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
PAGES = [page for page in (HOWTO / "sites.md", HOWTO / "tables.md") if page.exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_the_pages_show(page, capsys):
    code, shown = (
        "".join(re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.S | re.M))
        for language in ("python", "text")
    )
    exec(code, {})
    assert capsys.readouterr().out == shown
