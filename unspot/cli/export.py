"""``unspot export``: an eraser in the form of another system."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.eraser import Eraser


class Target(StrEnum):
    """The systems, and how the names of their files end."""

    onnx = "onnx"
    torch = "torch"
    faiss = "faiss"
    sentence_transformers = "sentence-transformers"


#: Other endings of output files are refused: they would not be found, or taken for something else.
ENDINGS = {
    Target.onnx: ".onnx",
    Target.torch: ".pt2",
    Target.faiss: ".faiss",
}


def export(
    eraser: options.EraserFile,
    to: Annotated[Target, typer.Option(help="The system that will erase.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="By default ERASER with another ending; for sentence-transformers a folder.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", metavar="MODEL", help="sentence-transformers: a folder, or a name."
        ),
    ] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write an eraser for another system, which then erases without unspot.

    unspot export gender.safetensors --to onnx
    unspot export gender.safetensors --to sentence-transformers --model ./minilm -o ./minilm-clean
    """
    options.check_files({}, [eraser])
    from unspot.eraser import load
    from unspot.io.files import naming_full_disk, refuse_existing

    if (model is not None) != (to is Target.sentence_transformers):
        raise ValueError(
            f"Got --to {to.value} {'with' if model else 'without'} --model, but a model belongs "
            "to --to sentence-transformers, and only there: a folder, or a name on the hub."
        )
    if to is Target.sentence_transformers:
        written = _sentence_transformer(eraser, str(model), output, force=force)
    else:
        written = output or eraser.with_suffix(ENDINGS[to])
        if written.suffix.lower() != ENDINGS[to]:
            raise ValueError(
                f"Got output {str(written)!r}, but expected a name that ends in {ENDINGS[to]} for "
                f"--to {to.value}."
            )
        options.refuse_inputs({"--output": written}, [eraser])
        refuse_existing(written, force=force)
        try:
            with naming_full_disk(written):
                _write(load(eraser), to, written)
        except NotImplementedError as error:  # of a map that has no elementary steps
            raise ValueError(str(error)) from None
    if not quiet:
        typer.echo(f"{written}: {_use(to, written)}")


def _write(eraser: Eraser, to: Target, path: Path) -> None:
    if to is Target.onnx:
        eraser.to_onnx(path)
    elif to is Target.torch:
        _write_torch(eraser, path)
    else:
        _write_faiss(eraser, path)


def _write_torch(eraser: Eraser, path: Path) -> None:
    """An exported program, which torch runs without unspot."""
    import io

    import torch

    from unspot.io.files import write_atomically

    rows = torch.export.Dim("rows")
    example = torch.zeros(2, eraser.n_features)
    program = torch.export.export(eraser.to_torch(), (example,), dynamic_shapes=({0: rows},))
    content = io.BytesIO()
    torch.export.save(program, content)
    write_atomically(path, content.getvalue())


def _write_faiss(eraser: Eraser, path: Path) -> None:
    """An empty flat index: by inner products for unit norm, else by distances."""
    from unspot.checks import require
    from unspot.io.files import write_atomically

    require("--to faiss", "models", "faiss")
    import faiss

    kind = faiss.IndexFlatIP if eraser.is_normalised else faiss.IndexFlatL2
    index = eraser.to_faiss(kind(eraser.maps[-1].n_out))
    write_atomically(path, faiss.serialize_index(index).tobytes())


def _sentence_transformer(eraser: Path, model: str, output: Path | None, *, force: bool) -> Path:
    from unspot.checks import require
    from unspot.eraser import load

    loaded = load(eraser)
    if output is None:
        raise ValueError("Got no --output, but expected the name of a folder for the model.")
    if output.exists() and not (output.is_dir() and (force or not any(output.iterdir()))):
        raise ValueError(
            f"Got output {str(output)!r}, which exists already. Choose another name, or replace "
            "a model there with --force."
        )
    if not Path(model).is_dir() and (model.startswith((".", "/", "~")) or Path(model).exists()):
        raise ValueError(
            f"Got --model {model!r}, but there is no such folder. Give the folder of a model, or "
            "its name on the hub, such as sentence-transformers/all-MiniLM-L6-v2."
        )
    require("--to sentence-transformers", "models", "sentence_transformers")
    from sentence_transformers import SentenceTransformer

    if Path(model).is_dir() and output.exists() and output.samefile(model):
        raise ValueError(f"Got --output {str(output)!r}, the folder of the model itself.")
    erasing = loaded.to_sentence_transformer(
        SentenceTransformer(model, device="cpu", local_files_only=Path(model).is_dir())
    )
    erasing.save_pretrained(str(output))
    return output


def _use(to: Target, path: Path) -> str:
    """How to use what was written, in one line."""
    return {
        Target.onnx: 'session.run(["erased"], {"embeddings": X})[0]',
        Target.torch: f'torch.export.load("{path.name}").module()(X)',
        Target.faiss: f'index = faiss.read_index("{path.name}"), which is empty',
        Target.sentence_transformers: f'SentenceTransformer("{path.name}").encode(texts)',
    }[to]
