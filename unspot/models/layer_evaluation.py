"""What attackers read at each layer of a model, before and after its layers are erased."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from unspot.checks import check_choice, check_count
from unspot.data.dataset import stratified_parts
from unspot.data.labels import Labels, encode
from unspot.data.rows import as_seed
from unspot.evaluation.attackers import attack_codes
from unspot.evaluation.inference import balanced_interval, counts_in_groups, recalls
from unspot.models.hooks import POSITIONS
from unspot.models.layers import LayerErasers
from unspot.models.states import StateRows, check_inputs, rows_of_states, sampled_states
from unspot.report.contents import Attack, Contents, Measure
from unspot.report.figures import layers_figure
from unspot.report.html import write_page
from unspot.tables import Number, interval_text, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LayerEvaluation", "LayerReading", "evaluate_layers"]

#: The confidence of the intervals, for all attackers of one layer together.
_ALPHA = 0.05


@dataclass(frozen=True)
class LayerReading:
    """What the strongest of several attackers reads at one layer.

    ``accuracy`` is balanced: guessing has 1/K for K classes. The interval holds for all attackers
    that were tried, so also for the one that was the strongest.
    """

    layer: str
    attacker: str
    accuracy: float
    low: float
    high: float

    @property
    def number(self) -> Number:
        return Number(self.accuracy, low=self.low, high=self.high)


@dataclass(frozen=True)
class LayerEvaluation:
    """The strongest attacker at each layer, before and after erasure; it prints as a table.

    Attributes
    ----------
    before, after : tuple of LayerReading
        One for each layer, in the order of the model.
    chance : float
        The balanced accuracy of guessing.
    n_learned, n_judged : int
        States that the attackers learned from, and that they were judged on, of other texts.
    """

    before: tuple[LayerReading, ...]
    after: tuple[LayerReading, ...]
    chance: float
    n_learned: int
    n_judged: int
    budget: str
    positions: str

    def __repr__(self) -> str:
        head = ["layer", "before", "by", "after", "by"]
        rows = [
            [
                before.layer,
                interval_text(before.number, "share"),
                before.attacker,
                interval_text(after.number, "share"),
                after.attacker,
            ]
            for before, after in zip(self.before, self.after, strict=True)
        ]
        chance = f"chance: {100 * self.chance:.1f} %, {self.n_judged:,} states judged"
        return f"{plain([head, *rows])}\n{chance}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def figure(self) -> Figure:
        """Accuracy by layer, before and after, against chance."""
        return layers_figure(
            [reading.layer for reading in self.before],
            [reading.number for reading in self.before],
            [reading.number for reading in self.after],
            self.chance,
        )

    def to_html(self, path: str | os.PathLike[str], *, title: str = "Erasure by layer") -> Path:
        """Write a page with a table and a chart, which needs no network."""
        return write_page(self.contents(title), path)

    def contents(self, title: str) -> Contents:
        """The plain data of the page; layers stand where other pages have attackers."""
        pairs = list(zip(self.before, self.after, strict=True))
        facts = (
            ("attackers", self.budget),
            ("positions", self.positions),
            ("states learned from", f"{self.n_learned:,}"),
            ("states judged on", f"{self.n_judged:,}"),
        )
        return Contents(
            title,
            subtitle="What the strongest attacker reads at each layer of the model",
            columns=("after",),
            chance=self.chance,
            measures=tuple(
                Measure(
                    b.layer, f"strongest attacker at {b.layer}", b.number, (a.number,),
                    unit="share", better="lower", note=f"{b.attacker} before, {a.attacker} after",
                )
                for b, a in pairs
            ),
            attacks=tuple(
                Attack(reading.layer, column, reading.number)
                for pair in pairs
                for column, reading in enumerate(pair)
            ),
            facts=(("Evaluation", facts),),
        )  # fmt: skip


def evaluate_layers(
    model: nn.Module,
    inputs: Any,
    z: Any,
    erasers: LayerErasers,
    *,
    layers: Sequence[str] | None = None,
    positions: str | None = None,
    budget: str = "quick",
    attackers: Sequence[str] | None = None,
    max_rows: int = 8_000,
    random_state: Any = 0,
) -> LayerEvaluation:
    """Attack the states of each layer, in the model as it is and with its layers erased.

    Attackers learn from the states of one half of the texts and are judged on the other half.

    Parameters
    ----------
    model : torch.nn.Module
    inputs, z
        As in ``fit_layers``, but of texts that the erasers were not fitted on: on its own texts
        every eraser looks better than it is.
    erasers : LayerErasers
    layers : sequence of str, optional
        Names of the modules that are attacked; by default those that are erased. Modules behind
        them can be named too, such as the last one.
    positions : {"all", "cls", "last"}, optional
        Which tokens the attackers see; by default those that are erased.
    budget, attackers
        As in ``unspot.evaluation.attack``.
    max_rows : int
        States of all texts, half of them to learn from. More are sampled down.
    random_state : int, Generator or None
        Decides the halves, the sample and the attackers.

    Notes
    -----
    Two passes through the model, and two attacks for each layer: about 5 s of one core for each
    with ``budget="quick"`` and 8,000 states of 100 features.

    Examples
    --------
    >>> import torch
    >>> from unspot.models import fit_layers
    >>> generator = torch.Generator().manual_seed(0)
    >>> model, z = nn.Sequential(nn.Linear(4, 4)), np.arange(800) % 2
    >>> x = torch.randn(800, 4, generator=generator) + 2.0 * torch.tensor(z)[:, None]
    >>> erasers = fit_layers(model, x[:400].split(100), z[:400], layers="0")
    >>> result = evaluate_layers(
    ...     model, x[400:].split(100), z[400:], erasers, attackers=["logistic"]
    ... )
    >>> result.before[0].accuracy > 0.9, result.after[0].accuracy < 0.65
    (True, True)
    """
    positions = erasers.positions if positions is None else positions
    check_choice("positions", positions, POSITIONS)
    check_count("max_rows", max_rows, least=80)
    concept = np.asarray(z)
    check_inputs(inputs, concept)
    labels, seed = encode(concept, n_rows=len(concept)), as_seed(random_state)
    names = list(erasers.erasers) if layers is None else list(layers)
    how = {"budget": budget, "attackers": attackers, "random_state": seed}
    judged_texts = stratified_parts(labels.codes, (0.5, 0.5), np.random.default_rng(seed))[1]

    def sampled() -> dict[str, StateRows]:
        return sampled_states(rows_of_states(model, inputs, names, positions), max_rows, seed)[0]

    before = sampled()
    with erasers.hooks(model):
        after = sampled()
    judged = np.isin(before[names[0]].texts, judged_texts)
    return LayerEvaluation(
        before=tuple(_reading(name, before[name], judged, labels, how) for name in names),
        after=tuple(_reading(name, after[name], judged, labels, how) for name in names),
        chance=1 / len(labels.classes),
        n_learned=int(np.sum(~judged)),
        n_judged=int(np.sum(judged)),
        budget=budget,
        positions=positions,
    )


def _reading(
    name: str, rows: StateRows, judged: Any, labels: Labels, how: dict[str, Any]
) -> LayerReading:
    """The strongest attacker on the states of one layer, with an interval by texts."""
    codes, n_classes = labels.codes[rows.texts], len(labels.classes)
    several = len(np.unique(rows.texts)) < len(rows.texts)
    groups = rows.texts if several else None
    results = attack_codes(
        rows.X[~judged].astype(np.float64),
        Labels(codes[~judged], labels.classes),
        rows.X[judged].astype(np.float64),
        codes[judged],
        groups=None if groups is None else groups[~judged],
        **how,
    )
    best = max(results, key=lambda result: result.balanced_accuracy)
    alpha = _ALPHA / len(results)
    counts = counts_in_groups(
        best.guesses, codes[judged], None if groups is None else groups[judged], n_classes, alpha
    )
    shares = recalls(best.guesses, codes[judged], n_classes)
    low, high = balanced_interval(shares, counts, alpha)
    return LayerReading(name, best.name, best.balanced_accuracy, low, high)
