"""``unspot embed``: a file of texts in, a file of vectors out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from unspot.cli import options


class Pooling(StrEnum):
    """How the states of a text's tokens become one vector."""

    cls = "cls"
    mean = "mean"
    model = "model"


def embed(
    texts: Annotated[
        Path,
        typer.Argument(
            metavar="TEXTS",
            help="A .csv, .tsv or .parquet file with a column of texts, a .txt file with one text "
            "per line, or a .pickle file of Bias in Bios.",
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="A folder with a model and its tokenizer, or a name on the Hugging Face hub.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where the vectors go: .parquet with all other columns, or .npy without.",
        ),
    ],
    text: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column that holds the texts.")
    ] = None,
    pooling: Annotated[
        Pooling | None,
        typer.Option(
            help="The [CLS] token (the paper's choice), the mean over tokens, or all modules of a "
            "sentence-transformers model; by default model for folders of these, else cls.",
            show_default=False,
        ),
    ] = None,
    eraser: Annotated[
        Path | None,
        typer.Option(metavar="ERASER", help="Take a concept out of the vectors: a .safetensors."),
    ] = None,
    column: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the column of vectors in a .parquet file.")
    ] = "embedding",
    batch_size: Annotated[int, typer.Option(min=1, metavar="N", help="Texts per batch.")] = 32,
    max_length: Annotated[
        int | None,
        typer.Option(metavar="N", help="Tokens to read of a text; by default all that fit."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="cpu or cuda; by default cuda if there is one."),
    ] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Turn texts into vectors with a frozen language model.

    unspot embed bios.csv --text bio --model ./bert -o bios.parquet

    The vectors are the last hidden state. With a folder as the model, nothing is downloaded.
    """
    from unspot.io.files import refuse_existing

    # All that can be wrong is checked before the model, which may take hours.
    options.check_files({"--output": output}, [texts, eraser])
    refuse_existing(output, force=force)
    from unspot.eraser import load
    from unspot.models.embedding import embed_texts
    from unspot.models.texts import check_column, check_output, read_texts, write_embeddings

    check_output(output)
    table = read_texts(texts, text)
    if output.suffix.lower() == ".parquet":
        check_column(table, column, texts)
    erase = load(eraser) if eraser is not None else None
    X = embed_texts(
        table.texts,
        model,
        pooling=pooling.value if pooling else None,
        batch_size=batch_size,
        max_length=max_length,
        device=device,
    )
    if erase is not None:
        X = erase(X)
    write_embeddings(output, X, table, column=column)
    if not quiet:
        without = f" Erased by {eraser}." if erase is not None else ""
        typer.echo(f"{output}: {X.shape[0]:,} texts as vectors of {X.shape[1]} numbers.{without}")
