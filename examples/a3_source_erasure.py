"""
Source erasure: where forgetting improves the result
====================================================

Texts from several sources, sites or translations are often pooled. Their wording pulls rows of one
source together, and a search then finds the source before the meaning.
"""

# %%
# 1,600 Bible verses, each in three translations, as sentence vectors. The concept is the
# translation. All three vectors of a verse are in one split.

import numpy as np

from unspot import LEACE, Cascade, certify
from unspot.datasets import load_translations

data = load_translations()
print(data)

erasers = {
    "original": None,
    "LEACE": LEACE().fit(data.train.X, data.train.z),
    "cascade, rank 256": Cascade(rank=256, random_state=0).fit(data.train.X, data.train.z),
}

# %%
# Two questions about the test verses. Of the ten nearest rows of *other* verses, how many are of
# the same translation? It should be a third. And are the two nearest rows of all the same verse in
# the two other translations?


def search(eraser):
    """Shares: neighbours of the same source, and translations that are not found."""
    X = data.test.X if eraser is None else eraser.transform(data.test.X)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    cosines = X @ X.T
    np.fill_diagonal(cosines, -np.inf)
    two = np.argsort(-cosines, axis=1)[:, :2]
    missed = np.mean(data.test.groups[two] != data.test.groups[:, None])
    cosines[data.test.groups[:, None] == data.test.groups] = -np.inf
    ten = np.argsort(-cosines, axis=1)[:, :10]
    return np.mean(data.test.z[ten] == data.test.z[:, None]), missed


found = {name: search(eraser) for name, eraser in erasers.items()}
for name, (own, missed) in found.items():
    print(f"{name:18} same source {100 * own:5.1f} %   translations missed {100 * missed:4.2f} %")

# %%
# What attackers still read from unseen verses:

leaks = {
    name: certify(eraser, data, budget="quick").strongest.score for name, eraser in erasers.items()
}

import matplotlib.pyplot as plt

figure, panels = plt.subplots(1, 3, figsize=(9, 3), layout="constrained", sharey=True)
values = (
    ("strongest attacker, %", [leaks[name] for name in erasers], 1 / 3),
    ("neighbours of the same source, %", [found[name][0] for name in erasers], 1 / 3),
    ("translations missed by a search, %", [found[name][1] for name in erasers], None),
)
for axes, (title, shares, fair) in zip(panels, values, strict=True):
    axes.barh(list(erasers), [100 * share for share in shares], color=["0.7", "C0", "C3"])
    axes.set_xlabel(title)
    if fair is not None:
        axes.axvline(100 * fair, color="0.2", linestyle="--")
panels[0].invert_yaxis()
plt.show()
