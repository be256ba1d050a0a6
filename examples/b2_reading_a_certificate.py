"""
Reading a certificate
=====================

Three verdicts, and what to do after each.
"""

# %%
# A law whose classes differ in one direction only, so that we know the truth: of twenty directions,
# one tells the class.

import numpy as np

from unspot import LEACE, Dataset, certify

rng = np.random.default_rng(0)
n = 12_000
z = rng.choice(["a", "b"], n)
X = rng.normal(size=(n, 20))
X[:, 0] += 1.0 * (z == "b")
data = Dataset.from_arrays(X, z, random_state=0)

# %%
# **LEAKS**: an attacker does better than guessing, by more than luck allows. Nothing is erased yet.

print(certify(None, data, budget="quick"))

# %%
# **HOLDS**: no attacker can have more than the margin, five points, with 95 % confidence.

eraser = LEACE().fit(data.train.X, data.train.z)
print(certify(eraser, data, budget="quick"))

# %%
# **INCONCLUSIVE**: no leak was found, but these rows could not have shown one of the margin's size.
# The next step says how many rows could.

few = Dataset(data.train, data.validation, data.test.take(np.arange(200)))
print(certify(eraser, few, budget="quick"))
