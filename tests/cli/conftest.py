"""Data to run the program on."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def table(tmp_path, rows):
    """The same as a Parquet file with a vector column ``emb`` and the concept ``gender``."""
    X, z = rows
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"id": range(len(X)), "emb": vectors, "gender": z}), path)
    return path
