"""ComBat and CovBat against neuroCombat, Fortin's own package."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from unspot.lab import ComBat, CovBat


def people(n=240, d=12, seed=0):
    rng = np.random.default_rng(seed)
    site = np.array(["a", "b", "c"])[rng.choice(3, size=n, p=[0.5, 0.3, 0.2])]
    codes = np.searchsorted(["a", "b", "c"], site)
    age, sex = 50 + 12 * rng.normal(size=n) + 5 * codes, rng.choice(["f", "m"], n)
    loadings = rng.normal(size=(3, 2, d))
    X = np.outer(age / 20, rng.normal(size=d)) + np.outer(sex == "f", rng.normal(size=d))
    X += np.einsum("nf,nfd->nd", rng.normal(size=(n, 2)), loadings[codes])
    X += rng.normal(size=(3, d))[codes] + rng.gamma(4, 0.25, size=(3, d))[codes] * rng.normal(
        size=(n, d)
    )
    return X, site, {"age": age, "sex": sex}


def published(rows, site, covariates=None, **how):
    package = pytest.importorskip("neuroCombat")
    table = pd.DataFrame({"site": site, **(covariates or {})})
    if covariates:
        how |= {"categorical_cols": ["sex"], "continuous_cols": ["age"]}
    return package.neuroCombat(rows.T, table, "site", **how)


@pytest.mark.parametrize("with_covariates", [False, True])
def test_combat_is_that_of_the_package(with_covariates):
    X, site, covariates = people()
    given = covariates if with_covariates else None
    fitted = ComBat().fit(X, site, given=given)
    expected = published(X, site, given)["data"].T
    np.testing.assert_allclose(fitted.transform(X, site, given=given), expected, atol=2e-3)


def test_covbat_evens_the_scores_of_residuals():
    X, site, covariates = people()
    adjusted = published(X, site, covariates)
    estimates = adjusted["estimates"]
    mean = np.asarray(estimates["stand.mean"] + estimates["mod.mean"]).T
    spread = np.sqrt(np.asarray(estimates["var.pooled"]).ravel())
    residuals = (adjusted["data"].T - mean) / spread
    units = residuals.std(axis=0)
    rows = (residuals - residuals.mean(axis=0)) / units
    _, values, right = np.linalg.svd(rows, full_matrices=False)
    m = int(np.argmax(np.cumsum(values**2) / np.sum(values**2) > 0.8)) + 1
    scores = rows @ right.T
    scores[:, :m] = published(scores[:, :m], site, eb=False)["data"].T
    expected = (scores @ right * units + residuals.mean(axis=0)) * spread + mean
    found = CovBat(0.8).fit(X, site, given=covariates).transform(X, site, given=covariates)
    np.testing.assert_allclose(found, expected, atol=5e-3)


def test_new_rows_are_corrected_by_the_sites_of_the_fit():
    X, site, covariates = people(4000)
    fitted = ComBat().fit(X[:2000], site[:2000], given={k: v[:2000] for k, v in covariates.items()})
    new = {k: v[2000:] for k, v in covariates.items()}
    moved = fitted.transform(X[2000:], site[2000:], given=new)
    known = np.column_stack([np.ones(2000), new["age"], new["sex"] == "f"])
    gaps = []
    for rows in (X[2000:], moved):
        rest = rows - known @ np.linalg.lstsq(known, rows, rcond=None)[0]
        means = np.stack([rest[site[2000:] == name].mean(axis=0) for name in "abc"])
        gaps.append(np.ptp(means, axis=0).mean())
    assert gaps[1] < 0.2 * gaps[0]


# -- Bad input -----------------------------------------------------------------------------------


def test_what_combat_needs_of_new_rows():
    X, site, covariates = people()
    fitted = ComBat().fit(X, site, given=covariates)
    with pytest.raises(ValueError, match=r"without their sites.*needs neither"):
        fitted.transform(X)
    with pytest.raises(ValueError, match="without their covariates"):
        fitted.transform(X, site)
    with pytest.raises(ValueError, match=r"not seen in training \('d'\)"):
        fitted.transform(X[:1], ["d"], given={"age": [40.0], "sex": ["f"]})


@pytest.mark.filterwarnings("ignore:Got no value of given")
def test_covariates_that_combat_cannot_use():
    X, site, covariates = people()
    with pytest.raises(ValueError, match="determine the site"):
        ComBat().fit(X, site, given={"scanner": np.char.upper(site), **covariates})
    covariates["age"][3] = np.nan
    with pytest.raises(ValueError, match="no value of age in 1 rows"):
        ComBat().fit(X, site, given=covariates)


@pytest.mark.parametrize("method", [ComBat, CovBat])
def test_constant_columns_stay_and_change_no_other(method):
    X, site, given = people()
    wide = np.hstack([X, np.full((len(X), 1), 7.0)])
    alone, both = (method().fit(rows, site, given=given) for rows in (X, wide))
    corrected = both.transform(wide, site, given=given)
    np.testing.assert_allclose(corrected[:, -1], 7.0)
    wide[:, -1] = 5 * (site == "a")  # constant within sites: nothing of it is left
    assert np.ptp(method().fit(wide, site).transform(wide, site)[:, -1]) < 1e-9
    np.testing.assert_allclose(corrected[:, :-1], alone.transform(X, site, given=given), atol=1e-8)


def test_rows_that_cannot_be_corrected():
    X, site, _ = people()
    with pytest.raises(ValueError, match="two columns"):
        ComBat().fit(X[:, :1], site)
    with pytest.raises(ValueError, match="NaN"):
        ComBat().fit(np.where(np.arange(X.size).reshape(X.shape) == 3, np.nan, X), site)
