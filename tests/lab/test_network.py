"""What all erasers that train a network owe: batches, stopping, normalisation, numpy alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from unspot.lab import AdversarialErasure, FaRM, KernelErasure, KRaM, coding_rate, farm, kram

NETWORKS = [
    FaRM(training={"epochs": 3}, random_state=0),
    KRaM(training={"epochs": 3}, random_state=0),
    KernelErasure(training={"epochs": 3}, n_landmarks=20, random_state=0),
    AdversarialErasure(training={"epochs": 3}, random_state=0),
]

CONTINUOUS = KRaM(training={"epochs": 3}, random_state=0)


def name_of(estimator):
    return type(estimator).__name__


@pytest.fixture(scope="module")
def data():
    """Three classes of very different size, one of them wider."""
    rng = np.random.default_rng(0)
    z = np.repeat(["a", "b", "c"], [600, 300, 100])
    X = rng.normal(size=(1000, 6))
    X[z == "b"] *= 2
    return X, z


@pytest.fixture
def double_by_default():
    """A process in which torch makes tensors of double precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def losses(monkeypatch):
    """Every call of FaRM's objective: the rows Z, their codes, and whether it was to train."""
    seen = []

    def remember(Z, codes, *, distortion):
        seen.append((Z.detach().clone(), codes.clone(), Z.requires_grad))
        return coding_rate.coding_rate(Z, distortion=distortion)

    monkeypatch.setattr(farm, "farm_objective", remember)
    return seen


@pytest.mark.parametrize("estimator", NETWORKS, ids=name_of)
def test_a_saved_network_needs_no_torch(estimator, data, tmp_path):
    X, z = data
    estimator.fit(X, z).eraser_.save(tmp_path / "e.safetensors")
    np.save(tmp_path / "x.npy", X)
    program = (
        "import sys\n"
        "sys.modules['torch'] = None  # importing it fails\n"
        "import numpy as np, unspot\n"
        "np.save('y.npy', unspot.load('e.safetensors')(np.load('x.npy')))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), estimator.transform(X))


def test_mini_batches_hold_every_class_in_its_share(data, losses):
    FaRM(training={"epochs": 2, "batch_size": 100}, random_state=0).fit(*data)
    batches = [codes for _, codes, to_train in losses if to_train]
    assert len(batches) == 2 * 9
    for codes in batches:
        np.testing.assert_array_equal(torch.bincount(codes, minlength=3), [60, 30, 10])


def test_no_row_of_an_epoch_is_left_out(data, losses):
    FaRM(training={"epochs": 1, "batch_size": 50, "validation_fraction": 0.0}, random_state=0).fit(
        *data
    )
    trained = torch.cat([codes for _, codes, to_train in losses if to_train])
    np.testing.assert_array_equal(torch.bincount(trained), [600, 300, 100])


def test_the_held_out_part_is_stratified_and_not_trained_on(data, losses):
    FaRM(training={"epochs": 1, "validation_fraction": 0.25}, random_state=0).fit(*data)
    trained, held = (
        torch.cat([codes for _, codes, flag in losses if flag == to_train])
        for to_train in (True, False)
    )
    np.testing.assert_array_equal(torch.bincount(held), [150, 75, 25])
    np.testing.assert_array_equal(torch.bincount(trained), [450, 225, 75])


@pytest.mark.parametrize("cls", [FaRM, KRaM])
def test_erased_rows_are_normalised_as_in_the_loss(cls, data, monkeypatch):
    X, z = data
    seen = []

    def remember(Z, *, distortion=0.5):
        seen.append(Z.detach().clone())
        return coding_rate.coding_rate(Z, distortion=distortion)

    # R(Z) is the first rate of both objectives; the last call before a result is on held-out rows.
    monkeypatch.setattr(farm if cls is FaRM else kram, "coding_rate", remember)
    eraser = cls(training={"epochs": 1}, random_state=0).fit(X, z)
    in_the_loss = seen[-1 if cls is FaRM else -2].numpy()
    erased = eraser.transform(X)
    for row in in_the_loss:  # in single precision there
        assert np.abs(erased - row).max(axis=1).min() < 1e-4
    assert len(in_the_loss) == 100  # the held-out tenth


@pytest.mark.parametrize("estimator", [FaRM(), KRaM()], ids=name_of)
def test_training_stops_when_held_out_rows_gain_nothing(estimator, data):
    rng = np.random.default_rng(1)
    X, z = rng.normal(size=(300, 3)), np.arange(300) % 2
    estimator = (
        clone(estimator)
        .set_params(training={"epochs": 400, "patience": 3}, random_state=0)
        .fit(X, z)
    )
    assert estimator.n_iter_ < 400
    best = int(np.argmin(estimator.history_))
    assert estimator.n_iter_ - best <= 1 + 2 * 3


@pytest.mark.parametrize("estimator", NETWORKS, ids=name_of)
def test_same_seed_same_bits_for_any_state_of_the_global_generator(estimator, data):
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        results.append(estimator.fit(*data).transform(data[0]))
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("estimator", [*NETWORKS, CONTINUOUS], ids=str)
def test_same_bits_for_any_default_precision_of_torch(estimator, data, request):
    X, z = data
    concept = X[:, 0] if estimator is CONTINUOUS else z
    plain = estimator.fit(X, concept).transform(X)
    request.getfixturevalue("double_by_default")
    np.testing.assert_array_equal(estimator.fit(X, concept).transform(X), plain)


def test_progress_is_shown_when_asked(data, capsys):
    FaRM(training={"epochs": 2, "verbose": True}, random_state=0).fit(*data)
    assert "epochs: held-out loss" in capsys.readouterr().err


def test_networks_are_trained_on_one_thread(monkeypatch):
    threads = []

    def remember(Z, codes, *, distortion):
        threads.append(torch.get_num_threads())
        return coding_rate.coding_rate(Z, distortion=distortion)

    monkeypatch.setattr(farm, "farm_objective", remember)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        X = np.random.default_rng(0).normal(size=(60, 300))
        with threadpool_limits(2):
            FaRM(training={"epochs": 1}, random_state=0).fit(X, np.arange(60) % 2)
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(threads) == {1}
