"""Each message of the page about troubles is one that really comes, and is quoted as it is."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from unspot import LEACE, LEOPARD, Dataset, certify, load
from unspot.erasers import MeanProjection

PAGE = Path(__file__).parent.parent / "docs" / "troubleshooting.md"
if not PAGE.exists():
    pytest.skip("the pages are in the repository, not in the package", allow_module_level=True)
QUOTED = re.findall(r"^### `(.*)`$", PAGE.read_text("utf-8"), re.MULTILINE)

X = np.random.default_rng(0).normal(size=(300, 6))
z = np.arange(300) % 2
NUMBERS = np.arange(300) % 60 + 18


def rows_of_authors():
    rng = np.random.default_rng(0)
    authors = np.repeat(np.arange(60), 10)
    rows = rng.normal(size=(60, 6))[authors] + 0.01 * rng.normal(size=(600, 6))
    return Dataset.from_arrays(rows, rng.integers(2, size=60)[authors], random_state=0)


def with_a_hole():
    return np.where(np.arange(300)[:, None] == 3, np.nan, X)


def changed_file():
    LEACE().fit(X, z).eraser_.save("changed.safetensors")
    path = Path("changed.safetensors")
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    load(path)


def command(*words):
    from unspot.cli import main

    np.savez("rows.npz", X=X, gender=z)
    Path("there.safetensors").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["unspot", *words])
        with pytest.raises(SystemExit):
            main()


def _without_the_requested_concept():
    with config_context(enable_metadata_routing=True):
        make_pipeline(LEACE().set_fit_request(z=True), LogisticRegression()).fit(X, z)


#: How to meet each message, by how the message begins.
TROUBLES = {
    "Got no z": _without_the_requested_concept,
    "Got numbers of": lambda: LEACE().fit(X, NUMBERS),
    "Got … classes": lambda: LEACE().fit(X, np.arange(300)),
    "Got a continuous": lambda: MeanProjection().fit(X, X[:, 0]),
    "Got … missing": lambda: LEACE().fit(X, [None, *"ab" * 149, "a"]),
    "Got … values of NaN": lambda: LEACE().fit(with_a_hole(), z),
    "Got one class": lambda: LEACE().fit(X, np.zeros(300)),
    "Got a concept whose": lambda: LEACE().fit(X, NUMBERS % 9),
    "Got the classes": lambda: LEACE().fit(X, np.where(z, "Male", "Male ")),
    "Got … of … rows of": lambda: LEACE().fit(X, np.arange(300) < 3),
    "Got rows of norm": lambda: LEACE().fit(X, z).transform(7 * X),
    "Got rank": lambda: LEOPARD(rank=900).fit(X, z),
    "Got an eraser": lambda: certify(
        LEACE().fit(X, z), Dataset.from_arrays(X, z, random_state=0), budget="quick"
    ),
    "Got … rows in": lambda: certify(None, Dataset.from_arrays(X[:40], z[:40], random_state=0)),
    "Got rows that": lambda: certify(None, rows_of_authors(), attackers=["logistic"]),
    "X has": lambda: LEACE().fit(X, z).transform(X[:, 1:]),
    "Got array": lambda: command("fit", "rows.npz", "--concept", "gendr", "-o", "new.safetensors"),
    "Got output": lambda: command(
        *("fit", "rows.npz", "--concept", "gender", "-m", "leace", "-o", "there.safetensors")
    ),
    "Got '": changed_file,
}


def test_every_quoted_message_has_its_trouble():
    assert len(QUOTED) == len(TROUBLES)
    assert all(any(quoted.startswith(start) for start in TROUBLES) for quoted in QUOTED)


@pytest.mark.parametrize("start", TROUBLES)
def test_the_message_comes_as_the_page_has_it(start, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            TROUBLES[start]()
            error = ""
        except ValueError as raised:
            error = str(raised)
    said = " ".join([error, *(str(w.message) for w in caught), capsys.readouterr().err])
    quoted = next(quoted for quoted in QUOTED if quoted.startswith(start))
    pattern = ".+".join(map(re.escape, quoted.split("…")))
    assert re.search(pattern, " ".join(said.split())), said
