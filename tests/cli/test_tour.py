"""The parts of the demo, on data small enough to check by hand."""

from contextlib import contextmanager

import numpy as np
import pytest

from unspot import Dataset, load
from unspot.cli.tour import _Remembering, nearest_words, run_demo, vocabulary
from unspot.data.dataset import Lexicon


class Identity:
    def transform(self, X):
        return X


class Drop:
    """Sets the first coordinate to zero."""

    def transform(self, X):
        return X * [0.0, 1.0, 1.0]


@pytest.fixture
def words():
    """A man, a woman, a doctor and a nurse: gender is the first coordinate, medicine the third."""
    X = np.array([[5.0, 1, 0], [-5, 1, 0], [4, 0, 2], [-4, 0, 2]] * 5)
    names = np.array(["man", "woman", "doctor", "nurse"] + [f"w{i}" for i in range(16)])
    X[4:] = np.random.default_rng(0).normal(size=(16, 3)) * 1e-3 + [0, -1, 0]
    z = np.arange(20) % 2
    lexicon = Lexicon(np.array(["nurse", "tea"]), np.array([[9.0, 9, 9], [0, 5, -5]]))
    data = Dataset.from_arrays(X, z, names=names, random_state=0)
    return Dataset(data.train, data.validation, data.test, lexicon=lexicon)


def test_vocabulary_has_every_word_once_and_rows_before_the_lexicon(words):
    known, X = vocabulary(words)
    assert len(known) == len(set(known)) == 21
    assert X[list(known).index("nurse")].tolist() == [-4, 0, 2]


def test_neighbours_before_and_after(words):
    (found,) = nearest_words(Drop(), words, ["doctor", "absent"], k=1)
    assert (found.word, found.before, found.after) == ("doctor", ("man",), ("nurse",))


def test_a_word_is_not_its_own_neighbour(words):
    for found in nearest_words(Identity(), words, ["man", "tea"], k=5):
        assert found.word not in found.before
        assert len(found.before) == 5
        assert found.before == found.after


def test_original_rows_are_measured_once(words):
    calls = []

    def measure(data):
        calls.append(data)
        return len(calls)

    memory = {}
    first, second = (_Remembering(words, object(), memory=memory) for _ in range(2))
    assert first.on_both(measure) == (1, 2)
    assert second.on_both(measure) == (1, 3)
    assert calls == [words, first.after, second.after]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    rng = np.random.default_rng(0)
    z = np.arange(1500) % 3
    X = rng.normal(size=(1500, 8)) + 3.0 * z[:, None] * np.eye(8)[0]
    X[:, 1] *= 1 + z
    names = np.array([f"word {i}" for i in range(1500)])
    data = Dataset.from_arrays(X.astype(np.float32), z, names=names, random_state=0)
    steps = []

    @contextmanager
    def step(name):
        steps.append(name)
        yield

    folder = tmp_path_factory.mktemp("demo")
    return run_demo(folder, data, rank=4, max_rows=500, seeds=1, step=step), steps


def test_says_what_it_does_step_by_step(demo):
    _, steps = demo
    assert steps[0] == "Fitting LEACE"
    assert steps[-1] == "Writing the report"
    assert len(steps) == 3 + 3 + 4 + 1 + 1


def test_files_hold_the_chosen_eraser_and_what_it_makes_of_all_rows(demo):
    found, _ = demo
    page, eraser, vectors = found.files
    with np.load(vectors, allow_pickle=False) as arrays:
        known, X = vocabulary(found.data)
        assert arrays["words"].tolist() == known.tolist()
        np.testing.assert_allclose(arrays["X"], load(eraser)(X), atol=1e-5)
    assert load(eraser).rank == 4
    assert "Cascade" in page.read_text(encoding="utf-8")


def test_erasure_shows_in_the_numbers(demo):
    found, _ = demo
    attack = next(m for m in found.contents.measures if m.key == "attack")
    leace, _, cascade = (number.value for number in attack.after)
    assert attack.before.value > 0.8 > leace > cascade
    assert cascade < 0.45
    assert found.contents.columns == ("LEACE", "LEOPARD", "Cascade")
