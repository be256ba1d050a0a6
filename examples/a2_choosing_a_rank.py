"""
Choosing a rank
===============

The rank decides between erasure and utility. A path of ranks shows both.
"""

# %%
# The path is fitted on train rows. Attackers learn from a part of the validation rows and are
# judged on the rest; the test rows stay out of it until the end.

from unspot import LEOPARD, Cascade, certify, rank_path
from unspot.leopard import ManifoldSolver
from unspot.datasets import load_glove_gender

data = load_glove_gender()
path = rank_path(
    Cascade(second=LEOPARD(solver=ManifoldSolver(max_rows=3000), random_state=0)),
    data,
    ranks=[80, 60, 40, 20, 10],
    metrics=["attack", "neighbours"],
)
print(path.to_frame().to_string())

# %%
# Lower ranks leave less to attackers, and fewer neighbours to users.

import matplotlib.pyplot as plt

frame = path.to_frame()
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(frame["rank"], 100 * frame["attack"], "o-", label="strongest attacker")
axes.plot(frame["rank"], 100 * frame["neighbours"], "s-", label="neighbours kept (A_50%)")
axes.axhline(100 / 3, color="0.3", linestyle="--", label="chance of an attacker")
axes.set(xlabel="rank: dimensions kept of 100", ylabel="%")
axes.legend(frameon=False)
plt.show()

# %%
# ``select`` takes the largest rank under a bound. Then it fits that rank again on all rows that are
# not test rows. The test rows certify it, with the bound as the margin.

eraser = path.select(max_advantage=0.12)
certificate = certify(eraser, path.unseen, margin=0.12, budget="quick")
print(certificate.statement, certificate.decision, sep="\n")
