# # Your own method in a table for a paper
#
# A method is anything with `fit` and `transform`. This one drops the columns whose class means differ most. `rank` is the
# number of columns that it keeps, and a sweep sets it.
cat > own.py <<'PYTHON'
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

class DropColumns(TransformerMixin, BaseEstimator):
    def __init__(self, rank=4):
        self.rank = rank

    def fit(self, X, y):
        means = np.stack([X[y == label].mean(axis=0) for label in np.unique(y)])
        self.kept_ = np.argsort(np.ptp(means, axis=0))[: self.rank]
        return self

    def transform(self, X):
        return X * np.isin(np.arange(X.shape[1]), self.kept_)
PYTHON
# Some data to try it on:
python3 <<'PYTHON'
import numpy as np
rng = np.random.default_rng(0)
z = rng.choice(["f", "m"], 1500)
X = rng.normal(size=(1500, 8))
X[:, 0] += 2.0 * (z == "m")
np.savez("rows.npz", X=X, z=z)
PYTHON
# ## The grid
#
# Labels at the left are yours, and tables show them as they are. `module:Class` is code in the same folder.
cat > sweep.toml <<'TOML'
seeds = 2
ranks = [6, 4]
metrics = ["linear", "neighbours"]

[methods]
original = "original"
LEACE = "leace"
mine = "own:DropColumns"

[data.example]
path = "rows.npz"
concept = "z"
TOML
# ## The run
#
# A file that names code runs it only if you say so. Every finished cell is on the disk at once; after an interruption,
# the same command with `--resume` goes on.
unspot lab sweep sweep.toml --allow-code --tables paper/ --html sweep.html
# ## For the paper
cat paper/tables.tex
# `sweep.html` is a page of the same results.
