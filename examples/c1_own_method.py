"""
Your own method in one file
===========================

A method is a class with ``__init__`` and ``_fit_eraser``. Checks, saving, transform, reduce and
scikit-learn's contract come from the base class.
"""

# %%
# An eraser that drops the columns with the largest difference of class means. ``_fit_eraser`` gets
# checked rows and encoded labels, and returns a frozen map.

import numpy as np

from unspot import LEACE, Dataset, Eraser, certify
from unspot.datasets.synthetic import law
from unspot.erasers import BaseEraser


class DropColumns(BaseEraser):
    """Keep the columns in which the class means differ least."""

    def __init__(self, rank=10):
        self.rank = rank

    def _fit_eraser(self, X, target):
        means = np.stack([X[target.codes == k].mean(axis=0) for k in range(len(target.classes))])
        keep = np.argsort(np.ptp(means, axis=0), kind="stable")[: self.rank]
        return Eraser.projection(np.eye(X.shape[1])[:, keep])


# %%
# It is used like any other, and judged like any other.

rows = law("mean", n=9000, d=20, random_state=0)
data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
for eraser in (DropColumns(rank=10), LEACE()):
    eraser.fit(data.train.X, data.train.z)
    certificate = certify(eraser, data, budget="quick")
    strongest = certificate.strongest
    print(
        f"{type(eraser).__name__}: {strongest.name} is right on "
        f"{100 * strongest.balanced_accuracy:.1f} % ({certificate.verdict})"
    )
