"""The result file: nothing is lost, nothing is mixed, one writer at a time."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import numpy as np
import pytest

from unspot.io.journal import Journal, read_journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "results.jsonl"


def write(path, *keys, resume=False, settings=None):
    with Journal(path, settings or {"metrics": ["a"]}, resume=resume) as journal:
        for key in keys:
            journal.append({"key": key, "value": len(key)})
        return dict(journal.records)


def test_results_are_read_back(path):
    write(path, "x", "yy")
    settings, records = read_journal(path)
    assert settings == {"metrics": ["a"]}
    assert records == {"x": {"key": "x", "value": 1}, "yy": {"key": "yy", "value": 2}}


def test_resume_adds(path):
    write(path, "x")
    assert set(write(path, "yy", resume=True)) == {"x", "yy"}


def test_each_result_is_on_disk_at_once(path):
    with Journal(path, {}) as journal:
        journal.append({"key": "x"})
        assert set(read_journal(path)[1]) == {"x"}


def test_the_later_of_one_key_counts(path):
    with Journal(path, {}) as journal:
        journal.append({"key": "x", "value": 1})
        journal.append({"key": "x", "value": 2})
    assert read_journal(path)[1]["x"]["value"] == 2


def test_results_without_resume_are_not_added_to(path):
    write(path, "x")
    with pytest.raises(ValueError, match=r"holds 1 results already.*resume=True"):
        write(path, "y")


def test_an_unused_file_needs_no_resume(path):
    write(path)
    assert set(write(path, "x")) == {"x"}


@pytest.mark.parametrize("cut", range(1, 30))
def test_truncated_last_line_is_taken_off(path, cut, caplog):
    write(path, "x", "yy")
    content = path.read_bytes()
    last = len(content) - content[:-1].rfind(b"\n") - 1
    path.write_bytes(content[: len(content) - min(cut, last - 1)])
    with caplog.at_level(logging.WARNING):
        assert set(write(path, resume=True)) == {"x"}
    assert "ends in the middle of a line" in caplog.text
    assert set(write(path, "zzz", resume=True)) == {"x", "zzz"}


def test_truncated_header_is_no_results(path):
    write(path, "x")
    path.write_bytes(path.read_bytes()[:10])
    assert set(write(path, "y")) == {"y"}


def test_a_reader_does_not_mind_a_truncated_line(path):
    write(path, "x", "yy")
    path.write_bytes(path.read_bytes()[:-3])
    assert set(read_journal(path)[1]) == {"x"}


def test_other_settings_are_refused_with_the_difference(path):
    write(path, "x")
    message = r'other settings \(metrics was \["a"\] and is \["b"\]\). Use another file'
    with pytest.raises(ValueError, match=message):
        write(path, "y", resume=True, settings={"metrics": ["b"]})


def test_a_damaged_line_is_named(path):
    write(path, "x", "yy")
    lines = path.read_text().splitlines()
    lines[1] = lines[1][:5]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match="line 2 that is not JSON"):
        write(path, resume=True)


@pytest.mark.parametrize("content", ['{"a": 1}\n', "[1, 2]\n", "id,gender\n1,f\n"])
def test_another_kind_of_file_is_refused(path, content):
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(ValueError, match="does not begin as results"):
        write(path, resume=True)
    assert path.read_text() == content


def test_no_file_and_an_empty_one(path):
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        read_journal(path)
    path.parent.mkdir()
    path.touch()
    with pytest.raises(ValueError, match="which is empty"):
        read_journal(path)


def test_one_writer(path):
    with (
        Journal(path, {}),
        pytest.raises(ValueError, match="another process is writing right now"),
    ):
        Journal(path, {}, resume=True)
    Journal(path, {}).__exit__(None, None, None)


def test_one_writer_among_processes(path):
    code = (
        "import sys; from unspot.io.journal import Journal; Journal(sys.argv[1], {}, resume=True)"
    )
    with Journal(path, {}):
        found = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
        )
    assert "another process is writing right now" in found.stderr
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0


def test_values_are_plain_json(path):
    with Journal(path, {"rows": np.int64(3)}) as journal:
        record = {"key": "x", "a": np.float32(0.5), "b": float("nan"), "c": (np.True_, "é")}
        journal.append(record)
        assert journal.records["x"] == {"key": "x", "a": 0.5, "b": None, "c": [True, "é"]}
    assert json.loads(path.read_text().splitlines()[1])["b"] is None


def test_names_of_files_that_are_not_utf8(path):
    name = b"caf\xe9.npy".decode("utf-8", "surrogateescape")
    write(path, name)
    assert set(read_journal(path)[1]) == {name}
