"""Erase a batch, donor or site from the cells of an AnnData object, in the style of scanpy."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from unspot.checks import did_you_mean
from unspot.eraser import Eraser, load
from unspot.erasers.base import BaseEraser
from unspot.erasers.registry import make
from unspot.maps.file import packed


def erase(
    adata: Any,
    key: str | list[str],
    *,
    basis: str = "X_pca",
    adjusted_basis: str = "X_unspot",
    given: str | list[str] | None = None,
    keep: str | list[str] | None = None,
    groups: str | None = None,
    eraser: str | BaseEraser | Eraser | None = None,
) -> Eraser:
    """Take columns of ``obs`` out of an embedding in ``obsm``.

    The result goes to ``adata.obsm[adjusted_basis]``. What was done, and the eraser itself, go to
    ``adata.uns["unspot"]``, which ``write_h5ad`` writes: ``transform`` applies it to new cells,
    whose batch nobody needs to know. Go on with ``sc.pp.neighbors(adata, use_rep="X_unspot")``.

    Parameters
    ----------
    adata : AnnData
    key : str or list of str
        The columns of ``adata.obs`` to erase, such as "batch".
    basis : str
        The embedding in ``adata.obsm``.
    adjusted_basis : str
        Where the erased embedding goes.
    given, keep : str or list of str, optional
        Columns of ``adata.obs``: covariates that batches may differ in, such as the cell type; and
        what erased cells must still tell.
    groups : str, optional
        The column of what cells come in, such as the donor, for erasers that choose a rank.
    eraser : str, estimator or Eraser, optional
        A name of ``unspot.methods()``, an estimator such as ``Cascade(rank=20)``, or a fitted
        eraser. By default transport, which keeps most where there are many more cells than
        dimensions; and a cascade for several keys.

    Examples
    --------
    >>> import scanpy as sc  # doctest: +SKIP
    >>> adata = sc.datasets.pbmc68k_reduced()  # doctest: +SKIP
    >>> unspot.anndata.erase(adata, "phase", given="bulk_labels")  # doctest: +SKIP
    """
    X, keys = _rows(adata, basis), [key] if isinstance(key, str) else list(key)
    if adjusted_basis == basis:
        raise ValueError(
            f"Got {basis!r} as basis and as adjusted_basis, but expected two names: a certificate "
            "compares the cells before and after."
        )
    if eraser is None:
        eraser = "transport" if len(keys) == 1 else make("cascade", rank=0.75)
    if not isinstance(eraser, Eraser):
        estimator = make(eraser) if isinstance(eraser, str) else clone(eraser)
        unset = [k for k, v in estimator.get_params().items() if v is None]
        estimator.set_params(**{k: 0 for k in unset if k.endswith("random_state")})  # as in scanpy
        columns = _columns(adata, key=keys, given=given, keep=keep, groups=groups)
        estimator.fit(X, columns.pop("key"), **columns)
        eraser = estimator.eraser_.with_metadata(concept_name=",".join(keys), data=basis)
    adata.obsm[adjusted_basis] = eraser(X)
    file = np.frombuffer(packed(eraser.maps, eraser.metadata), dtype=np.uint8)
    record = {"key": np.array(keys), "basis": basis, "eraser": repr(eraser), "file": file}
    adata.uns.setdefault("unspot", {})[adjusted_basis] = record
    return eraser


def fitted(adata: Any, adjusted_basis: str = "X_unspot") -> Eraser:
    """Load the eraser that ``erase`` left in an AnnData object."""
    record = _entry(adata.uns.get("unspot", {}), adjusted_basis, "adjusted_basis", "uns['unspot']")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "eraser.safetensors")
        path.write_bytes(np.asarray(record["file"], dtype=np.uint8).tobytes())
        return load(path)


def transform(adata: Any, reference: Any, adjusted_basis: str = "X_unspot") -> None:
    """Erase new cells as those of a reference: neither their batch nor other columns are needed.

    They need the embedding that the reference had, such as scanpy's ``ingest`` makes.
    """
    eraser, record = fitted(reference, adjusted_basis), reference.uns["unspot"][adjusted_basis]
    places = {"basis": record["basis"], "adjusted_basis": adjusted_basis}
    erase(adata, list(record["key"]), **places, eraser=eraser)


def certify(
    adata: Any,
    key: str | list[str],
    basis: str = "X_unspot",
    *,
    given: str | list[str] | None = None,
    groups: str | None = None,
    **how: Any,
) -> Any:
    """Attack erased cells that no fit has seen; see ``unspot.certify``.

    Parameters
    ----------
    adata : AnnData
        New cells, after ``transform``, with their batches in ``obs``.
    key : str or list of str
        The columns that attackers look for.
    basis : str
        The erased embedding; the one before is known from ``adata.uns``.
    given, groups : str, optional
        Columns of ``adata.obs``: what attackers know, and what cells come in, such as the donor.
    how
        Other parameters of ``unspot.certify``: margin, alpha, budget.
    """
    import unspot.evaluation

    certify_rows: Any = unspot.evaluation.certify
    columns = _columns(adata, key=key, given=given, groups=groups)
    eraser = fitted(adata, basis)
    X = _rows(adata, adata.uns["unspot"][basis]["basis"])
    return certify_rows(eraser, X, columns.pop("key"), **columns, **how)


def _rows(adata: Any, basis: str) -> Any:
    if not (hasattr(adata, "obsm") and hasattr(adata, "obs")):
        raise ValueError(
            f"Got data of type {type(adata).__name__}, but expected an AnnData object, with obs "
            "and obsm."
        )
    return _entry(adata.obsm, basis, "basis", "obsm")


def _columns(adata: Any, **named: str | list[str] | None) -> dict[str, Any]:
    """Return columns of obs by parameter and name; one key, and groups, without their name."""
    columns: dict[str, Any] = {}
    for parameter, listed in named.items():
        names = [listed] if isinstance(listed, str) else map(str, listed or ())
        table = {n: _entry(adata.obs, n, parameter, "obs") for n in names}
        if table:
            is_one = len(table) == 1 and parameter in ("key", "groups")
            columns[parameter] = next(iter(table.values())) if is_one else table
    return columns


def _entry(entries: Any, name: str, parameter: str, where: str) -> Any:
    if name not in entries:
        listed = [str(entry) for entry in entries]
        raise KeyError(
            f"Got {parameter}={name!r}, but expected a name in adata.{where}, which has "
            f"{', '.join(listed) or 'none'}.{did_you_mean(name, listed)}"
        )
    return entries[name]
