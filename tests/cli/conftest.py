"""Running the program inside the test, and data to run it on."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspot.cli import main

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


@pytest.fixture
def table(tmp_path, rows):
    """The same as a Parquet file with a vector column ``emb`` and the concept ``gender``."""
    X, z = rows
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"id": range(len(X)), "emb": vectors, "gender": z}), path)
    return path
