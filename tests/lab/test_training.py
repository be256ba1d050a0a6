"""The training loop: when it slows down, when it stops, what it keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from unspot.io.progress import shown
from unspot.lab.networks import DivergenceError, Training, TrainingTask, train_network


class Point(nn.Module):
    """One number, to be trained."""

    def __init__(self, start=0.0):
        super().__init__()
        self.x = nn.Parameter(torch.tensor(float(start)))


def run(module, training, *, monitor=None, loss=None, **options):
    loss = loss or (lambda rows: (module.x - 1) ** 2)
    monitor = monitor or (lambda: loss(None).item())
    task = TrainingTask(module, loss)
    return train_network(task, lambda: [np.arange(1)], monitor, training, **options)


def test_it_minimises_and_runs_no_more_epochs_than_asked():
    point = Point()
    losses = run(point, Training(epochs=300, learning_rate=0.05, weight_decay=0.0))
    assert point.x.item() == pytest.approx(1, abs=1e-3)
    assert len(losses) <= 300
    assert losses[-1] < 1e-3 * losses[0]


def test_without_improvement_the_rate_falls_once_and_then_training_ends():
    losses = run(Point(), Training(epochs=500, patience=7), monitor=lambda: 1.0)
    # The first epoch, seven without improvement, seven more at the lower rate.
    assert len(losses) == 1 + 7 + 7


def test_the_best_state_is_what_remains():
    point = Point(3.0)
    seen = []

    def worse_and_worse():
        seen.append(point.x.item())
        return float(len(seen)) if len(seen) != 4 else 0.0

    losses = run(point, Training(epochs=50, patience=5), monitor=worse_and_worse)
    assert int(np.argmin(losses)) == 3
    assert point.x.item() == seen[3]


def test_a_game_runs_to_its_end_and_keeps_the_last_state():
    point = Point(3.0)
    seen = []

    def worse_and_worse():
        seen.append(point.x.item())
        return float(len(seen))

    losses = run(point, Training(epochs=20, patience=2, game=True), monitor=worse_and_worse)
    assert len(losses) == 20
    assert point.x.item() == seen[-1]


def test_the_rate_falls_at_a_share_of_the_epochs_but_not_of_the_steady_part():
    pair = nn.ModuleList([Point(), Point()])
    moves = []

    def loss(rows):
        moves.append((pair[0].x.item(), pair[1].x.item()))
        return pair[0].x + pair[1].x  # a slope: Adam's steps are as long as the rate

    training = Training(epochs=10, learning_rate=0.1, weight_decay=0.0, decay_at=0.5, game=True)
    task = TrainingTask(pair, loss, steady=pair[1])
    train_network(task, lambda: [np.arange(1)], lambda: 0.0, training)
    steps = -np.diff(moves, axis=0)
    np.testing.assert_allclose(steps[:5], 0.1, rtol=1e-4)
    np.testing.assert_allclose(steps[5:, 0], 0.01, rtol=1e-4)
    np.testing.assert_allclose(steps[5:, 1], 0.1, rtol=1e-4)


def test_judged_without_validation_it_waits_less():
    short = Training(patience=100).without_validation()
    assert short.patience == 5
    assert Training(patience=1).without_validation().patience == 1


def test_divergence_names_step_and_rate_and_keeps_the_best_state():
    point = Point()
    calls = []

    def loss(rows):
        calls.append(1)
        return (point.x - 1) ** 2 * (torch.nan if len(calls) == 4 else 1)

    with pytest.raises(DivergenceError, match=r"step 4 with learning_rate=0.05.*such as 0.005"):
        run(point, Training(learning_rate=0.05), loss=loss, monitor=lambda: 1.0)
    calls.clear()
    with pytest.raises(DivergenceError, match="kept in eraser_") as caught:
        run(Point(), Training(), loss=loss, monitor=lambda: 1.0)
    assert set(caught.value.state) == {"x"}


def test_divergence_in_the_first_step_has_no_state_to_keep():
    with pytest.raises(DivergenceError, match=r"step 1 .*no state to keep") as caught:
        run(Point(), Training(), loss=lambda rows: torch.tensor(torch.inf))
    assert caught.value.state is None
    assert caught.value.step == 1


def test_progress_is_shown_only_when_asked(capsys):
    run(Point(), Training(epochs=2))
    assert capsys.readouterr().err == ""
    with shown(delay=0.0):
        run(Point(), Training(epochs=2))
    assert "Training" in capsys.readouterr().err
