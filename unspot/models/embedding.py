"""Texts to vectors, by a language model from a folder or the Hugging Face hub (extra ``text``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_count, require
from unspot.io.progress import phase

__all__ = ["embed_texts"]

#: How many tokens of a text are read if neither the tokenizer nor the model sets a limit.
_MAX_LENGTH = 512


def embed_texts(
    texts: Any,
    model: str | os.PathLike[str],
    *,
    pooling: str | None = None,
    batch_size: int = 32,
    max_length: int | None = None,
    device: str | None = None,
    verbose: bool = False,
) -> NDArray[np.float32]:
    """Embed texts by a frozen language model.

    Texts of similar length share a batch, so that little padding is computed; the vectors come
    back in the order of the texts. Memory: the model, one batch and the result. ``batch_size``
    changes the vectors only by rounding.

    Parameters
    ----------
    texts : sequence of str
        None may be missing or blank.
    model : str or path
        A folder with a model and its tokenizer (then nothing is fetched), or a name on the hub such
        as "bert-base-uncased".
    pooling : {"cls", "mean", "model"}, optional
        How the last hidden states become one vector: the state of the [CLS] token, the paper's
        choice, or the mean over the text's tokens. "model": by all modules of a model of
        sentence-transformers, as its ``encode`` does (extra ``models``). By default "model" for
        folders of such models, so that none of their modules is left out, and else "cls".
    batch_size : int
        The number of texts in one pass through the model.
    max_length : int, optional
        The number of tokens that are read of a text; by default as many as the model can.
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
    if pooling is None:
        pooling = "model" if (Path(model) / "modules.json").is_file() else "cls"
    check_choice("pooling", pooling, ("cls", "mean", "model"))
    check_count("batch_size", batch_size)
    kind = _WholeModel if pooling == "model" else _Encoder
    encoder = kind(model, pooling, max_length, device)
    # Longest first: if a batch does not fit in memory, it fails at once.
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    vectors = []
    with phase("Embedding", len(texts), unit="texts", verbose=verbose) as here:
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            vectors.append(encoder([texts[i] for i in batch]))
            here.advance(len(batch))
    X = np.concatenate(vectors)[np.argsort(order)]
    finite = np.isfinite(X).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"Got a vector that is not finite from {str(model)!r} for the text in row "
            f"{int(np.argmin(finite))}, but expected numbers. Are the model's weights complete?"
        )
    return X


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
        self._tokenizer.padding_side = "right"  # or the first token of a short text is padding
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        if pooling == "cls" and self._tokenizer.cls_token is None:
            raise ValueError(
                f"Got pooling='cls', but the model {str(name)!r} has no [CLS] token. Use "
                "pooling='mean'."
            )

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        import torch

        tokens = self._tokenizer(
            texts, padding=True, truncation=True, max_length=self._max_length, return_tensors="pt"
        ).to(self._device)
        with torch.inference_mode():
            states = self._model(**tokens).last_hidden_state  # (b, length, d)
            if self._pooling == "cls":
                pooled = states[:, 0]
            else:
                mask = tokens["attention_mask"].unsqueeze(-1)  # 0 where there is padding
                pooled = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        return np.asarray(pooled.cpu())


class _WholeModel:
    """All modules of a sentence-transformers model: a batch of texts → (b, d)."""

    def __init__(
        self,
        name: str | os.PathLike[str],
        _: str,
        max_length: int | None,
        device: str | None,
    ) -> None:
        require("pooling='model'", "models", "sentence_transformers")
        import transformers
        from sentence_transformers import SentenceTransformer

        local = _is_folder(name)
        try:
            with _quiet(transformers):
                self._model = SentenceTransformer(
                    str(name), device=device or None, local_files_only=local
                )
        except (OSError, ValueError, KeyError, RuntimeError, AssertionError) as error:
            raise ValueError(
                f"Got {str(name)!r}, which sentence-transformers cannot load "
                f"({_first_line(error)}). Expected what SentenceTransformer.save_pretrained "
                "writes; models with modules that are not the library's own are loaded in Python "
                "only."
            ) from None
        if max_length is not None:
            self._model.max_seq_length = max_length

    def __call__(self, texts: list[str]) -> NDArray[np.float32]:
        vectors = self._model.encode(texts, batch_size=len(texts), show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)


def _length(max_length: int | None, tokenizer: Any, model: Any) -> int:
    """How many tokens are read: as many as asked for, or as many as the model can."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    # A tokenizer without a limit has a huge number instead.
    limits = [int(limit) for limit in limits if limit is not None and 0 < limit < 10**9]
    if max_length is None:
        return min(limits, default=_MAX_LENGTH)
    most = min(limits, default=max_length)
    if not 3 <= max_length <= most:
        raise ValueError(
            f"Got max_length={max_length}, but expected 3 to {most} tokens, which is what the "
            "model can read."
        )
    return max_length


def _pretrained(name: str | os.PathLike[str]) -> tuple[Any, Any]:
    """Tokenizer and model, or an error that says what a model folder is."""
    require("Embedding texts", "text", "transformers")
    import transformers

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
    # A name on the hub is a word, or two with a slash between; anything else is meant as a path.
    if isinstance(name, os.PathLike) or text.startswith((".", "/", "~")) or text.count("/") > 1:
        raise FileNotFoundError(f"Got model {text!r}, but there is no such folder.")
    return False


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without the loader's progress bars, and its remarks on layers that are not used here."""
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


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else repr(error)
