"""A card for an eraser: what was erased, from what, how well, and what that does not say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspot._version import __version__
from unspot.checks import require

__all__ = ["model_card", "upload"]

_HEAD = """---
library_name: unspot
tags:
- concept-erasure
- embeddings
- fairness
---

"""

_USE = """## Use

```python
import unspot

eraser = unspot.load("this folder")  # needs numpy and safetensors
X_clean = eraser(X)  # (n, {n_features}) embeddings of the same model
```
"""

_LIMITS = (
    "It is made for embeddings of the same model and the same kind of rows that it was fitted on. "
    "Others may give the concept away.",
    "Evidence is about the attackers that were tried, on the rows that they were given.",
    "Who has raw embeddings of the same rows, or the names of people, does not need these.",
    "Each change after erasure, such as a scale to unit norm, changes what was judged.",
)


def model_card(
    metadata: Mapping[str, Any], summary: str, evaluation: Any = None, certificate: Any = None
) -> str:
    """A card in Markdown.

    Parameters
    ----------
    metadata : mapping
        Of the eraser.
    summary : str
        The eraser in one line.
    evaluation : Evaluation, optional
    certificate : Certificate or AuditRecord, optional
    """
    concept = str(metadata.get("concept_name") or "a concept")
    parts = [
        f"# Eraser of {concept}\n",
        f"Takes {concept} out of embeddings. Made with unspot {__version__}.\n",
        _USE.format(n_features=metadata.get("n_features", "d")),
        "## What was erased, from what\n",
        _facts(metadata, summary),
        _certificate(certificate),
        *(["## Evaluation\n", f"{evaluation.to_markdown()}\n"] if evaluation is not None else []),
        "## Limits\n",
        *(f"- {limit}" for limit in _LIMITS),
        "",
    ]
    return _HEAD + "\n".join(parts)


def _facts(metadata: Mapping[str, Any], summary: str) -> str:
    counts = metadata.get("class_counts") or ()
    classes = [
        f"{name} ({counts[i]:,} rows)" if counts else str(name)
        for i, name in enumerate(metadata.get("classes") or ())
    ]
    inner = metadata.get("inner", metadata)
    facts = {
        "Eraser": summary.strip("<>").removeprefix("Eraser by "),
        "Concept": metadata.get("concept_name"),
        "Classes": ", ".join(classes[:20]) + (" …" if len(classes) > 20 else ""),
        "Data": metadata.get("data"),
        "Rows": f"{metadata['n_rows']:,}" if "n_rows" in metadata else None,
        "Features": metadata.get("n_features"),
        "Fingerprint of the rows": metadata.get("fingerprint"),
        "Parameters": ", ".join(
            f"{name}={value}"
            for name, value in inner.get("parameters", {}).items()
            if value is not None and name not in ("device", "verbose")
        ),
        "Versions": ", ".join(f"{k} {v}" for k, v in metadata.get("versions", {}).items()),
    }
    lines = [f"- **{name}:** {_one_line(value)}" for name, value in facts.items() if value]
    return "\n".join(lines) + "\n"


def _certificate(certificate: Any) -> str:
    if certificate is None:
        return (
            "## No certificate\n\nNobody has shown what attackers still find. Run `unspot certify` "
            "on rows that the eraser has not seen.\n"
        )
    return f"## Certificate: {certificate.verdict}\n\n{certificate.sentence}\n"


def _one_line(value: Any) -> str:
    """A name from a file cannot begin a heading or a list of its own."""
    return " ".join(str(value).split())


def upload(folder: str | Path, repo_id: str, *, private: bool | None, token: str | None) -> str:
    """Upload a folder to the Hugging Face hub; returns the address of the repository."""
    require("push_to_hub", "models", "huggingface_hub")
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    repository = api.create_repo(repo_id, private=private, exist_ok=True)
    api.upload_folder(
        repo_id=repo_id, folder_path=folder, commit_message=f"Eraser made with unspot {__version__}"
    )
    return str(repository)
