"""
Several metadata columns at once
================================

Rows often come with a table of what they should not tell: source, region, age. One fit takes the
whole table.
"""

# %%
# Words with two columns: the gender they lean to, and how rare they are, from 0 to 100 by their
# frequency. The two depend on each other: in these vectors, rare words lean female.

import numpy as np

from unspot import LEOPARD, Cascade, Dataset, certify
from unspot.leopard import ManifoldSolver
from unspot.datasets import load_glove_gender

words = load_glove_gender()
table = {
    "gender": np.concatenate([split.z for split in words]),
    "rarity": np.concatenate([np.linspace(0, 100, len(split)) for split in words]),
}
for gender in ("male", "neutral", "female"):
    print(f"{gender:8} mean rarity {table['rarity'][table['gender'] == gender].mean():.1f}")

data = Dataset.from_arrays(np.concatenate([split.X for split in words]), table, random_state=0)
print(data)

# %%
# A dict of columns, a data frame or an array of several columns is a table of concepts. The kind of
# each column is found from its values: gender is classes, rarity a number. Beside it, an eraser of
# one column alone. (On the command line: ``--concept gender,rarity``.)

train = data.train
erasers = {
    "gender": Cascade(
        second=LEOPARD(rank=20, solver=ManifoldSolver(max_rows=2000), random_state=0)
    ).fit(train.X, data.of("gender").train.z),
    "gender and rarity": Cascade(
        second=LEOPARD(rank=20, solver=ManifoldSolver(max_rows=2000), random_state=0)
    ).fit(train.X, train.z),
}
for concept in erasers["gender and rarity"].eraser_.metadata["concepts"]:
    print(concept["name"], concept["kind"])

# %%
# The certificate has one verdict of all concepts, and inside it one certificate of each and of
# their combination: two concepts may be hidden each and still show together.

certificates = {name: certify(eraser, data, budget="quick") for name, eraser in erasers.items()}
for name, certificate in certificates.items():
    print(f"\nErased: {name}. Together: {certificate.verdict}")
    for concept, part in certificate.parts.items():
        print(f"  {concept:16} {part.verdict:12} advantage at most {100 * part.upper_bound:.1f} %")

# %%
# The gender goes with either. Much of the rarity goes with it, since the two depend on each other;
# the eraser of both leaves about half of what is then left.

import matplotlib.pyplot as plt

concepts = list(certificate.parts)
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for i, (name, certificate) in enumerate(certificates.items()):
    places = np.arange(len(concepts)) + 0.3 * (i - 0.5)
    advantages = [100 * certificate.parts[concept].after for concept in concepts]
    axes.barh(places, advantages, height=0.28, label=f"erased: {name}", color=f"C{i}")
axes.set_yticks(np.arange(len(concepts)), concepts)
axes.invert_yaxis()
axes.set_xlabel("strongest attacker: points above guessing, or % of the variance")
figure.legend(frameon=False, loc="outside upper center", ncols=2)
plt.show()
