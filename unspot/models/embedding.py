"""Texts to vectors, by a language model from a folder or the Hugging Face hub (extra ``text``)."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.io.arrow import require_pyarrow, unreadable
from unspot.io.columns import missing
from unspot.io.files import finished_file

__all__ = ["TextTable", "embed_texts", "read_texts", "write_embeddings"]

POOLINGS = ("cls", "mean")

#: Tokens of a text that are read when neither the tokenizer nor the model sets a limit.
_MAX_LENGTH = 512


def embed_texts(
    texts: Any,
    model: str | os.PathLike[str],
    *,
    pooling: str = "cls",
    batch_size: int = 32,
    max_length: int | None = None,
    device: str | None = None,
    verbose: bool = False,
) -> NDArray[np.float32]:
    """Embed texts by the last hidden state of a frozen language model.

    Texts are put together by length, so that little padding is computed, and come back in their
    own order. The memory is that of the model, one batch and the result. The same texts give the
    same vectors up to rounding, whatever ``batch_size``.

    Parameters
    ----------
    texts : sequence of str
        None of them missing or blank.
    model : str or path
        A folder with a model and its tokenizer (then nothing is fetched), or a name on the hub such
        as "bert-base-uncased".
    pooling : {"cls", "mean"}
        The state of the [CLS] token, the paper's choice, or the mean over the text's tokens.
    batch_size : int
        Texts in one pass through the model.
    max_length : int, optional
        Tokens of a text that are read; the rest is cut off. By default as many as the model can.
    device : str, optional
        "cpu", "cuda"…; by default CUDA where there is one.
    verbose : bool
        Show a progress bar.

    Returns
    -------
    X : float32 array of shape (n, d)

    Examples
    --------
    >>> embed_texts(["She is a nurse.", "He is a poet."], "bert-base-uncased")  # doctest: +SKIP
    array([[-0.1, ...
    """
    texts = _checked(texts)
    if pooling not in POOLINGS:
        raise ValueError(f"Got pooling={pooling!r}, but expected 'cls' or 'mean'.")
    if batch_size < 1:
        raise ValueError(f"Got batch_size={batch_size}, but expected at least one text.")
    encoder = _Encoder(model, pooling, max_length, device)
    from tqdm import tqdm

    rows: list[NDArray[np.float32] | None] = [None] * len(texts)
    with tqdm(total=len(texts), desc="Embedding", unit="text", disable=not verbose) as bar:
        for batch in _batches(texts, batch_size):
            for row, vector in zip(batch, encoder([texts[i] for i in batch]), strict=True):
                rows[row] = vector
            bar.update(len(batch))
    return _finite(np.stack([row for row in rows if row is not None]), model)


def _checked(texts: Any) -> list[str]:
    if isinstance(texts, str):
        raise ValueError("Got one string as texts, but expected a list of them.")
    values = texts.tolist() if hasattr(texts, "tolist") else list(texts)
    if not values:
        raise ValueError("Got no texts, but expected at least one.")
    bad = [i for i, text in enumerate(values) if not isinstance(text, str) or not text.strip()]
    if bad:
        raise ValueError(
            f"Got {len(bad)} texts that are missing, blank or not text (the first in row "
            f"{bad[0]}: {values[bad[0]]!r}), but expected a text in every row. Drop those rows, "
            "or give them a text."
        )
    return values


def _batches(texts: Sequence[str], size: int) -> Iterator[list[int]]:
    # Longest first: what does not fit in memory fails at once, and the bar speeds up, not down.
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    for start in range(0, len(order), size):
        yield order[start : start + size]


class _Encoder:
    """A tokenizer, a model and a pooling: a batch of texts → (b, d)."""

    def __init__(
        self,
        name: str | os.PathLike[str],
        pooling: str,
        max_length: int | None,
        device: str | None,
    ) -> None:
        import torch

        self._tokenizer, model = _pretrained(name)
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            self._model = model.float().eval().to(self._device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(
                f"Got device={device!r}, which cannot be used ({_first_line(error)}). Expected "
                "'cpu', or 'cuda' with a GPU."
            ) from None
        self._pooling = pooling
        self._max_length = _length(max_length, self._tokenizer, model)
        self._prepare_tokenizer(name)

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        import torch

        tokens = self._tokenizer(
            texts, padding=True, truncation=True, max_length=self._max_length, return_tensors="pt"
        ).to(self._device)
        with torch.inference_mode():
            states = self._model(**tokens).last_hidden_state  # (b, length, d)
            pooled = (
                states[:, 0]
                if self._pooling == "cls"
                else _mean(states, tokens["attention_mask"].unsqueeze(-1))
            )
        result: NDArray[np.float32] = pooled.cpu().numpy()
        return result

    def _prepare_tokenizer(self, name: str | os.PathLike[str]) -> None:
        tokenizer = self._tokenizer
        tokenizer.padding_side = "right"  # or the first token of a short text would be padding
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        if self._pooling == "cls" and tokenizer.cls_token is None:
            raise ValueError(
                f"Got pooling='cls', but the model {str(name)!r} has no [CLS] token. Use "
                "pooling='mean'."
            )


def _mean(states: Any, mask: Any) -> Any:
    """Mean of the states (b, length, d) over the tokens that are not padding."""
    return (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


def _length(max_length: int | None, tokenizer: Any, model: Any) -> int:
    """How many tokens are read: what was asked for, within what the model can."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    known = [int(limit) for limit in limits if limit is not None and 0 < limit < 10**9]
    limit = min(known, default=_MAX_LENGTH if max_length is None else max_length)
    if max_length is None:
        return limit
    if not 3 <= max_length <= limit:
        raise ValueError(
            f"Got max_length={max_length}, but expected 3 to {limit} tokens, which is what the "
            "model can read."
        )
    return max_length


def _pretrained(name: str | os.PathLike[str]) -> tuple[Any, Any]:
    """Tokenizer and model, or an error that says what a model folder is."""
    transformers = _require_transformers()
    local = _is_folder(name)
    try:
        with _quiet(transformers):
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, local_files_only=local)
            model = transformers.AutoModel.from_pretrained(name, local_files_only=local)
    except (OSError, ValueError, KeyError) as error:
        if local:
            raise ValueError(
                f"Got {str(name)!r}, a folder without a model that can be read "
                f"({_first_line(error)}). Expected what save_pretrained writes: config.json, "
                "weights and the tokenizer's files."
            ) from None
        raise ValueError(
            f"Got model {str(name)!r}, which could not be fetched ({_first_line(error)}). Check "
            "the name and the network, or pass the path of a folder with the model."
        ) from None
    return tokenizer, model.get_encoder() if model.config.is_encoder_decoder else model


def _is_folder(name: str | os.PathLike[str]) -> bool:
    if Path(name).is_dir():
        return True
    text = str(name)
    # A name on the hub is a word, or two with a slash between; anything else was meant as a path.
    if isinstance(name, os.PathLike) or text.startswith((".", "/", "~")) or text.count("/") > 1:
        raise FileNotFoundError(f"Got model {text!r}, but there is no such folder.")
    return False


def _require_transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise ImportError(
            "Embedding texts needs transformers, which is not installed. Run: pip install "
            '"unspot[text]"'
        ) from None
    return transformers


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without the loader's own bars, and its remarks on layers that are not used here."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _finite(X: NDArray[np.float32], model: Any) -> NDArray[np.float32]:
    if not np.isfinite(X).all():
        row = int(np.flatnonzero(~np.isfinite(X).all(axis=1))[0])
        raise ValueError(
            f"Got a vector that is not finite from {str(model)!r} for the text in row {row}. Are "
            "the model's weights complete?"
        )
    return X


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else repr(error)


# -- Files of texts, and files of texts with their vectors -----------------------------------------


IN = (".csv", ".tsv", ".parquet", ".txt", ".pickle", ".pkl")
OUT = (".npy", ".parquet")


@dataclass(frozen=True, eq=False)
class TextTable:
    """Texts of a file, and all its columns where it has any."""

    texts: list[Any]
    columns: Any = None  # a pyarrow.Table, or a list of dicts, or None

    def arrow(self) -> Any:
        """All columns as a ``pyarrow.Table``."""
        pa = require_pyarrow("Parquet files")
        if self.columns is None:
            return pa.table({"text": self.texts})
        if isinstance(self.columns, list):
            return _records_table(self.columns)
        return self.columns


def read_texts(path: Path, column: str | None = None) -> TextTable:
    """Read texts.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv`` or ``.parquet``; ``.txt`` with one text a line; ``.pickle`` with a list
        of dicts, such as the splits of Bias in Bios (read without running what is in it).
    column : str, optional
        The column, or the dicts' key, that holds the texts. Not for ``.txt``, and needed elsewhere
        unless there is one column.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "bios.txt"
    >>> _ = path.write_text("She is a nurse.\\nHe is a poet.\\n")
    >>> read_texts(path).texts
    ['She is a nurse.', 'He is a poet.']
    """
    if not path.exists():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    suffix = path.suffix.lower()
    if suffix not in IN:
        raise ValueError(
            f"Got {str(path)!r}, but expected a file of format {', '.join(IN)}. Convert it, or "
            "give it the right ending."
        )
    if suffix == ".txt":
        return _read_lines(path, column)
    if suffix in (".pickle", ".pkl"):
        return _read_pickle(path, column)
    table = _read_csv(path, column) if suffix in (".csv", ".tsv") else _read_parquet(path)
    texts = table.column(_chosen(column, table.column_names, path))
    return TextTable(texts.to_pylist(), table)


def write_embeddings(path: Path, X: NDArray[Any], table: TextTable, *, column: str) -> None:
    """Write vectors: ``.npy`` the array alone, ``.parquet`` all columns and one of vectors.

    The file appears under its name only when it is complete.
    """
    check_output(path)
    if path.suffix.lower() == ".npy":
        with finished_file(path) as file:
            np.save(file, X)
        return
    content = table.arrow().append_column(column, _vector_column(X))
    from pyarrow import parquet

    with finished_file(path) as file:
        parquet.write_table(content, file)


def check_output(path: Path) -> None:
    """An error if the ending of an output file is not one that is written."""
    if path.suffix.lower() not in OUT:
        raise ValueError(
            f"Got output {str(path)!r}, but expected a name that ends in {' or '.join(OUT)}."
        )


def check_column(table: TextTable, column: str, path: Path) -> None:
    """An error if the table has a column of that name already."""
    if column in table.arrow().column_names:
        raise ValueError(
            f"Got a column {column!r} in {str(path)!r} already. Give the vectors another name "
            "with --column."
        )


def _vector_column(X: NDArray[Any]) -> Any:
    pa = require_pyarrow("Parquet files")
    return pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), X.shape[1])


def _chosen(column: str | None, names: Sequence[str], path: Path) -> str:
    if column is None and len(names) == 1:
        return names[0]
    if column is None:
        raise ValueError(
            f"Got {str(path)!r} with columns {', '.join(names[:12])}. Say which one holds the "
            "texts with --text."
        )
    if column not in names:
        raise missing(column, names, str(path))
    return column


def _read_lines(path: Path, column: str | None) -> TextTable:
    if column is not None:
        raise ValueError(
            f"Got --text {column}, but {str(path)!r} has one text a line and no columns. Leave "
            "--text out."
        )
    # splitlines would also break texts at characters such as U+2028.
    lines = path.read_bytes().removeprefix(BOM_UTF8).removesuffix(b"\n").split(b"\n")
    try:
        return TextTable([line.removesuffix(b"\r").decode("utf-8") for line in lines])
    except UnicodeDecodeError as error:
        raise ValueError(f"Got {str(path)!r}, which is not UTF-8 text ({error}).") from None


def _read_pickle(path: Path, column: str | None) -> TextTable:
    from unspot.datasets.bios import read_records

    records = read_records(path)
    chosen = _chosen(column, _keys(records), path)
    return TextTable([record.get(chosen) for record in records], records)


def _keys(records: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(key) for record in records for key in record))


def _records_table(records: list[dict[str, Any]]) -> Any:
    pa = require_pyarrow("Parquet files")
    try:
        return pa.table({name: [record.get(name) for record in records] for name in _keys(records)})
    except pa.ArrowException as error:
        raise ValueError(
            f"Got dicts that make no table ({error}). Write the vectors alone: -o NAME.npy."
        ) from None


def _read_csv(path: Path, column: str | None) -> Any:
    pa = require_pyarrow()
    from pyarrow import csv

    try:
        return csv.read_csv(
            path,
            # Texts may hold line breaks, which the parallel reader would take for the end of a row.
            parse_options=csv.ParseOptions(
                delimiter="\t" if path.suffix.lower() == ".tsv" else ",", newlines_in_values=True
            ),
            # A text may be "1984": it stays text.
            convert_options=csv.ConvertOptions(
                column_types={column: pa.string()} if column else None
            ),
        )
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error, "CSV") from None


def _read_parquet(path: Path) -> Any:
    pa = require_pyarrow()
    from pyarrow import parquet

    try:
        return parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None
