"""``unspot embed``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Pooling(StrEnum):
    """How the states of a text's tokens become one vector."""

    cls = "cls"
    mean = "mean"


def embed(
    texts: Annotated[
        Path,
        typer.Argument(
            help="A .csv, .tsv or .parquet file with a column of texts, a .txt file with one text "
            "a line, or a .pickle file of Bias in Bios."
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="A folder with a model and its tokenizer, or a name on the Hugging Face hub.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Where the vectors go: .parquet with all other columns, or .npy without.",
        ),
    ],
    text: Annotated[
        str | None, typer.Option("--text", help="The column that holds the texts.")
    ] = None,
    pooling: Annotated[
        Pooling,
        typer.Option(
            help="The state of the [CLS] token (the paper's choice), or the mean over tokens."
        ),
    ] = Pooling.cls,
    column: Annotated[
        str, typer.Option(help="What the column of vectors is called in a .parquet file.")
    ] = "embedding",
    batch_size: Annotated[int, typer.Option(min=1, help="Texts in one pass.")] = 32,
    max_length: Annotated[
        int | None,
        typer.Option(help="Tokens of a text that are read; by default all that the model can."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda; by default CUDA where there is one.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Turn texts into vectors by a frozen language model.

    The vectors are the last hidden state. With a folder as the model, nothing is fetched.

    Example: unspot embed bios.csv --text bio --model ./bert -o bios.parquet
    """
    from unspot.cli.options import refuse_inputs
    from unspot.io.files import refuse_existing
    from unspot.models.embedding import embed_texts
    from unspot.models.texts import check_column, check_output, read_texts, write_embeddings

    # Everything that can be wrong is checked before the hours that the model takes.
    check_output(output)
    refuse_inputs({"--output": output}, [texts])
    refuse_existing(output, force=force)
    table = read_texts(texts, text)
    if output.suffix.lower() == ".parquet":
        check_column(table, column, texts)
    X = embed_texts(
        table.texts,
        model,
        pooling=pooling.value,
        batch_size=batch_size,
        max_length=max_length,
        device=device,
        verbose=not quiet,
    )
    write_embeddings(output, X, table, column=column)
    typer.echo(f"{output}: {X.shape[0]:,} texts as vectors of {X.shape[1]} numbers.")
