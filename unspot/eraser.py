"""The frozen result of a fit: an eraser that needs only numpy.

An eraser is a short chain of maps, most often one orthogonal projection, and metadata. It is called
on arrays, saved as one safetensors file, and loaded without torch and without pickle.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import require
from unspot.data.rows import (
    KNOWN,
    by_rows,
    column_names,
    in_memory,
    refuse_masked_or_sparse,
    refuse_nonfinite,
)
from unspot.io.files import listed, write_atomically
from unspot.maps import (
    Compress,
    Dense,
    Expand,
    Map,
    Normalise,
    Oblique,
    Projection,
    Scale,
    chain_fault,
    trace,
)
from unspot.maps.elementary import range_basis
from unspot.maps.file import packed, read

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
        rank = f" to rank {self.rank}" if self.before_norm.is_projection else ""
        method = f" by {self.metadata['method']}" if "method" in self.metadata else ""
        classes = self.metadata.get("classes")  # any type: metadata may hold anything
        names = list(map(str, classes)) if isinstance(classes, (list, tuple, np.ndarray)) else []
        shown = ", ".join(names) if len(names) <= 6 else f"{len(names)} classes"
        concept = f"; concept {shown}" if names else ""
        return f"<Eraser{method}: {chain}{rank} of {self.n_features} features{concept}>"

    @classmethod
    def projection(
        cls, U: NDArray[Any], mean: NDArray[Any] | None = None, **metadata: Any
    ) -> Eraser:
        """Make the orthogonal projector UUᵀ, around ``mean`` if it is given."""
        U = np.asarray(U, dtype=np.float64, order="C")
        mean = None if mean is None else np.asarray(mean, dtype=np.float64)
        return cls((Projection(U, mean),), metadata)

    @property
    def n_features(self) -> int:
        """The number d of features of the embeddings it erases."""
        return self.maps[0].n_in

    @property
    def digest(self) -> str:
        """SHA-256 of the maps. Metadata do not count."""
        digest = hashlib.sha256()
        for m in self.maps:
            digest.update(json.dumps([m.kind, m.config()], sort_keys=True, default=str).encode())
            for name, array in sorted(m.arrays().items()):
                digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @property
    def is_linear(self) -> bool:
        """Tell whether it is an affine map, so that ``P`` exists."""
        return all(m.linear for m in self.maps)

    @property
    def is_projection(self) -> bool:
        """Tell whether it is one orthogonal projector, so that ``U`` exists."""
        return len(self.maps) == 1 and isinstance(self.maps[0], Projection)

    @property
    def is_normalised(self) -> bool:
        """Tell whether its last step scales rows to unit norm."""
        return isinstance(self.maps[-1], Normalise)

    @property  # not cached: an eraser that holds itself cannot be written by every library
    def before_norm(self) -> Eraser:
        """The eraser without a last step to unit norm: itself, where it has none."""
        if not self.is_normalised or len(self.maps) == 1:
            return self
        return Eraser(self.maps[:-1], self.metadata)

    @property
    def U(self) -> NDArray[Any]:
        """Orthonormal basis (d, r) of the kept subspace, before a step to unit norm."""
        return self._projection().U

    @property
    def mean(self) -> NDArray[Any] | None:
        """The point that the projection leaves in place, or None for the origin."""
        return self._projection().mean

    @cached_property
    def P(self) -> NDArray[Any]:
        """The matrix of the linear part, (d, d), acting as x ↦ Px on column vectors."""
        if not self.is_linear:
            way_out = "Call the eraser on rows instead."
            if self.before_norm.is_linear:
                way_out = "The matrix before its step to unit norm is before_norm.P."
            raise ValueError(
                f"Got an eraser of method {self.metadata.get('method', 'unknown')!r}, which is "
                f"not linear and has no matrix P. {way_out}"
            )
        origin = np.zeros((1, self.n_features))
        linear = Eraser.projection(self.U) if self.is_projection else self
        P = np.ascontiguousarray((linear(np.eye(self.n_features)) - linear(origin)).T)
        P.setflags(write=False)
        return P

    @cached_property
    def rank(self) -> int:
        """Dimension of the space of the erased embeddings; if not linear, an upper bound."""
        if self.before_norm is not self:
            return self.before_norm.rank
        if self.is_projection:
            return int(self.U.shape[1])
        if self.is_linear:
            return int(self._range.shape[1])
        return min(min(m.n_in, m.n_out) for m in self.maps)

    def __call__(self, X: Any) -> Any:
        """Erase the concept from an array, tensor or data frame of shape (…, d).

        A data frame must have the columns of the fit in the order of the fit, if their names are
        known: ``metadata["features"]``. NaN and infinity are refused, with the row.

        The dtype stays, but integers become float64. Rows of single or half precision are erased in
        single precision if the fit found that safe: a rounded basis is another subspace, with a
        little of what was removed, which must vanish in what rows vary by in every direction that
        is kept (``metadata["single"]``). All others are erased in double precision.
        """
        return self._apply(self.maps, X)

    def transform(self, X: Any) -> Any:
        """Erase the concept, as calling the eraser does."""
        return self(X)

    def reduce(self, X: Any) -> Any:
        """Erase, in coordinates of the kept subspace: (…, r), with the same distances.

        Rows of unit norm get one coordinate more if their subspace does not hold the origin.
        """
        if self.before_norm is not self:
            return self._reduce_normalised(X)
        if self.is_projection:
            mean = np.zeros(self.n_features) if self.mean is None else self.mean
            return self._apply((Dense(self.U, -mean @ self.U),), X)
        last = self.maps[-1]
        if isinstance(last, Expand) and (last.n_in == self.rank or not self.is_linear):
            return self._apply(self.maps[:-1], X)
        if self.is_linear and self.rank < self.n_features:
            # Coordinates in an orthonormal basis of the range, so that distances stay.
            return self._apply((*self.maps, Compress(self._range)), X)
        return self(X)

    def normalised(self, floor: float = 1e-5) -> Eraser:
        """Add a last step to unit norm, for rows that are compared by cosines.

        Prefer ``normalise=True`` in a fit: then the fit knows of this step. The mean of what is
        removed is not added here: at unit norm, it would show the norms that rows had before.

        Parameters
        ----------
        floor : float
            Erased rows of at most this norm become zero, since they hold only rounding errors.
            The default suits rows of about unit norm; a fit takes 1e-5 of the usual norm.

        Examples
        --------
        >>> eraser = Eraser.projection(np.eye(3)[:, :2]).normalised()
        >>> eraser(np.array([[3.0, 4.0, 5.0], [0.0, 0.0, 1.0]]))
        array([[0.6, 0.8, 0. ],
               [0. , 0. , 0. ]])
        """
        if self.is_normalised:
            return self
        *maps, last = self.maps
        if isinstance(last, (Projection, Expand)):
            last = replace(last, mean=None)
        return Eraser((*maps, last, Normalise(last.n_out, floor)), self.metadata)

    def with_metadata(self, **facts: Any) -> Eraser:
        """Add facts to the metadata; facts of the same name are replaced.

        Examples
        --------
        >>> eraser = Eraser.projection(np.eye(3)[:, :2], method="Mine")
        >>> eraser.with_metadata(source="a.parquet").metadata
        {'method': 'Mine', 'source': 'a.parquet'}
        """
        return Eraser(self.maps, {**self.metadata, **facts})

    def within(self, S: NDArray[Any], N: NDArray[Any], mean: NDArray[Any]) -> Eraser:
        """Restrict the results to the affine subspace ``mean`` + span(S).

        S and N, its orthogonal complement, have orthonormal columns. Rows that never leave that
        subspace lose nothing. For them it is what keeps rounding errors out of the directions in
        which they do not vary. A kept direction that lies outside of it but for a thousandth is
        dropped: what it shows of the subspace was to be removed.
        """
        first = self.maps[0]
        if isinstance(first, Oblique) and len(self.maps) == 1:
            return Eraser((first.without(N, mean),), self.metadata)
        if not self.is_projection:
            return Eraser((*self.maps, Projection(S, mean)), self.metadata)
        left, values, _ = np.linalg.svd(S.T @ self.U, full_matrices=False)
        U = np.ascontiguousarray(S @ left[:, values > 1e-3])
        return Eraser((Projection(U, self.mean),), self.metadata)

    def in_units(self, scale: NDArray[Any]) -> Eraser:
        """Make the eraser of rows x of an eraser of rows x/scale, (d,)."""
        return Eraser((Scale(1 / scale), *self.maps, Scale(scale)), self.metadata)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file: arrays and JSON metadata, no pickle.

        The file gets its name only when it is complete.
        """
        write_atomically(Path(path), packed(self.maps, self.metadata))

    def to_torch(self) -> Any:
        """Make a ``torch.nn.Module`` with buffers, through which gradients flow.

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
        """Make a function that erases a tensor on any device, for the hooks of other packages.

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

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX model, from ``embeddings`` to ``erased``, both (rows, d) in float32.

        It computes in double precision, as the eraser does. Needs the extra ``models``.
        """
        from unspot.export.onnx_file import onnx_bytes

        facts = {key: value for key, value in self.metadata.items() if key not in KNOWN}
        write_atomically(Path(path), onnx_bytes(trace(self.maps), facts))

    def to_faiss(self, index: Any) -> Any:
        """Put the eraser in front of an empty faiss index, as a ``faiss.IndexPreTransform``.

        What is added and what is searched for is erased. The result is written and read by faiss
        alone. Only for affine erasers, also with unit norm. Needs the extra ``models``.

        Examples
        --------
        >>> import faiss
        >>> index = Eraser.projection(np.eye(3)[:, :2]).to_faiss(faiss.IndexFlatL2(3))
        >>> index.add(np.array([[0.0, 0.0, 9.0], [1.0, 0.0, 0.0]], dtype=np.float32))
        >>> index.search(np.zeros((1, 3), dtype=np.float32), 1)[1].item()
        0
        """
        from unspot.export.layers import erasing_index

        return erasing_index(self.maps, index)

    def to_sentence_transformer(self, model: Any) -> Any:
        """Make a sentence-transformers model whose ``encode`` gives what ``model`` gives, erased.

        Affine erasers, networks of dense layers and unit norm become modules of the library itself,
        so that ``SentenceTransformer(folder)`` loads what ``save_pretrained`` writes, without
        unspot. Other erasers become a module of unspot: it must be installed, and the library asks
        for ``SentenceTransformer(folder, trust_remote_code=True)``.

        The weights are shared with ``model``, which stays as it is. Needs the extra ``models``.
        """
        require("to_sentence_transformer", "models", "sentence_transformers")
        from unspot.export.sentence_transformer import erasing_model

        return erasing_model(self.maps, self.metadata, model)

    def _reduce_normalised(self, X: Any) -> Any:
        base, norm = self.before_norm, self.maps[-1]
        assert isinstance(norm, Normalise)  # guaranteed by is_normalised
        if base.is_projection and base.mean is None:
            coordinates: Map = Compress(base.U)
            return self._apply((coordinates, replace(norm, width=coordinates.n_out)), X)
        if base.is_linear:  # the subspace that its affine image spans together with the origin
            offset = base(np.zeros((1, self.n_features)))
            U = range_basis(np.column_stack([base.P, offset[0]]))
            return self._apply((*self.maps, Compress(U)), X) if U.shape[1] < len(U) else self(X)
        if isinstance(base.maps[-1], Expand):
            inner = replace(norm, width=base.maps[-1].n_in)
            return self._apply((*base.maps[:-1], inner), X)
        return self(X)

    def _projection(self) -> Projection:
        if self.before_norm is not self:
            return self.before_norm._projection()
        if not self.is_projection:
            raise ValueError(
                f"Got an eraser of method {self.metadata.get('method', 'unknown')!r}, which is "
                "not one orthogonal projection and has no basis U. Call the eraser on rows instead."
            )
        return self.maps[0]  # type: ignore[return-value]

    @cached_property
    def _range(self) -> NDArray[Any]:
        return range_basis(self.P)

    @cached_property
    def _single_maps(self) -> tuple[Map, ...]:
        return tuple(m.rounded(np.float32) for m in self.maps)

    def _apply(self, maps: Sequence[Map], X: Any) -> Any:
        self.refuse_other_columns(X)
        x, dtype = _numbers(X)
        if x.ndim == 0 or x.shape[-1] != self.n_features:
            raise ValueError(
                f"Got embeddings of shape {tuple(x.shape)}, but expected (…, {self.n_features}): "
                f"this eraser was fitted on {self.n_features} features."
            )
        single = bool(self.metadata.get("single")) and dtype.itemsize <= 4
        if not isinstance(x, np.ndarray):
            x = x.float() if single else x.double()
            if not math.isfinite(x.detach().sum()):
                refuse_nonfinite(in_memory(x).reshape(-1, self.n_features), "embeddings")
            return _through(maps, x).to(dtype)
        if single:
            is_whole = maps is self.maps
            maps = self._single_maps if is_whole else [m.rounded(np.float32) for m in maps]
        rows = x.reshape(-1, self.n_features)

        def erased(piece: NDArray[Any]) -> Any:
            piece = piece.astype(np.float32 if single else np.float64, copy=False)
            # Finite, as far as one pass and no copy can tell.
            if not math.isfinite(np.vdot(piece, piece)):
                refuse_nonfinite(rows, "embeddings")
            return _through(maps, piece).astype(dtype, copy=False)

        is_small = x.size * self.n_features < _FEW_PRODUCTS
        whole = erased(rows) if is_small else by_rows(erased, rows)
        return whole.reshape(*x.shape[:-1], whole.shape[-1])

    def refuse_other_columns(self, X: Any) -> None:
        """Raise an error for a data frame whose columns are not those of the fit, in its order."""
        names, fitted = column_names(X), list(self.metadata.get("features", ()))
        # A column of vectors is one name for all features.
        if len(fitted) != self.n_features or not names or names == fitted:
            return
        missing = [name for name in fitted if name not in names]
        extra = [name for name in names if name not in fitted]
        if missing or extra:
            came = f"without {listed(missing, 3)}" if missing else f"with {listed(extra, 3)}"
        else:
            came = "in another order"
        raise ValueError(
            f"Got a data frame with columns {came}, but expected the {len(fitted)} columns of the "
            'fit in its order. Select them by name: X[eraser.metadata["features"]].'
        )


def load(path: str | os.PathLike[str]) -> Eraser:
    """Load an eraser from its file.

    Needs numpy and safetensors, but neither torch nor pickle.
    A file that is damaged, or that unspot did not write, raises a ``ValueError`` with the reason.
    """
    return Eraser(*read(Path(path)))


def method_name(metadata: Mapping[str, Any]) -> str:
    """Name the method of an eraser by its metadata; empty if they do not say.

    Examples
    --------
    >>> facts = {"method": "Cascade", "inner": {"method": "LEOPARD"}}
    >>> method_name(facts)
    'Cascade(LEOPARD)'
    >>> method_name({**facts, "parameters": {"first": "Cascade(Transport(), LEACE())"}})
    'Cascade(Transport, LEACE, LEOPARD)'
    """
    method, inner = str(metadata.get("method", "")), metadata.get("inner")
    if not (isinstance(inner, Mapping) and method):
        return method
    parameters = metadata.get("parameters")
    first = parameters.get("first") if isinstance(parameters, Mapping) else None
    stages = re.findall(r"([A-Z]\w*)\(", str(first or ""))
    names = [stage for stage in stages if stage != method]  # a cascade of three stages is nested
    return f"{method}({', '.join([*names, method_name(inner)])})"


def _through(maps: Sequence[Map], x: Any) -> Any:
    for m in maps:
        x = m(x)
    return x


def _numbers(X: Any) -> tuple[Any, Any]:
    """Convert X to a tensor or an array of numbers, and find the dtype of the result."""
    if hasattr(X, "new_tensor"):  # a torch tensor, without importing torch
        return X, X.dtype if X.is_floating_point() else X.double().dtype
    refuse_masked_or_sparse(X, "embeddings")
    x = X if type(X) is np.ndarray and X.dtype.kind != "O" else np.asarray(in_memory(X))
    if x.dtype.kind == "O":  # a frame of several types of numbers
        with suppress(TypeError, ValueError):
            x = x.astype(np.float64)
    if x.dtype.kind not in "fiub":
        raise ValueError(
            f"Got embeddings of dtype {x.dtype}, but expected numbers: dtype='numeric' is not "
            "compatible with arrays of bytes/strings."
        )
    return x, x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
