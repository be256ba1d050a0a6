"""Headers of numpy's files are read in any company."""

import ast
import gc
import io
import zipfile

import numpy as np
import pytest

from unspot.io.files import PARSER_TRIES, parsed, read_npy, read_npz

X = np.arange(12.0).reshape(6, 2)


class _ParsesWhenCollected:
    """Garbage whose end uses Python's parser, as that of a writer does which formats its error."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        ast.parse("a + (b + c)")


@pytest.fixture
def garbage():
    """Leaves garbage behind that is collected when so many more objects are made."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()  # what other tests left costs time at every collection

    def leave(objects):
        gc.set_threshold(*before)
        gc.collect()
        _ParsesWhenCollected()
        gc.set_threshold(objects, 1, 1)

    yield leave
    gc.set_threshold(*before)
    gc.collect()  # the last garbage: else it would end while pytest parses
    gc.unfreeze()


def _rows_of_npz(path):
    return len(read_npz(path, ["X"])["X"])


@pytest.mark.parametrize(
    ("read", "ending"),
    [(lambda path: len(read_npy(path)), "npy"), (_rows_of_npz, "npz")],
    ids=["mapped", "archive"],
)
def test_headers_are_read_while_a_finaliser_parses(tmp_path, garbage, read, ending):
    """CPython's parser failed at that up to 3.11.7 (python/cpython#106905)."""
    path = tmp_path / f"x.{ending}"
    np.save(path, X) if ending == "npy" else np.savez(path, X=X)
    for objects in range(1, 100):
        garbage(objects)
        assert read(path) == 6


def test_an_error_of_the_parser_that_stays_is_raised():
    tries = []

    def read():
        tries.append(None)
        raise SystemError("AST constructor recursion depth mismatch")

    with pytest.raises(SystemError, match="recursion depth mismatch"):
        parsed(read)
    assert len(tries) == PARSER_TRIES


@pytest.mark.filterwarnings("ignore:overflow|invalid value:RuntimeWarning")
@pytest.mark.parametrize("shape", [(2**40, 10), (10**30, 2), (-3, -4), (2**62, 2**62)])
def test_a_header_that_claims_too_much_is_an_error_with_the_file(tmp_path, shape):
    header = io.BytesIO()
    facts = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, facts)
    (tmp_path / "a.npy").write_bytes(header.getvalue() + bytes(80))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.write(tmp_path / "a.npy", "X.npy")
    with pytest.raises(ValueError, match=r"a\.npy"):
        read_npy(tmp_path / "a.npy")
    with pytest.raises(ValueError, match=r"'X' of .*a\.npz"):
        read_npz(tmp_path / "a.npz", ["X"])
