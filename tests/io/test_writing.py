"""Files appear whole or not at all."""

import errno
import gc
import hashlib
import os
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspot.io import files as writing
from unspot.io.files import Sink, finished_file, refuse_existing, write_atomically


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "new" / "folder" / "out.bin"
    with finished_file(path) as sink:
        sink.write(b"abc")
        sink.write(np.arange(3, dtype=np.uint8))
        assert sink.tell() == 6
        assert not path.exists()
    assert path.read_bytes() == b"abc\x00\x01\x02"
    assert os.listdir(path.parent) == ["out.bin"]


def _write(path, content=b"new", error=None):
    with finished_file(path) as sink:
        sink.write(content)
        if error is not None:
            raise error


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        _write(path, error=KeyboardInterrupt())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.bin"]


@pytest.mark.parametrize("write", [_write, write_atomically], ids=["streamed", "whole"])
def test_permissions_follow_the_umask_which_never_changes(tmp_path, monkeypatch, write):
    """A umask of 0, even for a moment, makes a new file of another thread writable by all."""
    masks, real = [], os.umask
    monkeypatch.setattr(os, "umask", lambda mask: masks.append(mask) or real(mask))
    write(tmp_path / "a", b"a")
    (tmp_path / "b").write_bytes(b"b")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode
    assert masks == []


def test_a_whole_file_replaces_the_old_one_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "new" / "out.bin"
    for content in (b"old", b"new", b""):
        write_atomically(path, content)
        assert path.read_bytes() == content
        assert os.listdir(path.parent) == ["out.bin"]


def test_of_two_writers_of_whole_files_the_last_one_wins(tmp_path):
    path = tmp_path / "out.bin"
    contents = [bytes([i]) * 100_000 for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: write_atomically(path, content), contents * 5))
    assert path.read_bytes() in contents
    assert os.listdir(tmp_path) == ["out.bin"]


@pytest.mark.parametrize("pieces", [[b""], [b"a", b"bc"], [bytes(3 << 20), b"x" * (2 << 20)]])
def test_the_hash_is_that_of_the_file(tmp_path, pieces):
    path = tmp_path / "out.bin"
    with finished_file(path, hashed=True) as sink:
        for piece in pieces:
            sink.write(piece)
        found = sink.sha256
    assert found == hashlib.sha256(path.read_bytes()).hexdigest()


def test_buffers_that_are_used_again_are_hashed_as_they_were_written(tmp_path):
    buffer = bytearray(1 << 22)
    with finished_file(tmp_path / "out.bin", hashed=True) as sink:
        for value in range(8):
            buffer[:] = bytes([value]) * len(buffer)
            sink.write(buffer)
        found = sink.sha256
    assert found == hashlib.sha256((tmp_path / "out.bin").read_bytes()).hexdigest()


def test_a_sink_is_written_from_start_to_end(tmp_path):
    with finished_file(tmp_path / "out.bin") as sink:
        assert sink.writable()
        assert not sink.seekable()
        sink.write(np.zeros((0, 3)))
        assert sink.tell() == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(tmp_path, monkeypatch, code):
    def full(self, data):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Sink, "write", full)
    for write in (_write, write_atomically):
        with pytest.raises(OSError, match=r"No space left on the disk while writing '.*out\.bin'"):
            write(tmp_path / "out.bin", b"new")
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_larger_than_the_limit_is_named(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match=r"not allowed .* while writing '.*out\.bin'"):
            write_atomically(tmp_path / "out.bin", bytes(8192))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == []


def test_other_errors_of_the_system_are_not_called_a_full_disk(tmp_path, monkeypatch):
    def broken(self, data):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Sink, "write", broken)
    with pytest.raises(OSError, match="Input/output error"):
        _write(tmp_path / "out.bin")


def test_what_exists_is_not_replaced(tmp_path):
    path = tmp_path / "out.bin"
    refuse_existing(path, force=False)
    path.write_bytes(b"old")
    refuse_existing(path, force=True)
    with pytest.raises(
        ValueError, match=r"exists already. Choose another name, or replace it with"
    ):
        refuse_existing(path, force=False)
    with pytest.raises(ValueError, match="is a folder, but expected a file's name"):
        refuse_existing(tmp_path, force=True)


def test_nothing_is_written_after_the_end(tmp_path):
    with finished_file(tmp_path / "out.bin", hashed=True) as sink:
        sink.write(b"abc")
    with pytest.raises(ValueError, match="Got data for a file that is closed"):
        sink.write(b"late")
    assert (tmp_path / "out.bin").read_bytes() == b"abc"


def test_what_comes_after_an_error_goes_nowhere(tmp_path):
    with suppress(RuntimeError), finished_file(tmp_path / "out.bin") as sink:
        sink.write(b"abc")
        raise RuntimeError
    assert sink.write(b"late") == 4
    assert list(tmp_path.iterdir()) == []


def test_a_writer_of_arrow_that_is_collected_after_an_error_is_quiet(tmp_path, monkeypatch):
    """Arrow formats the errors of a file, in the midst of whatever runs when it is collected."""
    table, formatted = pa.table({"a": [1, 2]}), []
    with suppress(RuntimeError), finished_file(tmp_path / "out.parquet") as sink:
        writer = pq.ParquetWriter(sink, table.schema)
        writer.write_table(table)
        raise RuntimeError
    monkeypatch.setattr(traceback, "format_exception", lambda *args: formatted.append(args) or [])
    del writer
    gc.collect()
    assert formatted == []


def test_writing_back_early_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_WRITE_BACK", 10)
    pieces = [bytes([i]) * (i * 3) for i in range(20)]
    with finished_file(tmp_path / "out.bin", hashed=True) as sink:
        for piece in pieces:
            sink.write(piece)
        assert sink.tell() == sum(map(len, pieces))
    assert (tmp_path / "out.bin").read_bytes() == b"".join(pieces)


@pytest.mark.parametrize("first_to_end", ["old", "new"])
def test_two_writers_of_one_file(tmp_path, first_to_end):
    """A run that was given up may still write on a cluster when the next one begins."""
    path = tmp_path / "out.bin"
    old, new = finished_file(path), finished_file(path)
    old.__enter__().write(b"old and longer")
    new.__enter__().write(b"new")
    if first_to_end == "new":
        new.__exit__(None, None, None)
    with pytest.raises(OSError, match=r"out\.bin', which another process writes too"):
        old.__exit__(None, None, None)
    if first_to_end == "old":
        assert not path.exists()
        new.__exit__(None, None, None)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out.bin"]


def test_who_reads_what_another_process_writes_learns_of_it(tmp_path):
    """As one that counts the rows of what it wrote, and finds the begin of another file."""
    path = tmp_path / "out.bin"
    old, new = finished_file(path), finished_file(path)
    old.__enter__().write(b"old")
    new.__enter__().write(b"new")
    error = ValueError("'.out.bin.unspot-tmp' cannot be read")
    with pytest.raises(OSError, match=r"out\.bin', which another process writes too"):
        old.__exit__(ValueError, error, None)
    new.__exit__(None, None, None)
    assert path.read_bytes() == b"new"
