"""Folders with a card, the hub without a network, and other ways to store estimators."""

from __future__ import annotations

import io

import huggingface_hub
import joblib
import numpy as np
import pytest
import skops.io
import yaml

from unspot import LEACE, LEOPARD, Cascade, Dataset, Eraser, certify, evaluate, load


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    z = np.where(np.arange(600) % 2, "f", "m")
    X = rng.normal(size=(600, 4)) + 2 * (z == "f")[:, None] * [1, 0, 0, 0]
    return Dataset.from_arrays(X, z, random_state=0)


@pytest.fixture(scope="module")
def eraser(data):
    fitted = LEACE().fit(data.train.X, data.train.z).eraser_
    return fitted.with_metadata(concept_name="gender", data="people.parquet")


@pytest.fixture(scope="module")
def certificate(eraser, data):
    return certify(eraser, data, budget="quick")


def test_a_folder_is_loaded(eraser, data, tmp_path):
    eraser.save_pretrained(tmp_path / "new" / "folder")
    loaded = load(tmp_path / "new" / "folder")
    np.testing.assert_array_equal(loaded(data.test.X), eraser(data.test.X))
    assert loaded.metadata == eraser.metadata
    with pytest.raises(FileNotFoundError, match=r"eraser\.safetensors"):
        load(tmp_path / "new")


def test_the_card_says_what_was_erased_from_what_and_how_well(eraser, data, certificate, tmp_path):
    found = evaluate(eraser, data, metrics=["linear", "variance"])
    eraser.save_pretrained(tmp_path, evaluation=found, certificate=certificate)
    text = (tmp_path / "README.md").read_text("utf-8")
    _, head, body = text.split("---\n", 2)
    assert yaml.safe_load(head)["library_name"] == "unspot"
    for needle in ("gender", "people.parquet", "LEACE", "f (150 rows)", "fingerprint"):
        assert needle.lower() in body.lower(), needle
    assert certificate.sentence in body
    assert certificate.verdict in body
    assert found.to_markdown() in body
    assert "Limits" in body
    known = eraser.metadata["known_rows"][0]
    assert known not in text


def test_without_a_certificate_the_card_says_so(tmp_path):
    Eraser.projection(np.eye(3)[:, :2], classes=["# a\n# b"]).save_pretrained(tmp_path)
    text = (tmp_path / "README.md").read_text("utf-8")
    assert "No certificate" in text
    assert "unspot certify" in text
    assert "\n# b" not in text  # a name is no heading


def test_push_to_hub_uploads_the_folder(eraser, monkeypatch, certificate):
    calls = {}

    class Api:
        def __init__(self, token=None):
            calls["token"] = token

        def create_repo(self, repo_id, **settings):
            calls["create"] = repo_id, settings
            return f"https://huggingface.co/{repo_id}"

        def upload_folder(self, *, repo_id, folder_path, commit_message):
            calls["upload"] = repo_id, load(folder_path).metadata["concept_name"]
            calls["message"] = commit_message

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    address = eraser.push_to_hub("me/eraser", private=True, token="t", certificate=certificate)
    assert address == "https://huggingface.co/me/eraser"
    assert calls["create"] == ("me/eraser", {"private": True, "exist_ok": True})
    assert calls["upload"] == ("me/eraser", "gender")
    assert calls["token"] == "t"


ESTIMATORS = {
    "leace": LEACE(normalise=True),
    "leopard": LEOPARD(rank=2, random_state=0),
    "cascade": Cascade(LEOPARD(rank=2, random_state=0)),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_survive_joblib_and_skops(name, data):
    fitted = ESTIMATORS[name].fit(data.train.X, data.train.z)
    expected = fitted.transform(data.test.X)
    file = io.BytesIO()
    joblib.dump(fitted, file)
    file.seek(0)
    np.testing.assert_array_equal(joblib.load(file).transform(data.test.X), expected)
    content = skops.io.dumps(fitted)
    unknown = skops.io.get_untrusted_types(data=content)
    assert all(name.startswith(("unspot.", "numpy.", "builtins.")) for name in unknown), unknown
    again = skops.io.loads(content, trusted=unknown)
    np.testing.assert_array_equal(again.transform(data.test.X), expected)
    assert again.get_params().keys() == fitted.get_params().keys()
