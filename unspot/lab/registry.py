"""Rival methods by name; ``unspot.erasers.registry.make`` finds them here."""

from __future__ import annotations

from unspot.erasers.registry import MethodInfo

__all__ = ["METHODS"]

METHODS = (
    MethodInfo(
        "farm", "unspot.lab.farm:FaRM", "network that maximises the coding rate of every class"
    ),
    MethodInfo(
        "kram",
        "unspot.lab.kram:KRaM",
        "network that maximises a kernelised coding rate, near the original rate",
        concepts=("categories", "continuous"),
    ),
    MethodInfo(
        "inlp",
        "unspot.lab.inlp:INLP",
        "null space of one linear classifier after another",
        linear=True,
    ),
    MethodInfo(
        "rlace",
        "unspot.lab.rlace:RLACE",
        "projection that wins a game against a linear adversary",
        linear=True,
    ),
    MethodInfo(
        "kernel",
        "unspot.lab.kernelized:KernelErasure",
        "linear erasure of Nyström features, and back by pre-images",
    ),
    MethodInfo(
        "adversarial",
        "unspot.lab.adversarial:AdversarialErasure",
        "autoencoder against an MLP adversary by gradient reversal",
    ),
    MethodInfo(
        "matching",
        "unspot.lab.matching:MomentMatching",
        "moves every class to one mean and covariance, by given or predicted labels",
    ),
    MethodInfo(
        "fleace",
        "unspot.lab.fleace:FLEACE",
        "least change of all functions of x against linear probes, by a calibrated classifier",
    ),
    MethodInfo(
        "alf",
        "unspot.lab.alf:ALFQLEACE",
        "LEACE, then the few directions in which class covariances differ most",
        linear=True,
        closed_form=True,
    ),
    MethodInfo(
        "fairpca",
        "unspot.lab.fairpca:FairPCA",
        "the principal subspace of what has equal means and nearly equal covariances",
        linear=True,
        closed_form=True,
    ),
    MethodInfo(
        "mute",
        "unspot.lab.mute:MUtE",
        "every class made Gaussian by rotations and monotone maps, and back as their mean",
    ),
    MethodInfo(
        "igbp",
        "unspot.lab.igbp:IGBP",
        "rows moved onto the decision boundary of one neural probe after another",
    ),
    MethodInfo(
        "obliviator",
        "unspot.lab.obliviator:Obliviator",
        "kernels in a cascade: random features lose what correlates with the concept, in rounds",
    ),
)
