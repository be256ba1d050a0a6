"""A lock is of one process, and ends with the file."""

import sys

from unspot.io.files import try_lock


def test_only_one_has_the_lock(tmp_path):
    path = tmp_path / "results"
    path.write_text("")
    with path.open("rb") as first, path.open("rb") as second:
        assert try_lock(first)
        assert not try_lock(second)
        first.close()
        assert try_lock(second)


def test_a_system_without_locks(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with (tmp_path / "results").open("wb") as first, (tmp_path / "results").open("rb") as second:
        assert try_lock(first)
        assert try_lock(second)
