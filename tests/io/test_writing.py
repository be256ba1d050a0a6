"""Files appear whole or not at all."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from unspot.io.files import finished_file, refuse_existing, write_atomically


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "new" / "folder" / "out.bin"
    with finished_file(path) as unfinished:
        unfinished.write_bytes(b"abc")
        assert not path.exists()
    assert path.read_bytes() == b"abc"
    assert os.listdir(path.parent) == ["out.bin"]


def _write(path, content=b"new", error=None):
    with finished_file(path) as unfinished:
        unfinished.write_bytes(content)
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


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(tmp_path, monkeypatch, code):
    def full(self, data):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "write_bytes", full)
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

    monkeypatch.setattr(Path, "write_bytes", broken)
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


def test_two_writers_of_one_file(tmp_path):
    """The last one to end wins, with a whole file."""
    path = tmp_path / "out.bin"
    with finished_file(path) as first, ThreadPoolExecutor(1) as pool:
        first.write_bytes(b"first and longer")
        pool.submit(write_atomically, path, b"second").result()
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first and longer"
    assert os.listdir(tmp_path) == ["out.bin"]
