"""Erase a batch, donor or site from the cells of an AnnData object, in the style of scanpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from unspot.checks import did_you_mean
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.erasers.registry import make


def erase(
    adata: Any,
    key: str,
    *,
    basis: str = "X_pca",
    adjusted_basis: str = "X_unspot",
    eraser: str | BaseEraser | Eraser = "transport",
) -> Eraser:
    """Take a column of ``obs`` out of an embedding in ``obsm``.

    The result goes to ``adata.obsm[adjusted_basis]``, and what was done to ``adata.uns["unspot"]``.
    Go on with ``sc.pp.neighbors(adata, use_rep="X_unspot")``.

    Parameters
    ----------
    adata : AnnData
    key : str
        The column of ``adata.obs`` to erase, such as "batch".
    basis : str
        The embedding in ``adata.obsm``.
    adjusted_basis : str
        Where the erased embedding goes.
    eraser : str, estimator or Eraser
        A name of ``unspot.methods()``, an estimator such as ``Cascade(rank=20)``, or a
        fitted eraser for new cells. By default transport, which keeps most where there are many
        more cells than dimensions.

    Returns
    -------
    Eraser
        The one that was applied; pass it on as ``eraser`` for new cells.

    Examples
    --------
    >>> import scanpy as sc  # doctest: +SKIP
    >>> adata = sc.datasets.pbmc68k_reduced()  # doctest: +SKIP
    >>> unspot.anndata.erase(adata, "phase")  # doctest: +SKIP
    """
    if not (hasattr(adata, "obsm") and hasattr(adata, "obs")):
        raise ValueError(
            f"Got data of type {type(adata).__name__}, but expected an AnnData object, with obs "
            "and obsm."
        )
    X = np.asarray(_entry(adata.obsm, basis, "basis", "obsm"))
    if isinstance(eraser, Eraser):
        applied = eraser
    else:
        z = np.asarray(_entry(adata.obs, key, "key", "obs"))
        estimator = make(eraser) if isinstance(eraser, str) else clone(eraser)
        unset = [k for k, v in estimator.get_params().items() if v is None]
        estimator.set_params(**{k: 0 for k in unset if k.endswith("random_state")})  # as in scanpy
        applied = estimator.fit(X, z).eraser_.with_metadata(concept_name=key, data=basis)
    adata.obsm[adjusted_basis] = applied(X)
    record = adata.uns.setdefault("unspot", {})
    record[adjusted_basis] = {"key": key, "basis": basis, "eraser": repr(applied)}
    return applied


def _entry(entries: Any, name: str, parameter: str, where: str) -> Any:
    if name not in entries:
        listed = [str(entry) for entry in entries]
        raise KeyError(
            f"Got {parameter}={name!r}, but expected a name in adata.{where}, which has "
            f"{', '.join(listed) or 'none'}.{did_you_mean(name, listed)}"
        )
    return entries[name]
