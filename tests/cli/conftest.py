"""Data to run the program on."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspot.evaluation.attackers import BUDGETS
from unspot.evaluation.measure import HALVINGS


@pytest.fixture
def cheap(monkeypatch):
    """Budgets of few attackers and one halving, for what is not about them."""
    few = replace(BUDGETS["quick"], attackers=("logistic", "quadratic"))
    for budget in ("quick", "standard"):
        monkeypatch.setitem(BUDGETS, budget, few)
        monkeypatch.setitem(HALVINGS, budget, 1)


@pytest.fixture
def table(tmp_path, rows):
    """The same as a Parquet file with a vector column ``emb`` and the concept ``gender``."""
    X, z = rows
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"id": range(len(X)), "emb": vectors, "gender": z}), path)
    return path
