"""``unspot export``: an eraser in the form of another system."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.eraser import Eraser

#: Endings of the files that are written, and how to use them in one line.
TARGETS = {
    "onnx": (".onnx", 'session.run(["erased"], {{"embeddings": X}})[0]'),
    "torch": (".pt2", 'torch.export.load("{name}").module()(X)'),
    "faiss": (".faiss", 'index = faiss.read_index("{name}"), which is empty'),
    "sentence-transformers": ("", 'SentenceTransformer("{name}").encode(texts)'),
}


def export(
    eraser: Path, to: str, output: Path | None = None, model: str | None = None, force: bool = False
) -> None:
    """Write an eraser for ONNX, torch, faiss or a text encoder.

    \b
    unspot export gender.safetensors --to onnx
    unspot export gender.safetensors --to sentence-transformers --model ./minilm
    """
    options.check_files({}, [eraser])
    from unspot.checks import check_choice
    from unspot.eraser import load

    ending, use = TARGETS[check_choice("--to", to, TARGETS)]
    if (model is not None) != (not ending):
        raise ValueError(
            f"Got --to {to} {'with' if model else 'without'} --model, but a model belongs to --to "
            "sentence-transformers, and only there: a folder, or a name on the hub."
        )
    written = output or eraser.with_suffix(ending)
    if model is not None:
        _write_model(load(eraser), model, output, force=force)
    else:
        if written.suffix.lower() != ending:
            raise ValueError(
                f"Got output {str(written)!r}, but expected a name that ends in {ending} for "
                f"--to {to}."
            )
        options.check_files({"--output": written}, [eraser], force=force)
        try:
            _write(load(eraser), to, written)
        except NotImplementedError as error:  # a map has no elementary steps
            raise ValueError(str(error)) from None
    options.say(f"{written}: {use.format(name=written.name)}")


def _write(eraser: Eraser, to: str, path: Path) -> None:
    from unspot.io.files import write_atomically

    if to == "onnx":
        eraser.to_onnx(path)
    else:
        write_atomically(path, _torch_program(eraser) if to == "torch" else _faiss_index(eraser))


def _torch_program(eraser: Eraser) -> bytes:
    """Export a program that torch runs without unspot."""
    import torch

    rows = torch.export.Dim("rows")
    example = torch.zeros(2, eraser.n_features)
    program = torch.export.export(eraser.to_torch(), (example,), dynamic_shapes=({0: rows},))
    content = io.BytesIO()
    torch.export.save(program, content)
    return content.getvalue()


def _faiss_index(eraser: Eraser) -> bytes:
    """Make an empty flat index: by inner products for unit norm, else by distances."""
    from unspot.checks import require

    require("--to faiss", "models", "faiss")
    import faiss

    kind = faiss.IndexFlatIP if eraser.is_normalised else faiss.IndexFlatL2
    index = eraser.to_faiss(kind(eraser.maps[-1].n_out))
    return faiss.serialize_index(index).tobytes()


def _write_model(eraser: Eraser, model: str, output: Path | None, *, force: bool) -> None:
    from unspot.checks import require

    if output is None:
        raise ValueError("Got no --output, but expected the name of a folder for the model.")
    if output.exists() and not (output.is_dir() and (force or not any(output.iterdir()))):
        raise ValueError(
            f"Got output {str(output)!r}, which exists already. Choose another name, or replace "
            "a model there with --force."
        )
    is_folder = Path(model).is_dir()
    if not is_folder and (model.startswith((".", "/", "~")) or Path(model).exists()):
        raise ValueError(
            f"Got --model {model!r}, but there is no such folder. Give the folder of a model, or "
            "its name on the hub, such as sentence-transformers/all-MiniLM-L6-v2."
        )
    require("--to sentence-transformers", "models", "sentence_transformers")
    from sentence_transformers import SentenceTransformer

    if is_folder and output.exists() and output.samefile(model):
        raise ValueError(f"Got --output {str(output)!r}, the folder of the model itself.")
    original = SentenceTransformer(model, device="cpu", local_files_only=is_folder)
    eraser.to_sentence_transformer(original).save_pretrained(str(output))
