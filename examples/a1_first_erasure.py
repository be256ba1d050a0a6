"""
First erasure
=============

Take gender out of word vectors, and let attackers try to read it again.
"""

# %%
# The package has real vectors: 21,996 GloVe words that lean female, lean male or are neutral, in
# three splits. The eraser is fitted on the first, attackers learn from the second, and the third
# judges both.

from unspot import LEACE, Cascade, certify
from unspot.datasets import load_glove_gender

data = load_glove_gender()
print(data)

# %%
# LEACE removes what a linear classifier can use. The cascade does that first, then keeps the 40
# dimensions in which the classes' densities differ least.

erasers = {
    "LEACE": LEACE().fit(data.train.X, data.train.z),
    "cascade, rank 40": Cascade(rank=40, random_state=0).fit(data.train.X, data.train.z),
}

# %%
# A certificate states what attackers had, what they have left, and a bound on it.

certificates = {name: certify(eraser, data, budget="quick") for name, eraser in erasers.items()}
for name, certificate in certificates.items():
    print(f"{name}\n{certificate.statement}\n")

# %%
# The attackers side by side. Linear ones find nothing after either; the others do after LEACE.

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
axes.axvline(100 * certificate.chance, color="0.3", linestyle="--", label="chance")
axes.set_xlabel("accuracy on unseen rows, %")
axes.legend(frameon=False)
plt.show()

# %%
# The eraser is one small file, which needs numpy alone to be applied.

erasers["cascade, rank 40"].save("gender.safetensors")
