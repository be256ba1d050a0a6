"""The frozen result of a fit: an eraser that needs only numpy.

An eraser is a short chain of maps, most often one orthogonal projection, and metadata. It is called
on arrays, saved as one safetensors file, and loaded without torch and without pickle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.io.files import write_atomically
from unspot.machine import by_rows
from unspot.maps import Compress, Expand, Map, Projection, chain_fault, trace
from unspot.maps.file import packed, read

__all__ = ["Eraser", "load", "method_name"]

#: Fewer products than this are done on one thread by any BLAS, and in one piece here.
_FEW_PRODUCTS = 1 << 17


@dataclass(frozen=True, eq=False)
class Eraser:
    """A fitted erasure function that needs only numpy and cannot be changed.

    Parameters
    ----------
    maps : tuple of Map
        Applied from left to right.
    metadata : mapping
        Facts about the fit that JSON can hold: method, parameters, classes, versions, a
        fingerprint of the data.

    Examples
    --------
    >>> import numpy as np
    >>> eraser = Eraser.projection(np.eye(3)[:, :2])
    >>> eraser(np.array([[1.0, 2.0, 3.0]]))
    array([[1., 2., 0.]])
    >>> eraser.reduce(np.array([[1.0, 2.0, 3.0]]))
    array([[1., 2.]])
    >>> eraser.rank
    2
    >>> eraser
    <Eraser: projection to rank 2 of 3 features>
    """

    maps: tuple[Map, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if fault := chain_fault(self.maps):
            raise ValueError(f"Got {fault}.")
        object.__setattr__(self, "maps", tuple(m.read_only() for m in self.maps))

    def __repr__(self) -> str:
        chain = " → ".join(m.kind for m in self.maps)
        # The rank of other maps costs a decomposition, too much for a line of text.
        rank = f" to rank {self.rank}" if self.is_projection else ""
        method = f" by {self.metadata['method']}" if "method" in self.metadata else ""
        classes = self.metadata.get("classes")  # of any type, since metadata may hold anything
        names = list(map(str, classes)) if isinstance(classes, (list, tuple, np.ndarray)) else []
        shown = ", ".join(names) if len(names) <= 6 else f"{len(names)} classes"
        concept = f"; concept {shown}" if names else ""
        return f"<Eraser{method}: {chain}{rank} of {self.n_features} features{concept}>"

    @classmethod
    def projection(
        cls, U: NDArray[Any], mean: NDArray[Any] | None = None, **metadata: Any
    ) -> Eraser:
        """The orthogonal projector UUᵀ, around ``mean`` if it is given."""
        U = np.asarray(U, dtype=np.float64, order="C")
        mean = None if mean is None else np.asarray(mean, dtype=np.float64)
        return cls((Projection(U, mean),), metadata)

    @property
    def n_features(self) -> int:
        """The number d of features of the embeddings it erases."""
        return self.maps[0].n_in

    @property
    def is_linear(self) -> bool:
        """Whether it is an affine map, so that ``P`` exists."""
        return all(m.linear for m in self.maps)

    @property
    def is_projection(self) -> bool:
        """Whether it is one orthogonal projector, so that ``U`` exists."""
        return len(self.maps) == 1 and isinstance(self.maps[0], Projection)

    @property
    def U(self) -> NDArray[Any]:
        """Orthonormal basis (d, r) of the kept subspace."""
        return self._projection().U

    @property
    def mean(self) -> NDArray[Any] | None:
        """The point that the projection leaves in place, or None for the origin."""
        return self._projection().mean

    @cached_property
    def P(self) -> NDArray[Any]:
        """The matrix of the linear part, (d, d), acting as x ↦ Px on column vectors."""
        if not self.is_linear:
            raise ValueError(
                f"Got an eraser of method {self.metadata.get('method', 'unknown')!r}, which is "
                "not linear and has no matrix P. Call the eraser on rows instead."
            )
        origin = np.zeros((1, self.n_features))
        P = np.ascontiguousarray((self(np.eye(self.n_features)) - self(origin)).T)
        P.setflags(write=False)
        return P

    @cached_property
    def rank(self) -> int:
        """Dimension of the space of the erased embeddings; if not linear, an upper bound."""
        if self.is_projection:
            return int(self.U.shape[1])
        if self.is_linear:
            return int(np.linalg.matrix_rank(self.P, tol=1e-8))
        return min(min(m.n_in, m.n_out) for m in self.maps)

    def __call__(self, X: Any) -> Any:
        """Erase the concept from a numpy array or torch tensor of shape (…, d).

        The dtype stays, but integers become float64. Everything is computed in double precision,
        so that the matrices of the maps are not rounded to the dtype of the rows: a rounded basis
        is another subspace, one that holds a little of what was removed.
        """
        return self._apply(self.maps, X)

    def reduce(self, X: Any) -> Any:
        """Erase, in coordinates of the kept subspace: (…, r), with the same distances."""
        if self.is_projection:
            return self._apply((self._projection().coordinates,), X)
        last = self.maps[-1]
        if isinstance(last, Expand) and (last.n_in == self.rank or not self.is_linear):
            return self._apply(self.maps[:-1], X)
        if self.is_linear and self.rank < self.n_features:
            # Coordinates in an orthonormal basis of the range, so that distances stay.
            return self._apply((*self.maps, Compress(self._range)), X)
        return self(X)

    def with_metadata(self, **facts: Any) -> Eraser:
        """The same eraser with more facts in its metadata; facts of the same name are replaced.

        Examples
        --------
        >>> eraser = Eraser.projection(np.eye(3)[:, :2], method="Mine")
        >>> eraser.with_metadata(source="a.parquet").metadata
        {'method': 'Mine', 'source': 'a.parquet'}
        """
        return Eraser(self.maps, {**self.metadata, **facts})

    def within(self, S: NDArray[Any], mean: NDArray[Any]) -> Eraser:
        """The same eraser, with results that stay in the affine subspace ``mean`` + span(S).

        Rows that never leave that subspace lose nothing. For them it is what keeps rounding errors
        out of the directions in which they do not vary.
        """
        if not self.is_projection:
            return Eraser((*self.maps, Projection(S, mean)), self.metadata)
        left, values, _ = np.linalg.svd(S.T @ self.U, full_matrices=False)
        U = np.ascontiguousarray(S @ left[:, values > 1e-8])
        return Eraser((Projection(U, self.mean),), self.metadata)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file: arrays and JSON metadata, no pickle.

        The file gets its name only when it is complete.
        """
        write_atomically(Path(path), packed(self.maps, self.metadata))

    def to_torch(self) -> Any:
        """The same eraser as a ``torch.nn.Module`` with buffers, through which gradients flow.

        It computes in single precision, and in double for rows of double precision. The precision
        of its buffers does not follow ``half()`` or ``bfloat16()``: see ``unspot.export``.

        Examples
        --------
        >>> import torch
        >>> Eraser.projection(np.eye(3)[:, :2]).to_torch()(torch.ones(1, 3))
        tensor([[1., 1., 0.]])
        """
        from unspot.export.torch_module import ErasureModule

        return ErasureModule(trace(self.maps))

    def as_hook(self) -> Callable[..., Any]:
        """A function that erases a tensor on any device, for the hooks of other packages.

        TransformerLens calls it with a second argument, ``fwd_hooks=[(name, eraser.as_hook())]``;
        in nnsight write ``layer.output[:] = hook(layer.output)``. For torch models as they are, use
        ``unspot.hooks``.

        Examples
        --------
        >>> import torch
        >>> hook = Eraser.projection(np.eye(3)[:, :2]).as_hook()
        >>> hook(torch.ones(1, 3), hook="blocks.0.hook_resid_post")
        tensor([[1., 1., 0.]])
        """
        from unspot.export.torch_module import as_hook

        return as_hook(trace(self.maps))

    def _projection(self) -> Projection:
        if not self.is_projection:
            raise ValueError(
                f"Got an eraser of method {self.metadata.get('method', 'unknown')!r}, which is "
                "not one orthogonal projection and has no basis U. Call the eraser on rows instead."
            )
        return self.maps[0]  # type: ignore[return-value]

    @cached_property
    def _range(self) -> NDArray[Any]:
        left, _, _ = np.linalg.svd(self.P)
        return np.ascontiguousarray(left[:, : self.rank])

    def _apply(self, maps: Sequence[Callable[[Any], Any]], X: Any) -> Any:
        x, dtype = _numbers(X)
        if x.ndim == 0 or x.shape[-1] != self.n_features:
            raise ValueError(
                f"Got embeddings of shape {tuple(x.shape)}, but expected (…, {self.n_features}): "
                f"this eraser was fitted on {self.n_features} features."
            )
        if not isinstance(x, np.ndarray):
            return _through(maps, x.double()).to(dtype)
        if x.size * self.n_features < _FEW_PRODUCTS:
            return _through(maps, x.astype(np.float64)).astype(dtype)

        def erased(rows: NDArray[Any]) -> Any:
            return _through(maps, rows.astype(np.float64)).astype(dtype)

        result = by_rows(erased, x.reshape(-1, self.n_features))
        return result.reshape(*x.shape[:-1], result.shape[-1])


def load(path: str | os.PathLike[str]) -> Eraser:
    """Load an eraser. Needs numpy and safetensors, but neither torch nor pickle.

    A file that is damaged, or that unspot did not write, raises a ``ValueError`` with the reason.
    """
    return Eraser(*read(Path(path)))


def method_name(metadata: Mapping[str, Any]) -> str:
    """What people call the method of an eraser with these metadata; empty if they do not say.

    Examples
    --------
    >>> method_name({"method": "Cascade", "inner": {"method": "LEOPARD"}})
    'Cascade(LEOPARD)'
    """
    method, inner = str(metadata.get("method", "")), metadata.get("inner")
    return f"{method}({method_name(inner)})" if isinstance(inner, Mapping) and method else method


def _through(maps: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    for m in maps:
        x = m(x)
    return x


def _numbers(X: Any) -> tuple[Any, Any]:
    """X as a tensor or an array of numbers, and the dtype of the result."""
    if hasattr(X, "new_tensor"):  # a torch tensor, without importing torch
        return X, X.dtype if X.is_floating_point() else X.double().dtype
    x = np.asarray(X)
    if x.dtype.kind not in "fiub":
        raise ValueError(
            f"Got embeddings of dtype {x.dtype}, but expected numbers: dtype='numeric' is not "
            "compatible with arrays of bytes/strings."
        )
    return x, x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
