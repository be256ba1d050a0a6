"""Erasure layer by layer: what is fitted behind what, on how many states, saved and continued."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel

import unspot
from unspot import LEACE
from unspot.erasers.registry import make
from unspot.models import fit_layers, load_layers
from unspot.models.layers import rows_of_states, sampled_states

D = 12
LAYERS = "encoder.layer.*"


@pytest.fixture(scope="module")
def bert():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=60, hidden_size=D, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=24,
    )  # fmt: skip
    return BertModel(config)  # with dropout, in training mode


def texts(n=160, seed=0):
    """Batches of 32 token ids with padding; half of the texts have words from another part."""
    rng = np.random.default_rng(seed)
    z = np.where(rng.random(n) < 0.5, "a", "b")
    ids = rng.integers(1, 5, size=(n, 7))
    marked = rng.random((n, 7)) < 0.9
    ids[marked & (z == "b")[:, None]] += 30
    mask = np.arange(7) < rng.integers(3, 8, size=n)[:, None]
    whole = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask).long()}
    batches = [{k: v[i : i + 32] for k, v in whole.items()} for i in range(0, n, 32)]
    return batches, z


def states(model, batches, name, positions="all"):
    parts = list(rows_of_states(model, batches, name, positions))
    return np.concatenate([p.X for p in parts]), np.concatenate([p.texts for p in parts])


def largest_mean_gap(X, z):
    return np.abs(X[z == "a"].mean(0) - X[z == "b"].mean(0)).max()


# -- what is fitted ------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", ["all", "cls", "last"])
def test_each_layer_is_fitted_behind_the_erased_ones(bert, positions):
    batches, z = texts()
    erasers = fit_layers(bert, batches, z, layers=LAYERS, positions=positions)
    assert list(erasers.erasers) == [f"encoder.layer.{i}" for i in range(3)]
    with erasers.attach(bert):
        for name in erasers.erasers:
            X, of = states(bert, batches, name, positions)
            assert largest_mean_gap(X, z[of]) < 1e-5
    # Erasers that were fitted on the bare model do not fit behind each other.
    alone = {}
    for name in erasers.erasers:
        X, of = states(bert, batches, name, positions)
        alone[name] = LEACE().fit(X, z[of])
    with unspot.hooks(bert, alone, positions=positions):
        X, of = states(bert, batches, "encoder.layer.2", positions)
    assert largest_mean_gap(X, z[of]) > 1e-4


def test_leace_from_batches_is_leace_on_all_states(bert):
    batches, z = texts()
    erasers = fit_layers(bert, batches, z, layers="encoder.layer.0")
    X, of = states(bert, batches, "encoder.layer.0")
    np.testing.assert_allclose(
        erasers.erasers["encoder.layer.0"](X), LEACE().fit_transform(X, z[of]), atol=1e-5
    )
    facts = erasers.erasers["encoder.layer.0"].metadata
    assert (
        facts["rows_seen"]
        == facts["n_rows"]
        == len(X)
        == sum(int(b["attention_mask"].sum()) for b in batches)
    )


def test_other_erasers_get_a_budget_of_states_that_is_said(bert, caplog):
    batches, z = texts()
    caplog.set_level("INFO", logger="unspot.models.layers")
    erasers = fit_layers(
        bert, batches, z, layers="encoder.layer.1", eraser=make("mean"), max_rows=90
    )
    facts = erasers.erasers["encoder.layer.1"].metadata
    assert facts["n_rows"] == 90 < facts["rows_seen"]
    assert f"90 of {facts['rows_seen']}" in caplog.text


def test_the_sample_of_states_has_all_batches(bert):
    batches, _ = texts(320)
    rows = rows_of_states(bert, batches, "encoder.layer.0", "all")
    sample, seen = sampled_states(rows, 200, seed=0)
    X = states(bert, batches, "encoder.layer.0")[0]
    assert seen == len(X)
    assert {tuple(row) for row in sample.X} <= {tuple(row) for row in X}
    counts = np.bincount(sample.texts // 32, minlength=10)
    assert counts.sum() == 200
    assert counts.min() >= 8


def test_the_model_is_left_as_it_was(bert):
    batches, z = texts(64)
    bert.encoder.layer[1].eval()
    modes = [module.training for module in bert.modules()]
    fit_layers(bert, batches, z, layers=LAYERS)
    assert [module.training for module in bert.modules()] == modes
    assert not any("unspot" in str(h) for m in bert.modules() for h in m._forward_hooks.values())
    bert.train()


def test_layers_go_in_the_order_of_the_calls():
    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.a(self.b(x))

    x, z = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)), np.arange(60) % 2
    assert list(fit_layers(Backwards(), x.split(20), z, layers="*").erasers) == ["b", "a"]


# -- saved and loaded -----------------------------------------------------------------------------


def test_a_folder_gives_the_same_erasers(bert, tmp_path):
    batches, z = texts()
    erasers = fit_layers(bert, batches, z, layers=LAYERS)
    erasers.save(tmp_path / "a")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [
        "000.safetensors", "001.safetensors", "002.safetensors",
    ]  # fmt: skip
    loaded = load_layers(tmp_path / "a")
    assert repr(loaded) == repr(erasers)
    with erasers.attach(bert):
        expected = states(bert, batches, "encoder.layer.2")[0]
    with loaded.attach(bert) as attached:
        np.testing.assert_allclose(states(bert, batches, "encoder.layer.2")[0], expected, atol=1e-6)
    attached.remove()
    assert np.abs(states(bert, batches, "encoder.layer.2")[0] - expected).max() > 1e-3


def damaged_file(folder):
    path = folder / "001.safetensors"
    path.write_bytes(path.read_bytes()[:-8])


def file_of_another_fit(folder):
    unspot.Eraser.projection(np.eye(D)[:, :2]).save(folder / "001.safetensors")


def swapped_files(folder):
    first, second = folder / "000.safetensors", folder / "001.safetensors"
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def lost_file(folder):
    (folder / "001.safetensors").unlink()


@pytest.mark.parametrize(
    ("damage", "needle"),
    [
        (damaged_file, r"001.safetensors"),
        (file_of_another_fit, r"layer.0, None, .*not those of one fit"),
        (swapped_files, r"layer.1, encoder.layer.0, .*not those of one fit"),
        (lost_file, r"layer.0, encoder.layer.2, which are not.*files are missing"),
    ],
)
def test_a_damaged_folder_is_refused(bert, tmp_path, damage, needle):
    batches, z = texts(64)
    fit_layers(bert, batches, z, layers=LAYERS).save(tmp_path)
    damage(tmp_path)
    with pytest.raises(ValueError, match=needle):
        load_layers(tmp_path)


def test_a_folder_without_erasers(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no eraser in it.*LayerErasers.save"):
        load_layers(tmp_path)


# -- bad input -----------------------------------------------------------------------------------


def test_inputs_that_cannot_be_read_twice(bert):
    batches, z = texts(64)
    with pytest.raises(ValueError, match=r"only once.*list of batches"):
        fit_layers(bert, iter(batches), z, layers=LAYERS)


def test_inputs_in_another_order_than_the_labels():
    loader = torch.utils.data.DataLoader(torch.randn(20, 4), batch_size=5, shuffle=True)
    with pytest.raises(ValueError, match=r"shuffles.*shuffle=False"):
        fit_layers(nn.Linear(4, 4), loader, np.arange(20) % 2, layers="")


@pytest.mark.parametrize("z", [np.zeros(63), np.zeros((64, 2))], ids=str)
def test_labels_that_do_not_fit_the_texts(bert, z):
    with pytest.raises(ValueError, match=r"Got z of shape .* 64 texts.*one label for each"):
        fit_layers(bert, texts(64)[0], z, layers=LAYERS)


def test_texts_instead_of_tensors(bert):
    with pytest.raises(ValueError, match=r"without a tensor.*return_tensors='pt'"):
        fit_layers(bert, [["a text", "another"]], [0, 1], layers=LAYERS)


def test_a_fitted_eraser_instead_of_an_estimator(bert):
    batches, z = texts(64)
    fitted = unspot.Eraser.projection(np.eye(D)[:, 1:])
    with pytest.raises(TypeError, match=r"Got a Eraser as eraser.*LEACE\(\)"):
        fit_layers(bert, batches, z, layers=LAYERS, eraser=fitted)


def test_a_module_that_is_not_called(bert):
    batches, z = texts(64)
    with pytest.raises(ValueError, match=r"'encoder.layer'.*does not call.*inside of it"):
        fit_layers(bert, batches, z, layers="encoder.layer")


def test_a_module_that_is_called_twice():
    shared = nn.Linear(4, 4)
    model = nn.Sequential(shared, nn.Tanh(), shared)
    with pytest.raises(ValueError, match=r"'0'.*calls 2 times"):
        fit_layers(model, [torch.randn(8, 4)], np.arange(8) % 2, layers=["0"])
