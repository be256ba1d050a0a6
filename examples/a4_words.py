"""
What words keep
===============

The nearest words before and after, and the agreement with human judgements.
"""

# %%
# The erased vectors stay in the space of the old ones, so that lists of neighbours can be compared.

import numpy as np

from unspot import LEOPARD, Cascade
from unspot.datasets import load_glove_gender

data = load_glove_gender()
eraser = Cascade(LEOPARD(rank=40, max_rows=4000, random_state=0)).fit(data.train.X, data.train.z)
words = np.concatenate([split.names for split in data])
X = np.concatenate([split.X for split in data])


def nearest(vectors, word, k=6):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    order = np.argsort(-(unit @ unit[words == word][0]))
    return ", ".join(words[order[1 : k + 1]])


erased = eraser.transform(X)
for word in ("engineer", "professor", "midwife", "carpenter"):
    print(f"{word}\n  before: {nearest(X, word)}\n  after:  {nearest(erased, word)}")

# %%
# The largest gender score that a linear direction finds, per class: it is gone by construction.

for name, vectors in {"before": X, "after": erased}.items():
    z = np.concatenate([split.z for split in data])
    gap = vectors[z == "female"].mean(axis=0) - vectors[z == "male"].mean(axis=0)
    print(f"{name}: distance of the class means {np.linalg.norm(gap):.3f}")

# %%
# Agreement with people: Spearman's correlation on the pairs of WordSim-353.

from unspot import evaluate

print(evaluate(eraser, data, metrics=["words", "neighbours"]).to_markdown())
