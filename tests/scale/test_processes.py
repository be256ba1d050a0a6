"""Two processes of torchrun give what one gives, and a lost one ends the job."""

import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from unspot import LEOPARD, load
from unspot.density import GaussianMixture
from unspot.erasers import leopard
from unspot.projections import Objective
from unspot.projections.objective import project, pull_back
from unspot.scale.processes import Team, context, team

# What both sides run: data and erasers by name, in single and in double precision.
SETTING = """
import numpy as np
from unspot import LEACE, LEOPARD, Cascade
from unspot.density import GaussianMixture
from unspot.projections import ManifoldSolver, PaperSolver

def data(dtype):
    rng = np.random.default_rng(0)
    z = rng.choice(["a", "b", "c"], size=1100, p=[0.5, 0.3, 0.2])
    X = rng.normal(size=(1100, 12)) @ rng.normal(size=(12, 12))
    X[z == "b"] += 1.0
    X[z == "c", :4] *= 2.0
    return X.astype(dtype), z

quick = ManifoldSolver(max_evaluations=15)
few = PaperSolver(epochs=3, batch_size=300)
erasers = {
    "manifold": LEOPARD(rank=6, random_state=0),
    "pairs": LEOPARD(rank=6, kernel=GaussianMixture.paper(bandwidth="pair"), solver=quick,
                     random_state=0),
    "preserving": LEOPARD(rank=6, metric="whitened", preserve=0.1, solver=quick, random_state=0),
    "narrowed": LEOPARD(rank=6, init=np.eye(12)[:, :9], solver=quick, random_state=0),
    "full batch": LEOPARD(rank=6, solver=PaperSolver(epochs=3), random_state=0),
    "mini-batches": LEOPARD(rank=6, solver=few, random_state=0),
    "cascade": Cascade(LEOPARD(rank=6, solver=quick, random_state=0)),
    "leace": LEACE(),
}

def goal(X, z):
    # Two concepts given a task, while another is kept, and variance too.
    eraser = Cascade(LEOPARD(rank=5, preserve=0.1, solver=quick, random_state=0))
    table = {"z": z, "age": X[:, 3] ** 2}
    return eraser.fit(X, table, given=X[:, 0] > 0, keep=X[:, 1] > 0).eraser_.P
"""


def _torchrun(program, *arguments, processes=2, timeout=120, check=True):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), *map(str, program), *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    assert not check or done.returncode == 0, done.stderr
    return done


def _script(folder, body):
    path = folder / "script.py"
    path.write_text("import warnings\nwarnings.simplefilter('error')\n" + textwrap.dedent(body))
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """All erasers, fitted by two processes: P by (rank, dtype, name)."""
    folder = tmp_path_factory.mktemp("two")
    body = f"""
import sys
{SETTING}
from unspot.scale.processes import context
from unspot.erasers import leopard, streams
found = {{}}
with context(timeout=240) as team:
    for dtype in ("f4", "f8"):
        X, z = data(dtype)
        for name, eraser in erasers.items():
            found[dtype + name] = eraser.fit(X, z).eraser_.P
    streams.LOAD_BYTES = 0  # the same from a file that stays on disk
    path = sys.argv[1] + "/x.npy"
    if team.leads:
        np.save(path, X)
    team.agree(None)
    for name in ("mini-batches", "cascade", "leace"):
        found["disk" + name] = erasers[name].fit(path, z).eraser_.P
    # Without a seed, each process would draw other rows.
    unseeded = LEOPARD(rank=6, max_rows=300, solver=quick).fit(X, z).eraser_
    found["unseeded"] = unseeded.P
    found["goal"] = goal(X, z)
    leopard.SAMPLE_ROWS = 300  # of the others only low orders are looked at
    found["all rows"] = LEOPARD(rank=6, solver=quick, random_state=0).fit(X, z).eraser_.P
np.savez(f"{{sys.argv[1]}}/{{team.rank}}.npz", **found)
"""
    _torchrun([_script(folder, body)], folder, timeout=300)
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(2)]


def _setting():
    names = {}
    exec(SETTING, names)
    return names


@pytest.mark.parametrize("name", list(_setting()["erasers"]))
def test_two_processes_equal_one(fitted, name):
    setting = _setting()
    for dtype in ("f4", "f8"):
        expected = setting["erasers"][name].fit(*setting["data"](dtype)).eraser_.P
        np.testing.assert_allclose(fitted[0][dtype + name], expected, atol=1e-6, rtol=1e-6)


def test_two_processes_fit_a_goal_as_one(fitted):
    setting = _setting()
    expected = setting["goal"](*setting["data"]("f8"))
    np.testing.assert_allclose(fitted[0]["goal"], expected, atol=1e-6)


@pytest.mark.parametrize("name", ["mini-batches", "cascade", "leace"])
def test_two_processes_read_a_file_as_one_reads_memory(fitted, name):
    np.testing.assert_allclose(fitted[0]["disk" + name], fitted[0]["f8" + name], atol=1e-6)


def test_two_processes_share_the_rows_beyond_the_sample(fitted, monkeypatch):
    monkeypatch.setattr(leopard, "SAMPLE_ROWS", 300)
    setting = _setting()
    eraser = LEOPARD(rank=6, solver=setting["quick"], random_state=0).fit(*setting["data"]("f8"))
    assert eraser.eraser_.metadata["rows_used"] > 900
    np.testing.assert_allclose(fitted[0]["all rows"], eraser.eraser_.P, atol=1e-6)


def test_both_processes_have_the_same_bits(fitted):
    assert fitted[0].keys() == fitted[1].keys()
    for name, P in fitted[0].items():
        np.testing.assert_array_equal(P, fitted[1][name])


# Streams: each process brings its own batches. The first has no row of class "c", the second is
# alone with it, and has a third of the rows.
STREAMS = """
from unspot import LEACE

def batches(X, z):
    cuts = range(0, len(X) - 1, 64)  # the last batch has two rows or more
    return ((X[i:j], z[i:j]) for i, j in zip(cuts, [*cuts[1:], len(X)]))

def shards():
    X, z = data("f8")
    last = (z == "c") | (np.arange(len(z)) >= 900)
    y = X[:, :2] @ [[1.0, 0.2], [0.0, 3.0]]
    return X, z, y, (~last, last)

streaming = {
    "oblique": LEACE(),
    "orthogonal": LEACE(method="orthogonal"),
    "continuous": LEACE(concept="continuous"),
}
"""


@pytest.fixture(scope="module")
def streamed(tmp_path_factory):
    """LEACE of the streams of two processes: arrays and messages by (rank, name)."""
    folder = tmp_path_factory.mktemp("streams")
    body = f"""
import sys
{SETTING}
{STREAMS}
from unspot.scale.processes import context
found = {{}}

def message(call):
    try:
        call()
    except ValueError as error:
        return str(error)

with context(timeout=240) as team:
    X, z, y, parts = shards()
    mine = parts[team.rank]
    for name, leace in streaming.items():
        target = y if name == "continuous" else z
        eraser = leace.fit(batches(X[mine], target[mine])).eraser_
        found[name] = eraser(X)
        found[name + " rows"] = eraser.metadata["n_rows"]
    found["classes"] = streaming["oblique"].classes_
    found["counts"] = streaming["oblique"].eraser_.metadata["class_counts"]
    # The same estimator again, and a process whose stream is empty.
    again = streaming["oblique"].fit(batches(X[:0 if team.leads else 700], z))
    found["one is empty"] = again.transform(X)
    found["partial_fit"] = message(lambda: LEACE().partial_fit(X, z))
    found["no batches"] = message(lambda: LEACE().fit(iter([])))
    found["one class"] = message(lambda: LEACE().fit(batches(X[z == "a"], z[z == "a"])))
    found["widths"] = message(lambda: LEACE().fit(batches(X[:, team.rank :], z)))
np.savez(f"{{sys.argv[1]}}/{{team.rank}}.npz", **found)
"""
    _torchrun([_script(folder, body)], folder, timeout=300)
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(2)]


def _streams():
    names = {}
    exec(SETTING + STREAMS, names)
    return names


@pytest.mark.parametrize("name", ["oblique", "orthogonal", "continuous"])
def test_streams_of_two_processes_equal_one_over_both(streamed, name):
    setting = _streams()
    X, z, y, parts = setting["shards"]()
    rows = np.concatenate([np.flatnonzero(part) for part in parts])
    target = y if name == "continuous" else z
    expected = setting["streaming"][name].fit(setting["batches"](X[rows], target[rows]))
    scale = np.abs(X).max()
    np.testing.assert_allclose(streamed[0][name], expected.transform(X), rtol=0, atol=1e-9 * scale)
    assert streamed[0][name + " rows"] == len(X)


def test_classes_of_all_streams_are_known_to_all(streamed):
    _, z, _, parts = _streams()["shards"]()
    assert [sorted(set(z[part])) for part in parts] == [["a", "b"], ["a", "b", "c"]]
    for found in streamed:
        assert found["classes"].tolist() == ["a", "b", "c"]
        assert found["counts"].tolist() == [np.sum(z == name) for name in "abc"]


def test_a_process_may_have_an_empty_stream(streamed):
    X, z, _, _ = _streams()["shards"]()
    expected = _streams()["streaming"]["oblique"].fit(X[:700], z[:700]).transform(X)
    np.testing.assert_allclose(streamed[0]["one is empty"], expected, atol=1e-9)


def test_streams_leave_the_same_bits_in_both_processes(streamed):
    assert streamed[0].keys() == streamed[1].keys()
    for name, value in streamed[0].items():
        np.testing.assert_array_equal(value, streamed[1][name])


def test_streams_of_several_processes_that_cannot_be_fitted(streamed):
    for name, expected in {
        "partial_fit": "Got a batch in one of 2 processes, .* Pass the batches to fit",
        "no batches": "Got a stream without batches",
        "one class": "Got one class in z",
        "widths": "Got streams of rows with 11 and 12 features in the processes of one fit",
    }.items():
        assert re.match(expected, str(streamed[0][name]))


def test_the_command_line_under_torchrun(tmp_path):
    """One file, one summary, and the eraser of a single process."""
    X, z = _setting()["data"]("f4")
    np.savez(tmp_path / "data.npz", X=X, z=z)
    out = tmp_path / "out.safetensors"
    arguments = ["fit", tmp_path / "data.npz", "-c", "z", "-r", "6", "-m", "leopard", "-o", out]
    done = _torchrun(["-m", "unspot"], *arguments)
    assert done.stdout.count("Erased 'z'") == 1
    expected = LEOPARD(rank=6, random_state=0).fit(X, z).eraser_
    np.testing.assert_allclose(load(out).P, expected.P, atol=1e-6)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.npz", "out.safetensors"]


FAULTY = """
import os, signal, sys, time
import numpy as np
import unspot.density.mmd as mmd
from unspot.cli import main

calls = 0
def fault(*arguments, **options):
    global calls
    calls += 1
    if calls == 4 and os.environ["RANK"] == "{rank}":
        {action}
    return inner(*arguments, **options)

inner, mmd.kernel_sums = mmd.kernel_sums, fault
if __name__ == "__main__":
    main(["fit", sys.argv[1], "-c", "z", "-r", "6", "-m", "leopard", "-o", sys.argv[2],
          "--timeout", "{timeout}"])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rank", "action", "timeout", "message"),
    [
        (1, "os.kill(os.getpid(), signal.SIGKILL)", 600, "another process of (this|the) job"),
        (0, "os.kill(os.getpid(), signal.SIGKILL)", 600, "another process of (this|the) job"),
        (1, "time.sleep(600)", 4, "did not answer within the timeout"),
        (0, "raise ValueError('Got a fault.')", 600, "Error: Got a fault."),
        (1, "raise ValueError('Got a fault.')", 600, "Process 1: Error: Got a fault."),
    ],
    ids=["killed", "leader killed", "hanging", "error of the leader", "error of another"],
)
def test_a_lost_process_ends_the_job(tmp_path, rank, action, timeout, message):
    X, z = _setting()["data"]("f4")
    np.savez(tmp_path / "data.npz", X=X, z=z)
    script = _script(tmp_path, FAULTY.format(rank=rank, action=action, timeout=timeout))
    out = tmp_path / "out" / "eraser.safetensors"
    done = _torchrun([script], tmp_path / "data.npz", out, check=False, timeout=300)
    assert done.returncode != 0  # well before the 600 seconds of a collective or of the sleep
    assert re.search(message, done.stderr), done.stderr
    assert not out.parent.exists() or not list(out.parent.iterdir())


@pytest.mark.slow
def test_methods_for_one_process_say_so(tmp_path):
    X, z = _setting()["data"]("f4")
    np.savez(tmp_path / "data.npz", X=X, z=z)
    out = tmp_path / "out.safetensors"
    arguments = ["fit", tmp_path / "data.npz", "-c", "z", "-m", "farm", "-o", out]
    done = _torchrun(["-m", "unspot"], *arguments, check=False)
    assert "Error: Got 2 processes, but FaRM is fitted by one." in done.stderr
    assert not out.exists()


# -- one process -----------------------------------------------------------------------------------


def test_alone_everything_is_as_it_was():
    alone = Team()
    rows = torch.arange(6.0).view(3, 2)
    assert alone.leads
    assert alone.agree("x") == "x"
    assert alone.gather("x") == ["x"]
    assert alone.sum(rows) is rows
    assert alone.broadcast(rows) is rows
    assert alone.gather_rows(rows, 3) is rows


@pytest.mark.parametrize("world", [None, "1"])
def test_without_torchrun_there_is_a_team_of_one(monkeypatch, world):
    if world is not None:
        monkeypatch.setenv("WORLD_SIZE", world)
    with context() as joined:
        assert joined == team() == Team(0, 1)


@pytest.mark.parametrize("timeout", [0, -5.0, float("nan"), float("inf")])
def test_a_timeout_is_a_time(timeout):
    with pytest.raises(ValueError, match=r"Got timeout=.*, but expected seconds: a number above 0"):
        context(timeout=timeout).__enter__()


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1000, 8192])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_shares_are_all_rows_once(n, size):
    shares = [Team(i, size).slice(n, 256) for i in range(size)]
    rows = np.concatenate([np.arange(n)[share] for share in shares])
    np.testing.assert_array_equal(rows, np.arange(n))
    lengths = [share.stop - share.start for share in shares]
    assert max(lengths) - min(lengths) <= 2 * 256
    assert all(share.start % 256 == 0 or share.start == n for share in shares)


def test_blocks_do_not_change_the_objective():
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.normal(size=(700, 9)))
    V, G = torch.from_numpy(rng.normal(size=(9, 4))), torch.from_numpy(rng.normal(size=(700, 4)))
    torch.testing.assert_close(project(X, V), X @ V)
    torch.testing.assert_close(pull_back(X, G), X.T @ G)
    # A row's projection has the same bits whatever part of the rows it is projected with.
    single = X.float()
    whole = project(single, V.float())
    torch.testing.assert_close(project(single[256:], V.float()), whole[256:], rtol=0, atol=0)


def test_a_mini_batch_is_an_objective_of_its_rows():
    rng = np.random.default_rng(0)
    X, z = torch.from_numpy(rng.normal(size=(60, 5))), torch.arange(60) % 3
    rows = np.arange(0, 60, 2)
    V = torch.eye(5, dtype=torch.float64)[:, :2]
    whole = Objective(X, z, GaussianMixture.paper())
    part = Objective(X[rows], z[rows], GaussianMixture.paper())
    assert whole.subset(rows).value(V) == part.value(V)


def test_a_process_alone_does_not_load_torch():
    code = (
        "import sys\n"
        "from unspot.scale.processes import Team, context, team\n"
        "with context() as joined:\n"
        "    assert joined == team() == Team() and joined.agree(7) == 7\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
