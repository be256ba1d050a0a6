"""
A number, such as an age
========================

Ages, prices and dates are numbers, not classes. The number here is real and comes with the package:
how rare a word is.
"""

# %%
# The words of each split are in the order of their frequency, so the place of a word says how rare
# it is: 0 is the most frequent, 100 the rarest. Nobody asked for that in the vectors, but it is
# there, and it makes frequent words neighbours of frequent words.

import numpy as np

from unspot import LEACE, LEOPARD, Cascade, Dataset, certify
from unspot.leopard import ManifoldSolver
from unspot.datasets import load_glove_gender

words = load_glove_gender()
data = Dataset.from_arrays(
    np.concatenate([split.X for split in words]),
    np.concatenate([np.linspace(0, 100, len(split)) for split in words]),
    concept="rarity",
    random_state=0,
)
print(data)

# %%
# Fractional numbers are taken for numbers. Whole ones of many values, such as ages in years, could
# be classes as well: pass ``unspot.data.Number.read(ages)``. LEACE removes what a line can predict,
# and the cascade keeps the 30 dimensions of the rest that depend least on the number, in any way.

erasers = {
    "original": None,
    "LEACE": LEACE().fit(data.train.X, data.train.z),
    "cascade, rank 30": Cascade(
        second=LEOPARD(rank=30, solver=ManifoldSolver(max_rows=3000), random_state=0)
    ).fit(data.train.X, data.train.z),
}

# %%
# There is no accuracy of a number. A certificate says which share of its variance attackers can
# explain (R²), and what that share is at most.

certificates = {name: certify(eraser, data, budget="quick") for name, eraser in erasers.items()}
for name, certificate in certificates.items():
    print(f"{name}\n{certificate.statement}\n")

# %%
# After LEACE a line finds nothing, but curves still explain more than half.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, certificate in certificates.items():
    reports = sorted(certificate.attackers, key=lambda report: report.name)
    axes.plot(
        [100 * report.score for report in reports],
        [report.name for report in reports],
        "o",
        label=name,
    )
axes.axvline(0, color="0.3", linestyle="--", label="nothing")
axes.set_xlabel("share of the variance that is explained, unseen words, %")
axes.legend(frameon=False)
plt.show()
