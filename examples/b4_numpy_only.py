"""
Deploying with numpy only
=========================

A fitted eraser is arrays and JSON. Where rows are served, neither torch nor scikit-learn is needed.
"""

# %%
# Fit where you train.

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from unspot import LEOPARD, Cascade
from unspot.leopard import ManifoldSolver
from unspot.datasets import load_glove_gender

data = load_glove_gender()
eraser = Cascade(second=LEOPARD(rank=40, solver=ManifoldSolver(max_rows=2000), random_state=0)).fit(
    data.train.X, data.train.z
)
folder = Path(tempfile.mkdtemp())
eraser.save(folder / "gender.safetensors")
np.save(folder / "rows.npy", data.test.X)

# %%
# Apply where you serve. The script tells what it imported.

serve = """
import sys, numpy as np, unspot
eraser = unspot.load(sys.argv[1] + "/gender.safetensors")
rows = np.load(sys.argv[1] + "/rows.npy")
print(eraser(rows).shape, eraser.reduce(rows).shape)
print("loaded:", [name for name in ("numpy", "torch", "sklearn", "scipy") if name in sys.modules])
"""
print(subprocess.check_output([sys.executable, "-c", serve, folder], text=True))

# %%
# An affine eraser is also one product and one sum. Prefer the eraser itself, which goes
# through the kept coordinates: a product with the square matrix leaves rounding errors in the
# removed directions, and they tell what was removed.

P, offset = eraser.eraser_.P, eraser.transform(np.zeros((1, data.n_features)))
by_hand = data.test.X @ P.T + offset
print(f"largest difference: {np.abs(by_hand - eraser.transform(data.test.X)).max():.1e}")
