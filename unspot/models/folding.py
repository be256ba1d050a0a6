"""Affine erasers folded into the weights of linear layers: erasure at no cost, without hooks.

A layer that is followed or preceded by an affine map is another linear layer. That holds only if
nothing stands between the two, so modules are named in a model, and what cannot be shown to be next
to each other is refused.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unspot.models.hooks import as_eraser

__all__ = ["fold_after", "fold_before", "fold_between"]


def fold_after(linear: nn.Linear, eraser: Any) -> nn.Linear:
    """A linear layer whose outputs are erased: eraser(Wx + c) as one layer.

    The folded weights are computed in double precision and rounded once, to the dtype of the
    layer. That brings back a little of what was removed, as much as the dtype rounds;
    ``unspot.hooks`` computes in single precision at least, through the kept coordinates.

    Parameters
    ----------
    linear : torch.nn.Linear
        It is left as it is.
    eraser : Eraser or fitted estimator
        An affine one, of as many features as the layer has outputs.

    Examples
    --------
    >>> from unspot import Eraser
    >>> linear = nn.Linear(2, 3)
    >>> folded = fold_after(linear, Eraser.projection(np.eye(3)[:, :2]))
    >>> x = torch.ones(1, 2)
    >>> torch.allclose(folded(x)[:, :2], linear(x)[:, :2]), folded(x)[0, 2].item()
    (True, 0.0)
    """
    P, b = _affine(eraser, linear, "out_features")
    weight, bias = _numbers(linear)
    return _with(linear, P @ weight, P @ bias + b)


def fold_before(eraser: Any, linear: nn.Linear) -> nn.Linear:
    """A linear layer that reads erased inputs: W·eraser(x) + c as one layer.

    What it computes cannot depend on what the eraser removes, up to rounding as in ``fold_after``.
    Other modules that read the same inputs still see the concept.

    Parameters
    ----------
    eraser : Eraser or fitted estimator
        An affine one, of as many features as the layer has inputs.
    linear : torch.nn.Linear
        It is left as it is.

    Examples
    --------
    >>> from unspot import Eraser
    >>> linear = nn.Linear(3, 2)
    >>> folded = fold_before(Eraser.projection(np.eye(3)[:, :2]), linear)
    >>> x = torch.tensor([[1.0, 2.0, 9.0], [1.0, 2.0, -9.0]])
    >>> torch.equal(*folded(x))
    True
    """
    P, b = _affine(eraser, linear, "in_features")
    weight, bias = _numbers(linear)
    return _with(linear, weight @ P, weight @ b + bias)


def fold_between(model: nn.Module, first: str, second: str, eraser: Any) -> None:
    """Fold an eraser of what goes from one module to the next into the weights of a model.

    In an ``nn.Sequential`` it is folded into the first module if that is an ``nn.Linear``, else
    into the second. Everything between them must do nothing, such as ``nn.Identity`` or dropout.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place: one ``nn.Linear`` gets other weights.
    first, second : str
        Full names of two modules of the same ``nn.Sequential``, in this order. The order of calls
        in other modules is not known from their names, and is refused: use ``unspot.hooks``.
    eraser : Eraser or fitted estimator

    Examples
    --------
    >>> from unspot import Eraser
    >>> model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(), nn.Linear(3, 1)).eval()
    >>> fold_between(model, "0", "2", Eraser.projection(np.eye(3)[:, :2]))
    >>> model[0](torch.ones(1, 3))[0, 2].item()
    0.0
    """
    parent_name, _, start = first.rpartition(".")
    other_parent, _, end = second.rpartition(".")
    parent = model.get_submodule(parent_name)
    sequential = isinstance(parent, nn.Sequential) and (
        type(parent).forward is nn.Sequential.forward
    )
    if parent_name != other_parent or not sequential:
        raise ValueError(
            f"Got the modules {first!r} and {second!r}, but expected two of one nn.Sequential: "
            "elsewhere their names do not tell what stands between them. Use unspot.hooks."
        )
    names = [name for name, _ in parent.named_children()]
    i, j = names.index(start), names.index(end)
    if i >= j:
        raise ValueError(f"Got {first!r} before {second!r}, but expected the order of the calls.")
    for name in names[i + 1 : j]:
        _refuse_if_it_computes(name, parent.get_submodule(name))
    before, after = parent.get_submodule(start), parent.get_submodule(end)
    if isinstance(before, nn.Linear):
        setattr(parent, start, fold_after(before, eraser))
    else:
        setattr(parent, end, fold_before(eraser, after))  # type: ignore[arg-type]


def _refuse_if_it_computes(name: str, module: nn.Module) -> None:
    drops = type(module) is nn.Dropout and module.training and module.p > 0
    if type(module) not in (nn.Identity, nn.Dropout) or drops or module._forward_hooks:
        raise ValueError(
            f"Got {type(module).__name__} {name!r} between the two modules, but folding is exact "
            "only if nothing is computed there. Use unspot.hooks; for dropout, call model.eval()."
        )


def _affine(eraser: Any, linear: Any, end: str) -> tuple[Tensor, Tensor]:
    """P and b of x ↦ Px + b, in double precision, for one end of a layer."""
    found = as_eraser(eraser, "folding")
    if type(linear) is not nn.Linear or linear._forward_hooks or linear._forward_pre_hooks:
        raise TypeError(
            f"Got a {type(linear).__name__}, but expected an nn.Linear itself, without hooks: what "
            "subclasses and hooks compute is not known. Use unspot.hooks for other modules."
        )
    if not found.is_linear:
        raise ValueError(
            f"Got an eraser of method {found.metadata.get('method', 'unknown')!r}, which is not "
            "affine and cannot be folded. Use unspot.hooks."
        )
    width = getattr(linear, end)
    if found.n_features != width:
        raise ValueError(
            f"Got an eraser of {found.n_features} features for a layer with {end}={width}, but "
            "expected as many. Fit it on the vectors at this place."
        )
    origin = found(np.zeros((1, width)))[0]
    device = linear.weight.device
    return torch.tensor(found.P, device=device), torch.tensor(origin, device=device)


def _numbers(linear: nn.Linear) -> tuple[Tensor, Tensor]:
    weight = linear.weight.detach().double()
    bias = linear.bias
    return weight, weight.new_zeros(len(weight)) if bias is None else bias.detach().double()


def _with(linear: nn.Linear, weight: Tensor, bias: Tensor) -> nn.Linear:
    """A copy of a layer with other weights, in its own dtype and place."""
    folded = copy.deepcopy(linear)
    trained = linear.weight.requires_grad
    folded.weight = nn.Parameter(weight.to(linear.weight.dtype), requires_grad=trained)
    folded.bias = nn.Parameter(bias.to(linear.weight.dtype), requires_grad=trained)
    return folded
