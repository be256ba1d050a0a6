"""Many files into a folder: atomic, continued after a kill, and the folder of others is refused."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspot import Eraser
from unspot.io.files import TEMPORARY
from unspot.scale import Erasure, transform_files
from unspot.scale import transform as bulk
from unspot.scale.transform import JOB as JOB_FILE

D, R, PARTS, ROWS = 4, 2, 6, 30
RNG = np.random.default_rng(0)
ERASER = Eraser.projection(np.linalg.qr(RNG.normal(size=(D, R)))[0])
JOB = Erasure(ERASER)


@pytest.fixture
def big(tmp_path):
    folder = tmp_path / "big"
    (folder / "deep").mkdir(parents=True)
    for i in range(PARTS):
        X = np.random.default_rng(i).normal(size=(ROWS, D))
        if i % 2:
            np.save(folder / f"part-{i}.npy", X)
        else:
            table = pa.table({"id": range(ROWS), "emb": list(X)})
            pq.write_table(table, folder / "deep" / f"part-{i}.parquet")
    (folder / "_SUCCESS").write_text("")
    (folder / "notes.md").write_text("no part")
    return folder


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != JOB_FILE
    }


@pytest.mark.parametrize("workers", [1, 3])
def test_a_folder_becomes_a_folder(tmp_path, big, workers):
    result = transform_files(JOB, [big], tmp_path / "clean", workers=workers)
    assert result.rows == PARTS * ROWS
    assert len(result.done) == PARTS
    assert (result.kept, result.skipped) == ((), {})
    assert set(contents(tmp_path / "clean")) == set(result.done)
    X = np.load(big / "part-1.npy")
    np.testing.assert_allclose(np.load(tmp_path / "clean" / "part-1.npy"), ERASER(X))
    table = pq.read_table(tmp_path / "clean" / "deep" / "part-0.parquet")
    assert table["id"].to_pylist() == list(range(ROWS))


def test_a_second_run_does_nothing_and_a_third_what_changed(tmp_path, big):
    clean = tmp_path / "clean"
    transform_files(JOB, [big], clean)
    before = {path: path.stat().st_ino for path in clean.rglob("part-*")}
    again = transform_files(JOB, [big], clean)
    assert (again.done, len(again.kept)) == ((), PARTS)
    assert {path: path.stat().st_ino for path in clean.rglob("part-*")} == before
    np.save(big / "part-1.npy", np.ones((3, D)))
    np.save(big / "part-9.npy", np.ones((2, D)))
    later = time.time_ns() + 10**9
    os.utime(big / "part-1.npy", ns=(later, later))
    third = transform_files(JOB, [big], clean)
    assert third.done == ("part-1.npy", "part-9.npy")
    assert len(np.load(clean / "part-1.npy")) == 3


def test_what_others_left_unfinished_and_what_lies_in_the_output_is_no_input(tmp_path, big):
    for name in ("_temporary", ".hidden"):
        (big / name).mkdir()
        (big / name / "part.npy").write_bytes(b"half")
    assert len(transform_files(JOB, [big], big / "clean").done) == PARTS
    assert transform_files(JOB, [big], big / "clean").done == ()


def test_a_failed_run_goes_on(tmp_path, big, monkeypatch):
    """Parts that an earlier run finished are not written again, and the end is the same."""
    clean, real = tmp_path / "clean", bulk._erase_file

    def failing(erasure, source, target, advance):
        if source.name == "part-5.npy":
            raise OSError("the cable")
        return real(erasure, source, target, advance)

    monkeypatch.setattr(bulk, "_erase_file", failing)
    with pytest.raises(OSError, match="the cable"):
        transform_files(JOB, [big], clean, workers=1, skip_bad=True)
    monkeypatch.undo()
    finished = set(contents(clean))
    assert "part-5.npy" not in finished
    (clean / f".part-5.npy.1-2{TEMPORARY}").write_bytes(b"half")
    result = transform_files(JOB, [big], clean)
    assert set(result.kept) == finished
    transform_files(JOB, [big], tmp_path / "fresh")
    assert contents(clean) == contents(tmp_path / "fresh")


@pytest.mark.slow
def test_kill_and_run_again(tmp_path):
    """After kill -9 in the middle, every part is whole or absent, and the end is the same."""
    big, clean = tmp_path / "big", tmp_path / "clean"
    big.mkdir()
    X = np.random.default_rng(0).normal(size=(5_000, 64)).astype(np.float32)
    for i in range(24):
        column = pa.FixedSizeListArray.from_arrays(pa.array((X + i).ravel()), 64)
        pq.write_table(pa.table({"emb": column}), big / f"part-{i:02}.parquet")
    eraser = Eraser.projection(np.eye(64)[:, :40])
    eraser.save(tmp_path / "e.safetensors")
    command = [sys.executable, "-m", "unspot", "transform", str(tmp_path / "e.safetensors")]
    running = subprocess.Popen([*command, str(big), "--workers", "2", "--quiet", "-o", str(clean)])
    deadline = time.monotonic() + 120
    while len(list(clean.glob("part-*"))) < 3:
        assert running.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert 1 <= len(list(clean.glob("part-*"))) < 24
    transform_files(Erasure(eraser), [big], clean)
    transform_files(Erasure(eraser), [big], tmp_path / "unbroken")
    assert contents(clean) == contents(tmp_path / "unbroken")


# -- what goes wrong -----------------------------------------------------------------------------


def _corrupt(big):
    path = big / "deep" / "part-2.parquet"
    path.write_bytes(b"PAR1" + path.read_bytes()[4:-30])
    return path


def test_a_corrupt_part_is_named_or_skipped(tmp_path, big):
    good, bad = (big / "deep" / "part-2.parquet").read_bytes(), _corrupt(big)
    clean = tmp_path / "clean"
    with pytest.raises(ValueError, match=r"Got '.*part-2\.parquet', which cannot be read as Parq"):
        transform_files(JOB, [big], clean)
    assert not (clean / "deep" / "part-2.parquet").exists()
    assert not list(clean.rglob(f"*{TEMPORARY}"))
    result = transform_files(JOB, [big], clean, skip_bad=True)
    assert list(result.skipped) == [str(bad)]
    bad.write_bytes(good)
    assert transform_files(JOB, [big], clean).done == ("deep/part-2.parquet",)


def test_skipping_everything_is_an_error(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="Got no file that could be erased"):
        transform_files(JOB, [tmp_path / "x.npy"], tmp_path / "clean", skip_bad=True)


@pytest.mark.parametrize(
    "other",
    [
        Erasure(Eraser.projection(np.eye(D)[:, :R])),
        Erasure(ERASER, "emb"),
        Erasure(ERASER, None, reduce=True),
    ],
    ids=["eraser", "columns", "reduce"],
)
def test_a_folder_of_another_job_is_refused(tmp_path, big, other):
    clean = tmp_path / "clean"
    transform_files(JOB, [big], clean)
    before = contents(clean)
    for force in (False, True):
        with pytest.raises(ValueError, match=r"does not belong to this job.*another eraser"):
            transform_files(other, [big], clean, force=force)
    assert contents(clean) == before


def test_force_erases_finished_parts_again(tmp_path, big):
    transform_files(JOB, [big], tmp_path / "clean")
    assert len(transform_files(JOB, [big], tmp_path / "clean", force=True).done) == PARTS


def test_a_folder_of_others_is_refused(tmp_path, big):
    clean = tmp_path / "clean"
    clean.mkdir()
    (clean / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match=r"not empty and .*not by .unspot transform"):
        transform_files(JOB, [big], clean)
    assert (clean / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_record_that_cannot_be_read_is_another_job(tmp_path, big, text):
    clean = tmp_path / "clean"
    transform_files(JOB, [big], clean)
    (clean / JOB_FILE).write_text(text)
    with pytest.raises(ValueError, match="does not belong to this job"):
        transform_files(JOB, [big], clean)


def test_other_inputs_of_the_same_names_are_refused(tmp_path, big):
    clean, other = tmp_path / "clean", tmp_path / "february"
    transform_files(JOB, [big], clean)
    big.rename(other)
    with pytest.raises(ValueError, match="written from other inputs"):
        transform_files(JOB, [other], clean)


def test_more_files_of_the_same_folder_are_the_same_job(tmp_path, big):
    transform_files(JOB, [big / "part-1.npy"], tmp_path / "clean")
    result = transform_files(JOB, [big / "part-1.npy", big / "part-3.npy"], tmp_path / "clean")
    assert (result.kept, result.done) == (("part-1.npy",), ("part-3.npy",))


def test_the_same_inputs_from_another_working_directory(tmp_path, big, monkeypatch):
    monkeypatch.chdir(tmp_path)
    transform_files(JOB, [big.relative_to(tmp_path)], tmp_path / "clean")
    assert transform_files(JOB, [big], tmp_path / "clean").done == ()


def test_the_same_eraser_from_another_file_is_the_same_job(tmp_path, big):
    transform_files(JOB, [big], tmp_path / "clean")
    same = Erasure(Eraser(ERASER.maps, {"concept_name": "other words"}))
    assert transform_files(same, [big], tmp_path / "clean").done == ()


def test_inputs_that_cannot_be(tmp_path, big):
    (big / "part-0.parquet").write_bytes((big / "deep" / "part-0.parquet").read_bytes())
    for inputs, folder, message in (
        ([big, big / "part-1.npy"], tmp_path / "clean", "Got two inputs for .*part-1"),
        ([big], big, "no file of format .* apart from the output folder"),
        ([big / "deep"], big, "no file of format .* apart from the output folder"),
        ([big / "part-1.npy"], big, "as input and output, but expected another folder"),
        ([big], big / "notes.md", "which is a file, but expected a folder"),
        ([], tmp_path / "clean", "Got no input"),
        ([tmp_path / "none"], tmp_path / "clean", "there is no such file or folder"),
        ([big / "notes.md"], tmp_path / "clean", "expected a file of format"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            transform_files(JOB, inputs, folder)
    os.symlink(big, tmp_path / "link")
    with pytest.raises(ValueError, match=r"no file of format .* apart from the output folder"):
        transform_files(JOB, [big], tmp_path / "link")
    with pytest.raises(ValueError, match="Got workers=0"):
        transform_files(JOB, [big], tmp_path / "clean", workers=0)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte, where one may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"there is no mount: {error}")
    if done.returncode:
        pytest.skip(f"a tmpfs may not be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_a_disk_that_is_full_keeps_what_is_finished(tmp_path, small_disk, kind):
    parts = tmp_path / "parts"
    parts.mkdir()
    X = np.random.default_rng(0).normal(size=(15_000, D))  # 480 kB a part
    for i in range(4):
        if kind == "npy":
            np.save(parts / f"{i}.npy", X)
        else:
            pq.write_table(pa.table({"emb": list(X)}), parts / f"{i}.parquet")
    clean = small_disk / "clean"
    with pytest.raises(OSError, match="No space left on the disk while writing"):
        transform_files(JOB, [parts], clean, workers=1, skip_bad=True)
    assert not list(clean.rglob(f"*{TEMPORARY}"))
    transform_files(JOB, [parts], tmp_path / "fresh")
    fresh = contents(tmp_path / "fresh")
    assert 1 <= len(contents(clean)) < 4
    assert all(fresh[name] == content for name, content in contents(clean).items())
