"""
A million rows
==============

LEACE needs one pass and no more memory than a batch. So do files that are larger than memory.
"""

# %%
# Batches as a database or a folder of files would give them: a million rows of 64 numbers.

import time

import numpy as np

from unspot import LEACE


def batches(n_batches=20, n_rows=50_000, d=64):
    for seed in range(n_batches):
        rng = np.random.default_rng(seed)
        z = rng.integers(0, 3, n_rows)
        X = rng.normal(size=(n_rows, d)).astype(np.float32)
        X[:, :3] += np.eye(3, dtype=np.float32)[z]
        yield X, z


began = time.perf_counter()
eraser = LEACE()
for X, z in batches():
    eraser.partial_fit(X, z)
print(f"{eraser.eraser_.metadata['n_rows']:,} rows in {time.perf_counter() - began:.1f} s")

# %%
# The class means of a fresh batch, before and after.

X, z = next(batches())
for name, rows in {"before": X, "after": eraser.transform(X)}.items():
    means = np.stack([rows[z == k].mean(axis=0) for k in range(3)])
    print(f"{name}: largest difference of class means {np.ptp(means, axis=0).max():.3f}")

# %%
# On the command line, ``unspot fit`` and ``unspot transform`` read Parquet files and folders in
# chunks; :doc:`/scale` has the figures for files, processes and clusters.
