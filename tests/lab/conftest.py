"""The program as a function, for the commands of the lab."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from unspot.cli import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


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
