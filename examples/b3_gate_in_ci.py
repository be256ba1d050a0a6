"""
A gate in continuous integration
================================

``unspot certify`` ends with a code that a build can act on: 0 holds, 3 leaks, 4 cannot tell.
"""

# %%
# A file of rows and an eraser, as a nightly job would have them.

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from unspot import LEACE

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
z = rng.choice(["f", "m"], 40_000)
X = rng.normal(size=(len(z), 16)) + 0.2 * (z == "f")[:, None]
train, tonight = slice(30_000), slice(30_000, None)
LEACE().fit(X[train], z[train]).save(folder / "good.safetensors")
# Fitted on rows of another population, where the concept lies in another direction.
other = rng.normal(size=(30_000, 16))
other[:, 0] += z[train] == "f"
LEACE().fit(other, z[train]).save(folder / "stale.safetensors")
np.savez(folder / "tonight.npz", X=X[tonight].astype("float32"), z=z[tonight])

# %%
# The gate: a build fails if the code is not 0.

for eraser in ("good", "stale"):
    files = [folder / f"{eraser}.safetensors", folder / "tonight.npz"]
    options = ["--concept", "z", "--budget", "quick", "--quiet"]
    run = subprocess.run([sys.executable, "-m", "unspot", "certify", *files, *options])
    print(f"{eraser}: exit code {run.returncode}")

# %%
# As a step of a workflow, this is one line::
#
#     - run: unspot certify gender.safetensors tonight.parquet --concept gender
#
# Add ``|| true`` to write the certificate and go on. If the same eraser is certified every night,
# divide ``--set alpha=0.05`` by the number of nights: each look is another chance of a false alarm.
