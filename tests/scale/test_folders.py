"""Many files into a folder: resumed, atomic, checked, and honest about what went wrong."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspot import Eraser
from unspot.io.files import TEMPORARY, Sink
from unspot.scale import Erasure, folders, transform_files
from unspot.scale import files as bulk_files
from unspot.scale.folders import JOURNAL, check_workers, read_records

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


def checksums(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("workers", [1, 3])
def test_a_folder_becomes_a_folder_with_a_manifest(tmp_path, big, workers):
    rows = []
    result = transform_files(JOB, [big], tmp_path / "clean", workers=workers, advance=rows.append)
    manifest = json.loads((tmp_path / "clean" / "manifest.json").read_text())
    assert manifest == result.manifest
    assert manifest["rows"] == sum(rows) == PARTS * ROWS
    assert manifest["skipped"] == []
    names = [part["output"] for part in manifest["parts"]]
    assert names == sorted(names)
    assert len(names) == PARTS
    found = checksums(tmp_path / "clean")
    assert {part["output"]: part["sha256"] for part in manifest["parts"]} | {
        "manifest.json": found["manifest.json"]
    } == found
    X = np.load(big / "part-3.npy")
    np.testing.assert_allclose(np.load(tmp_path / "clean" / "part-3.npy"), ERASER(X))


def test_any_number_of_workers_gives_the_same_bytes(tmp_path, big):
    for workers in (1, 2, 5):
        transform_files(JOB, [big], tmp_path / f"clean{workers}", workers=workers)
    assert checksums(tmp_path / "clean1") == checksums(tmp_path / "clean2")
    assert checksums(tmp_path / "clean1") == checksums(tmp_path / "clean5")


def test_a_second_run_does_nothing(tmp_path, big):
    clean = tmp_path / "clean"
    first = transform_files(JOB, [big], clean)
    before = {path: path.stat().st_mtime_ns for path in clean.rglob("part-*")}
    again = transform_files(JOB, [big], clean)
    assert again.done == ()
    assert set(again.kept) == set(first.done)
    assert again.manifest == first.manifest
    assert before == {path: path.stat().st_mtime_ns for path in clean.rglob("part-*")}


def test_only_what_changed_is_done_again(tmp_path, big):
    clean = tmp_path / "clean"
    transform_files(JOB, [big], clean)
    np.save(big / "part-1.npy", np.zeros((7, D)))  # another content
    (clean / "part-3.npy").unlink()  # lost
    (clean / "part-5.npy").write_bytes(b"cut")  # damaged
    todo = []
    result = transform_files(JOB, [big], clean, begin=todo.extend)
    assert sorted(part.output for part in todo) == sorted(result.done)
    assert sorted(result.done) == ["part-1.npy", "part-3.npy", "part-5.npy"]
    transform_files(JOB, [big], tmp_path / "fresh")
    assert checksums(clean) == checksums(tmp_path / "fresh")


@pytest.mark.parametrize("verify", [False, True])
def test_a_part_that_was_damaged_later_is_done_again(tmp_path, big, verify):
    clean, part = tmp_path / "clean", tmp_path / "clean" / "part-3.npy"
    transform_files(JOB, [big], clean)
    before, manifest = checksums(clean), (clean / "manifest.json").stat()
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    # A disk that forgets keeps the time; who writes changes it.
    time_ns = manifest.st_mtime_ns + (0 if verify else 10**9)
    os.utime(part, ns=(time_ns, time_ns))
    assert transform_files(JOB, [big], clean, verify=verify).done == ("part-3.npy",)
    assert checksums(clean) == before
    assert transform_files(JOB, [big], clean, verify=True).done == ()


def test_an_input_that_changed_under_the_same_size_and_time_is_read_again(tmp_path, big):
    clean, source = tmp_path / "clean", big / "part-3.npy"
    transform_files(JOB, [big], clean)
    time_ns = source.stat().st_mtime_ns
    np.save(source, np.ones((ROWS, D)))
    os.utime(source, ns=(time_ns, time_ns))
    assert transform_files(JOB, [big], clean).done == ("part-3.npy",)
    np.testing.assert_array_equal(np.load(clean / "part-3.npy"), ERASER(np.ones((ROWS, D))))


def test_a_part_whose_input_is_gone_is_listed_apart(tmp_path, big):
    clean = tmp_path / "clean"
    transform_files(JOB, [big], clean)
    lost = (big / "part-3.npy").read_bytes()
    (big / "part-3.npy").unlink()
    for _ in range(2):  # and not forgotten by the next run
        manifest = transform_files(JOB, [big], clean).manifest
        assert manifest["rows"] == (PARTS - 1) * ROWS
        assert [part["output"] for part in manifest["without_input"]] == ["part-3.npy"]
        assert "part-3.npy" not in [part["output"] for part in manifest["parts"]]
        assert (clean / "part-3.npy").exists()
    (big / "part-3.npy").write_bytes(lost)
    manifest = transform_files(JOB, [big], clean).manifest
    assert manifest["rows"] == PARTS * ROWS
    assert "without_input" not in manifest


def test_wide_rows_have_the_same_bytes_for_any_number_of_threads(tmp_path, monkeypatch):
    """The threads of a worker depend on how many parts are left."""
    rng = np.random.default_rng(0)
    (tmp_path / "wide").mkdir()
    for i in range(2):
        np.save(tmp_path / "wide" / f"{i}.npy", rng.normal(size=(2000, 150)))
    job = Erasure(Eraser.projection(np.linalg.qr(rng.normal(size=(150, 75)))[0]))
    found = []
    for cores in (1, 2, 4):
        monkeypatch.setattr(folders, "cores", lambda cores=cores: cores)
        transform_files(job, [tmp_path / "wide"], tmp_path / f"clean{cores}", workers=2)
        found.append(checksums(tmp_path / f"clean{cores}"))
    assert found[0] == found[1] == found[2]


def test_more_files_may_come_later(tmp_path, big):
    clean = tmp_path / "clean"
    transform_files(JOB, [big / "part-1.npy"], clean)
    result = transform_files(JOB, [big / "part-3.npy"], clean)
    assert [part["output"] for part in result.manifest["parts"]] == ["part-1.npy", "part-3.npy"]
    assert (result.done, result.kept) == (("part-3.npy",), ())


def test_what_lies_in_the_output_folder_is_no_input(tmp_path, big):
    transform_files(JOB, [big], big / "clean")
    again = transform_files(JOB, [big], big / "clean")
    assert len(again.kept) == PARTS
    assert again.done == ()


@contextmanager
def power_cut():
    """A run in it fails at the fourth part."""
    real = bulk_files._ERASE[".npy"]

    def breaking(source, *args):
        if source.name == "part-3.npy":
            raise RuntimeError("power cut")
        return real(source, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(bulk_files._ERASE, ".npy", breaking)
        yield


def test_a_broken_run_goes_on(tmp_path, big):
    """The fourth part fails once; the three before it are kept, and the end is the same."""
    clean = tmp_path / "clean"
    with power_cut(), pytest.raises(RuntimeError, match="power cut"):
        transform_files(JOB, [big], clean, workers=1)
    assert not (clean / "manifest.json").exists()
    assert not list(clean.rglob(f"*{TEMPORARY}"))
    finished = {path.name: path.stat().st_ino for path in clean.rglob("part-*")}
    assert finished
    result = transform_files(JOB, [big], clean)
    assert {name.split("/")[-1] for name in result.kept} == set(finished)
    after = {path.name: path.stat().st_ino for path in clean.rglob("part-*")}
    assert {name: after[name] for name in finished} == finished
    transform_files(JOB, [big], tmp_path / "unbroken")
    assert checksums(clean) == checksums(tmp_path / "unbroken")


def test_a_journal_that_was_cut_is_read_as_far_as_it_goes(tmp_path, big):
    clean = tmp_path / "clean"
    manifest = transform_files(JOB, [big], clean).manifest
    lines = [json.dumps({"job": manifest["job"]})]
    lines += [json.dumps(part) for part in manifest["parts"][:3]]
    (clean / "manifest.json").unlink()
    (clean / JOURNAL).write_text("\n".join(lines)[:-9])
    assert len(read_records(clean)[1]) == 2
    assert len(transform_files(JOB, [big], clean).done) == PARTS - 2


@pytest.mark.slow
def test_records_of_another_version_are_done_again(tmp_path, big):
    clean = tmp_path / "clean"
    transform_files(JOB, [big], clean)
    before = checksums(clean)
    manifest = json.loads((clean / "manifest.json").read_text())
    (clean / "manifest.json").unlink()
    lines = [{"job": manifest["job"]}, manifest["parts"][0], {"part": 1}, [1], 7]
    (clean / ".unspot-journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = transform_files(JOB, [big], clean)
    assert again.kept == (manifest["parts"][0]["output"],)
    assert checksums(clean) == before
    (clean / "manifest.json").write_text(json.dumps({"format": manifest["format"]}))
    with pytest.raises(ValueError, match="not empty and was not written by `unspot transform`"):
        transform_files(JOB, [big], clean)


def test_what_others_left_unfinished_is_no_input(tmp_path, big):
    for name in ("_temporary", ".hidden"):
        (big / name).mkdir()
        (big / name / "part.npy").write_bytes(b"half")
    result = transform_files(JOB, [big], tmp_path / "clean")
    assert not any("part.npy" in name for name in result.done)


def test_kill_and_run_again(tmp_path):
    """kill -9 in the middle: finished parts are not written again, and the end is the same."""
    big, clean = tmp_path / "big", tmp_path / "clean"
    big.mkdir()
    X = np.random.default_rng(0).normal(size=(5_000, 64)).astype(np.float32)
    for i in range(24):
        column = pa.FixedSizeListArray.from_arrays(pa.array((X + i).ravel()), 64)
        pq.write_table(pa.table({"emb": column}), big / f"part-{i:02}.parquet")
    Eraser.projection(np.eye(64)[:, :40]).save(tmp_path / "e.safetensors")
    command = [sys.executable, "-m", "unspot", "transform", str(tmp_path / "e.safetensors")]
    command += [str(big), "--workers", "2", "--quiet", "-o"]
    running = subprocess.Popen([*command, str(clean)])
    deadline = time.monotonic() + 120
    while len(list(clean.glob("part-*"))) < 3:
        assert running.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    running.send_signal(signal.SIGKILL)
    running.wait()
    finished = set(read_records(clean)[1])
    assert 1 <= len(finished) < 24  # it was killed in the middle
    before = {name: (clean / name).stat() for name in finished}
    subprocess.run([*command, str(clean)], check=True)
    subprocess.run([*command, str(tmp_path / "unbroken")], check=True)
    for name, old in before.items():
        new = (clean / name).stat()
        assert (new.st_ino, new.st_mtime_ns) == (old.st_ino, old.st_mtime_ns)
    assert checksums(clean) == checksums(tmp_path / "unbroken")


# -- what goes wrong -----------------------------------------------------------------------------


def _corrupt(big):
    path = big / "deep" / "part-2.parquet"
    path.write_bytes(b"PAR1" + path.read_bytes()[4:-30])
    return path


def test_a_corrupt_part_is_named_and_leaves_nothing_half_done(tmp_path, big):
    _corrupt(big)
    clean = tmp_path / "clean"
    with pytest.raises(ValueError, match=r"Got '.*part-2\.parquet', which cannot be read as Parq"):
        transform_files(JOB, [big], clean)
    assert not (clean / "manifest.json").exists()
    assert not (clean / "deep" / "part-2.parquet").exists()
    assert not list(clean.rglob(f"*{TEMPORARY}"))


def test_bad_parts_are_skipped_recorded_and_tried_again(tmp_path, big):
    good = (big / "deep" / "part-2.parquet").read_bytes()
    bad = _corrupt(big)
    np.save(big / "part-1.npy", np.zeros((5, D + 1)))
    result = transform_files(JOB, [big], tmp_path / "clean", skip_bad=True)
    skipped = {entry["input"]: entry["error"] for entry in result.manifest["skipped"]}
    assert set(skipped) == {str(bad), str(big / "part-1.npy")}
    assert "cannot be read as Parquet" in skipped[str(bad)]
    assert "Got vectors of length 5" in skipped[str(big / "part-1.npy")]
    assert len(result.done) == PARTS - 2
    bad.write_bytes(good)
    again = transform_files(JOB, [big], tmp_path / "clean", skip_bad=True)
    assert again.done == ("deep/part-2.parquet",)
    assert [entry["input"] for entry in again.manifest["skipped"]] == [str(big / "part-1.npy")]


def test_skipping_everything_is_an_error(tmp_path, big):
    with pytest.raises(ValueError, match=r"Got no file that could be erased\. The first: Got"):
        transform_files(Erasure(ERASER, "nope"), [big / "deep"], tmp_path / "c", skip_bad=True)


def test_a_folder_of_others_is_refused(tmp_path, big):
    clean = tmp_path / "clean"
    clean.mkdir()
    (clean / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="is not empty and was not written by `unspot transform`"):
        transform_files(JOB, [big], clean)
    transform_files(JOB, [big], clean, force=True)
    assert (clean / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize(
    "other",
    [
        Erasure(ERASER, reduce=True),
        Erasure(Eraser.projection(np.eye(D)[:, :3])),
        Erasure(ERASER, "emb"),
    ],
)
def test_a_folder_of_another_job_is_refused(tmp_path, big, other):
    clean = tmp_path / "clean"
    transform_files(JOB, [big], clean)
    with pytest.raises(ValueError, match="holds the output of another job"):
        transform_files(other, [big], clean)
    forced = transform_files(other, [big], clean, force=True)
    assert len(forced.done) == PARTS
    transform_files(other, [big], tmp_path / "fresh")
    assert checksums(clean) == checksums(tmp_path / "fresh")


OTHER = Erasure(Eraser.projection(np.linalg.qr(RNG.normal(size=(D, R)))[0]))


@pytest.mark.parametrize("job", [JOB, OTHER], ids=["the same job", "another job"])
def test_a_forced_run_that_is_broken_goes_on_without_force(tmp_path, big, job):
    """What the job before left there has the same names and sizes, and is not taken for its."""
    clean = tmp_path / "clean"
    transform_files(JOB, [big], clean)
    with power_cut(), pytest.raises(RuntimeError, match="power cut"):
        transform_files(job, [big], clean, workers=1, force=True)
    assert not (clean / "manifest.json").exists()
    finished = set(read_records(clean)[1])
    assert 0 < len(finished) < PARTS
    again = transform_files(job, [big], clean)
    assert set(again.kept) == finished
    assert len(again.done) == PARTS - len(finished)
    transform_files(job, [big], tmp_path / "fresh")
    assert checksums(clean) == checksums(tmp_path / "fresh")


def test_a_forced_run_leaves_no_parts_of_the_job_before(tmp_path, big):
    clean = tmp_path / "clean"
    transform_files(JOB, [big], clean)
    (clean / "thesis.tex").write_text("precious")
    (big / "part-5.npy").unlink()
    (big / "part-1.npy").write_bytes(b"corrupt")
    forced = transform_files(OTHER, [big], clean, force=True, skip_bad=True)
    assert len(forced.done) == PARTS - 2
    assert set(checksums(clean)) == {*forced.done, "manifest.json", "thesis.tex"}


def test_no_part_of_another_eraser_is_left_after_a_broken_run(tmp_path, big):
    clean = tmp_path / "clean"
    transform_files(JOB, [big], clean)
    with power_cut(), pytest.raises(RuntimeError, match="power cut"):
        transform_files(OTHER, [big], clean, workers=1, force=True)
    for name in ("part-3.npy", "part-5.npy"):  # the next run has fewer inputs
        (big / name).unlink()
    result = transform_files(OTHER, [big], clean)
    assert set(checksums(clean)) == {*result.done, *result.kept, "manifest.json"}
    transform_files(OTHER, [big], tmp_path / "fresh")
    assert checksums(clean) == checksums(tmp_path / "fresh")


def test_a_record_of_a_file_elsewhere_removes_nothing(tmp_path, big):
    """A manifest is a file that anybody can write."""
    clean, mine = tmp_path / "clean", tmp_path / "mine.npy"
    transform_files(JOB, [big / "part-1.npy"], clean)
    mine.write_bytes(b"precious")
    written = (clean / "manifest.json").read_text()
    (clean / "manifest.json").write_text(written.replace('"part-1.npy"', '"../mine.npy"'))
    transform_files(JOB, [big / "part-3.npy"], clean, force=True)
    assert mine.read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["manifest.json", JOURNAL])
@pytest.mark.parametrize("field", ["output", "input", "rows", "bytes", "sha256", "input_bytes"])
@pytest.mark.parametrize("value", [5, "x", None, [], {}, True])
def test_a_record_with_a_value_of_another_type_is_none(tmp_path, name, field, value):
    part = {"output": "a", "input": "a", "rows": 1, "bytes": 1, "sha256": ""}
    part |= {"input_bytes": 1, "input_mtime_ns": 1}
    edited = {**part, "output": "b", field: value}
    if name == JOURNAL:
        text = "".join(json.dumps(line) + "\n" for line in ({"job": {}}, part, edited))
    else:
        text = json.dumps({"format": "unspot-transform/1", "job": {}, "parts": [part, edited]})
    (tmp_path / name).write_text(text)
    found = read_records(tmp_path)[1]
    assert "a" in found
    assert {type(value) for done in found.values() for value in asdict(done).values()} == {str, int}


@pytest.mark.parametrize("name", ["manifest.json", JOURNAL])
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000 + "\n",
        '{"format": "unspot-transform/1", "job": {}, "parts": 5}\n',
        '{"format": "unspot-transform/1", "job": 5, "parts": []}\n',
    ],
)
def test_records_that_cannot_be_read_are_refused_in_a_sentence(tmp_path, big, name, text):
    clean = tmp_path / "clean"
    clean.mkdir()
    (clean / name).write_text(text)
    (clean / "mine.npy").write_bytes(b"precious")
    with pytest.raises(ValueError, match=r"output folder.*--force"):
        transform_files(JOB, [big], clean)


def test_a_skipped_part_leaves_nothing_of_an_earlier_run(tmp_path, big):
    clean = tmp_path / "clean"
    transform_files(JOB, [big], clean)
    (big / "part-1.npy").write_bytes(b"corrupt")
    result = transform_files(JOB, [big], clean, skip_bad=True)
    assert not (clean / "part-1.npy").exists()
    assert len(result.kept) == PARTS - 1


def test_other_inputs_of_the_same_names_are_refused(tmp_path, big):
    """Even if size and time agree, as of files that were unpacked."""
    clean, other = tmp_path / "clean", tmp_path / "other"
    other.mkdir()
    np.save(other / "part-1.npy", np.zeros((ROWS, D)))
    os.utime(other / "part-1.npy", ns=(0, (big / "part-1.npy").stat().st_mtime_ns))
    transform_files(JOB, [big], clean)
    before = checksums(clean)
    with pytest.raises(ValueError, match=r"other.part-1\.npy' for .* earlier run made from '.*big"):
        transform_files(JOB, [other], clean)
    assert checksums(clean) == before
    forced = transform_files(JOB, [other], clean, force=True)
    assert set(checksums(clean)) == {*forced.done, "manifest.json"}


@pytest.mark.parametrize("there", [".", "other", ".."])
def test_the_same_inputs_from_another_working_directory(tmp_path, big, monkeypatch, there):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    transform_files(JOB, [Path("../big")], tmp_path / "clean")
    monkeypatch.chdir(tmp_path / there)
    big_from_there = Path(os.path.relpath(big))
    assert len(transform_files(JOB, [big_from_there], tmp_path / "clean").kept) == PARTS
    assert len(transform_files(JOB, [big], tmp_path / "clean").kept) == PARTS


def test_the_same_eraser_from_another_file_is_the_same_job(tmp_path, big):
    transform_files(JOB, [big], tmp_path / "clean")
    renamed = Erasure(Eraser(ERASER.maps, {"method": "other words"}))
    assert transform_files(renamed, [big], tmp_path / "clean").done == ()


def test_two_inputs_of_one_name(tmp_path, big):
    other = tmp_path / "other"
    other.mkdir()
    np.save(other / "part-1.npy", np.zeros((2, D)))
    with pytest.raises(ValueError, match=r"Got two inputs for '.*part-1\.npy'"):
        transform_files(JOB, [big, other], tmp_path / "clean")
    assert not (tmp_path / "clean").exists()


def test_input_as_output(big):
    before = checksums(big)
    with pytest.raises(ValueError, match="as input and output, but expected another folder"):
        transform_files(JOB, [big / "part-1.npy"], big, force=True)
    for folder in (big, big.parent):
        with pytest.raises(ValueError, match="as output, but expected another folder for the out"):
            transform_files(JOB, [big], folder, force=True)
    assert checksums(big) == before


def test_a_file_where_a_folder_must_be(tmp_path, big):
    (tmp_path / "clean.npy").write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"clean\.npy', which is a file, but expected a folder"):
        transform_files(JOB, [big], tmp_path / "clean.npy", force=True)
    assert (tmp_path / "clean.npy").read_bytes() == b"mine"


def test_missing_and_empty_inputs(tmp_path, big):
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        transform_files(JOB, [big, tmp_path / "none.npy"], tmp_path / "clean")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"there is no file of format \.npy, \.npz"):
        transform_files(JOB, [tmp_path / "empty"], tmp_path / "clean")
    with pytest.raises(ValueError, match="Got no input"):
        transform_files(JOB, [], tmp_path / "clean")
    assert not (tmp_path / "clean").exists()


def test_workers(tmp_path, big):
    assert check_workers(8, 3) == 3
    assert 1 <= check_workers(None, 100) <= (os.cpu_count() or 1)
    with pytest.raises(ValueError, match="Got workers=0, but expected an integer of at least 1"):
        check_workers(0, 3)
    with pytest.raises(ValueError, match="Got workers=0, but expected an integer of at least 1"):
        transform_files(JOB, [big], tmp_path / "clean", workers=0)
    assert not (tmp_path / "clean").exists()


def test_two_jobs_in_one_folder(tmp_path, big):
    pytest.importorskip("fcntl")
    inside, go_on = threading.Event(), threading.Event()

    def wait(part):
        inside.set()
        go_on.wait(30)

    args = (JOB, [big], tmp_path / "clean")
    first = threading.Thread(target=transform_files, args=args, kwargs={"finished": wait})
    first.start()
    try:
        assert inside.wait(30)
        with pytest.raises(ValueError, match="in which another transform is at work"):
            transform_files(*args)
    finally:
        go_on.set()
        first.join()
    assert len(transform_files(*args).kept) == PARTS


def test_a_full_disk_keeps_what_is_finished(tmp_path, big, monkeypatch):
    clean, real = tmp_path / "clean", Sink.write
    budget = [2000]

    def limited(self, data):
        budget[0] -= len(memoryview(data).cast("B"))
        if budget[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, data)

    monkeypatch.setattr(Sink, "write", limited)
    message = "No space left on the disk while writing .*run the same command again"
    with pytest.raises(OSError, match=message):
        transform_files(JOB, [big], clean, workers=1, skip_bad=True)
    assert not (clean / "manifest.json").exists()
    assert not list(clean.rglob(f"*{TEMPORARY}"))
    finished = set(read_records(clean)[1])
    assert finished == {p.relative_to(clean).as_posix() for p in clean.rglob("part-*")}
    monkeypatch.setattr(Sink, "write", real)
    result = transform_files(JOB, [big], clean)
    assert set(result.kept) == finished
    transform_files(JOB, [big], tmp_path / "fresh")
    assert checksums(clean) == checksums(tmp_path / "fresh")


@pytest.mark.parametrize("when", ["at the first part", "at the manifest"])
def test_a_disk_that_is_full_for_the_journal_and_the_manifest(tmp_path, big, monkeypatch, when):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if when == "at the first part":
            patch.setattr(os, "fsync", full)
        else:
            patch.setattr(folders, "write_manifest", _without_space(folders.write_manifest, patch))
        with pytest.raises(OSError, match="No space left on the disk while writing"):
            transform_files(JOB, [big], tmp_path / "clean")
    assert not (tmp_path / "clean" / "manifest.json").exists()
    transform_files(JOB, [big], tmp_path / "clean")
    transform_files(JOB, [big], tmp_path / "fresh")
    assert checksums(tmp_path / "clean") == checksums(tmp_path / "fresh")


def _without_space(write, patch):
    def full(*args):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    def write_on_full_disk(*args):
        patch.setattr(Sink, "write", full)
        return write(*args)

    return write_on_full_disk


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
def test_a_disk_that_is_really_full(tmp_path, small_disk, kind):
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
        transform_files(JOB, [parts], clean, workers=1)
    left = [path.name for path in clean.rglob("*") if path.is_file()]
    assert not [name for name in left if name.endswith(TEMPORARY)]
    finished = read_records(clean)[1]
    assert {name for name in left if not name.startswith(".")} == set(finished)
    for name, part in finished.items():
        assert hashlib.sha256((clean / name).read_bytes()).hexdigest() == part.sha256
