"""Pickles of plain data are read; any other is refused before it runs."""

from __future__ import annotations

import datetime
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from unspot.lab.plain_pickle import read_plain_pickle


class Malicious:
    """On loading, a file appears."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def written(folder, value, protocol=pickle.HIGHEST_PROTOCOL):
    path = folder / "rows.pickle"
    path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_containers_come_back(tmp_path, protocol):
    value = [
        {"g": "f", "p": "nurse", "start": 3, "text": "Ünï ☃", "none": None, "w": [1.5, True]},
        (1, (2, {3, 4}), frozenset([5])),
        b"raw",
        b"",
        bytearray(b"x"),
        2j,
        10**30,
    ]
    assert read_plain_pickle(written(tmp_path, value, protocol)) == value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.arange(6, dtype=">i4").reshape(2, 3)[:, 1:],
        np.array(["a", "bé"]),
        np.array([b"a", b"bc"]),
        np.array([True, False]),
        np.array(3.5),
        np.zeros((0, 4)),
        np.array([["a", None], [1, 2.5]], dtype=object),
    ],
    ids=str,
)
def test_arrays_come_back_and_can_be_written(tmp_path, protocol, array):
    value = {"rows": [array, (array,)], "again": array}
    read = read_plain_pickle(written(tmp_path, value, protocol))
    for back in (read["rows"][0], read["rows"][1][0], read["again"]):
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)
        back[...] = back


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_numpy_numbers_come_back(tmp_path, protocol):
    value = [np.float32(1.5), np.int64(-3), np.bool_(True), np.str_("é")]
    read = read_plain_pickle(written(tmp_path, value, protocol))
    assert read == value
    assert [type(v) for v in read] == [type(v) for v in value]


def test_arrays_in_object_arrays_come_back(tmp_path):
    outer = np.empty(2, dtype=object)
    outer[0], outer[1] = np.arange(2), np.arange(2) + 5
    other = np.empty(2, dtype=object)
    other[0], other[1] = [np.ones(1)], {"k": np.ones(1)}
    read, second = read_plain_pickle(written(tmp_path, [outer, other]))
    assert read.shape == (2,)
    assert read[1].tolist() == [5, 6]
    assert second[0][0].tolist() == second[1]["k"].tolist() == [1]


def test_a_list_that_holds_itself_is_read(tmp_path):
    loop = [np.arange(2)]
    loop.append(loop)
    read = read_plain_pickle(written(tmp_path, loop))
    assert read[1] is read
    assert read[0].tolist() == [0, 1]


def test_tuples_that_share_tuples_are_read_once(tmp_path):
    """Some hundred bytes, which would be 2⁴⁰ tuples if each were read where it is used."""
    value = (np.arange(2),)
    for _ in range(40):
        value = (value, value)
    read = read_plain_pickle(written(tmp_path, value))
    for _ in range(40):
        assert read[0] is read[1]
        read = read[0]
    assert read[0].tolist() == [0, 1]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_is_refused_and_does_not_run(tmp_path, protocol):
    trace = tmp_path / "it-ran"
    path = written(tmp_path, [{"g": "f"}, Malicious(trace)], protocol)
    with pytest.raises(ValueError, match=r"refused before anything in it was run"):
        read_plain_pickle(path)
    assert not trace.exists()
    pickle.loads(path.read_bytes())  # the test would be worth nothing if it did not run here
    assert trace.exists()


@pytest.mark.parametrize(
    ("program", "what"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
        (b"cbuiltins\neval\n(S'1'\ntR.", "builtins.eval"),
        (b"c__builtin__\ngetattr\n.", "__builtin__.getattr"),
        (b"cnumpy\nload\n.", "numpy.load"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0btest.tester\x93.", "numpy.test.tester"),
        (b"cnumpy.core.multiarray\nfrombuffer\n.", "numpy.core.multiarray.frombuffer"),
        (b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13tR.", "the codec 'rot13'"),
    ],
)
def test_what_a_pickle_asks_for_is_named(tmp_path, program, what):
    with pytest.raises(ValueError, match=f"asks for {what}, but expected plain lists"):
        read_plain_pickle(written(tmp_path, program))


@pytest.mark.parametrize(
    "value", [datetime.date(2020, 1, 1), np.zeros(2, [("a", "f4")]), np.array(["2020"], "M8[Y]")]
)
def test_other_types_are_refused(tmp_path, value):
    with pytest.raises(ValueError, match="but expected plain lists"):
        read_plain_pickle(written(tmp_path, [value]))


def forged_object_array(address: int) -> bytes:
    """A pickle of an array of objects whose content is an address in memory."""

    class Dtype:
        def __reduce__(self):
            return np.dtype, ("O8", False, True), (3, "|", None, None, None, -1, -1, 0)

    class Array:
        def __reduce__(self):
            make = np.zeros(1).__reduce__()[0]
            content = struct.pack("<q", address)
            return make, (np.ndarray, (0,), b"b"), (1, (1,), Dtype(), False, content)

    return pickle.dumps(Array())


def test_an_address_in_memory_is_never_followed(tmp_path):
    # numpy itself would take the eight bytes for a Python object, and crash or worse.
    with pytest.raises(ValueError, match="asks for objects at addresses in memory"):
        read_plain_pickle(written(tmp_path, forged_object_array(0x10)))


def test_a_number_made_of_an_address_is_refused(tmp_path):
    program = (
        b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(X\x02\x00\x00\x00O8I00\nI01\ntR"
        b"c_codecs\nencode\n(X\x08\x00\x00\x00aaaaaaaaX\x06\x00\x00\x00latin1tRtR."
    )
    with pytest.raises(ValueError, match="asks for objects at addresses in memory"):
        read_plain_pickle(written(tmp_path, program))


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps([1, 2])[:-3]])
def test_a_damaged_pickle_is_an_error_in_words(tmp_path, content):
    with pytest.raises(ValueError, match=r"cannot be read as a pickle .*Is the download complete"):
        read_plain_pickle(written(tmp_path, content))


def test_an_absent_file_is_said_to_be_absent(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_plain_pickle(tmp_path / "none.pickle")
