"""Work in threads: results in order, errors in their place, and the limit on BLAS given back."""

import multiprocessing
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from unspot import Dataset, certify, evaluate, machine
from unspot.erasers import LEACE, LEOPARD, Cascade
from unspot.evaluation import mdl
from unspot.leopard import PaperSolver
from unspot.machine import divisible, in_threads, one_thread, pieces_in_threads


@pytest.fixture(autouse=True)
def _two_threads():
    before = torch.get_num_threads()
    with threadpool_limits(2, "blas"):
        torch.set_num_threads(2)
        yield
    torch.set_num_threads(before)


def _blas_threads():
    """Of numpy's and scipy's libraries, which have one number for the process.

    That of faiss is built on OpenMP, which has a number for each thread; another test may load it.
    """
    return {
        library["num_threads"]
        for library in threadpool_info()
        if library["user_api"] == "blas" and library["threading_layer"] != "openmp"
    }


def test_two_pieces_are_worked_on_at_once_each_on_one_thread_of_blas():
    meeting = threading.Barrier(2, timeout=20)  # broken, if one waits for the other's end

    def work(piece):
        meeting.wait()
        return piece, _blas_threads()

    assert list(in_threads(work, range(6), most=8)) == [(i, {1}) for i in range(6)]
    assert _blas_threads() == {2}


def test_results_keep_the_order_of_the_pieces():
    second = threading.Event()

    def work(piece):
        if piece == 0:
            assert second.wait(20)
        elif piece == 1:
            second.set()
        return piece

    assert list(in_threads(work, range(5), most=2)) == [0, 1, 2, 3, 4]


def test_pieces_are_read_as_they_are_needed():
    read = []

    def pieces():
        for i in range(10):
            read.append(i)
            yield i

    results = in_threads(lambda piece: piece, pieces(), most=2)
    assert next(results) == 0
    assert read == [0, 1, 2]  # one for each thread, and one that waits
    results.close()
    assert _blas_threads() == {2}


@pytest.mark.parametrize("where", ["work", "pieces"])
def test_an_error_comes_through_and_the_limit_ends(where):
    def fail(piece):
        if piece == 3:
            raise ValueError(f"piece {piece} is bad")
        return piece

    pieces = map(fail, range(9)) if where == "pieces" else range(9)
    work = fail if where == "work" else abs
    with pytest.raises(ValueError, match="piece 3 is bad"):
        list(in_threads(work, pieces, most=2))
    assert _blas_threads() == {2}


@pytest.mark.parametrize("limited_by", ["most", "blas", "a caller in another thread"])
def test_alone_where_threads_are_limited(limited_by):
    def names(most=2):
        return set(in_threads(lambda _: threading.current_thread().name, range(4), most=most))

    here = {threading.current_thread().name}
    if limited_by == "most":
        assert names(most=1) == here
    elif limited_by == "blas":
        with threadpool_limits(1, "blas"):
            assert names() == here
    else:
        others = in_threads(abs, range(4), most=2)
        next(others)
        assert names() == here
        others.close()
    assert here.isdisjoint(names())


@pytest.mark.parametrize("the_first_leaves", ["first", "last"])
def test_overlapping_callers_in_threads_give_all_limits_back(the_first_leaves):
    inside, leave = threading.Event(), threading.Event()

    def second():
        with one_thread():
            inside.set()
            assert leave.wait(20)
            assert (_blas_threads(), torch.get_num_threads()) == ({1}, 1)

    with ThreadPoolExecutor(1) as pool:
        with one_thread():
            other = pool.submit(second)
            assert inside.wait(20)
            if the_first_leaves == "last":
                leave.set()
                other.result()
                assert (_blas_threads(), torch.get_num_threads()) == ({1}, 1)
        leave.set()
        other.result()
    assert (_blas_threads(), torch.get_num_threads()) == ({2}, 2)
    with ThreadPoolExecutor(1) as pool:  # a new thread takes over the number of the process
        assert pool.submit(torch.get_num_threads).result() == 2


def test_work_in_threads_and_a_caller_on_one_thread_may_overlap():
    pieces = in_threads(abs, range(4), most=2)
    next(pieces)
    with one_thread():
        pieces.close()
        assert _blas_threads() == {1}
    assert _blas_threads() == {2}


def _rows(n, d, dtype=np.float64):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(n, d)).astype(dtype), np.arange(n) % 2
    X[z == 1, :3] *= 2
    return X, z


@pytest.mark.parametrize(
    "eraser",
    [
        Cascade(rank=20, random_state=0),
        LEOPARD(rank=20, solver=PaperSolver(epochs=3, batch_size=600), random_state=0),
        LEACE(),
    ],
    ids=lambda eraser: type(eraser).__name__,
)
def test_the_same_seed_and_number_of_threads_give_the_same_bits(eraser, monkeypatch):
    monkeypatch.setattr("unspot.leopard.fit.FEW_PRODUCTS", 0)  # divided over threads
    X, z = _rows(1500, 40, np.float32)
    first, second = (eraser.fit(X, z).transform(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (torch.get_num_threads(), _blas_threads()) == (2, {2})


def test_tensors_are_worked_on_by_several_threads_of_one_each():
    def work(piece):
        meeting.wait()
        return threading.current_thread().name, torch.get_num_threads()

    meeting = threading.Barrier(2, timeout=20)
    with pieces_in_threads():
        assert divisible() == 2
        names, numbers = zip(*in_threads(work, range(4), most=divisible()), strict=True)
    assert (len(set(names)), set(numbers)) == (2, {1})
    assert (divisible(), torch.get_num_threads(), _blas_threads()) == (1, 2, {2})


@pytest.mark.parametrize("inside", [one_thread, pieces_in_threads])
def test_one_thread_inside_is_one_thread(inside):
    with pieces_in_threads(), one_thread(), inside():
        assert divisible() == 1
    with one_thread(), inside():
        assert list(in_threads(lambda _: _blas_threads(), [0], most=2)) == [{1}]
        assert divisible() == 1


def _data():
    X, z = _rows(1200, 10)
    return Dataset.from_arrays(X + 1, z, random_state=0)  # other rows than those of the fit


def _evaluated(eraser):
    evaluate(eraser, _data(), metrics=["linear", "neighbours", "two_sample"])


def _certified(eraser):
    certify(eraser, _data(), budget="quick", attackers=["logistic"])


def _coded(eraser):
    X, z = _rows(400, 10)
    mdl(eraser(X), z, random_state=0)


def _projector(eraser):
    return eraser.fit(*_rows(1500, 10)).eraser_.P


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not fork safely")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fits_and_measurements_in_a_forked_process_end(monkeypatch):
    monkeypatch.setattr("unspot.leopard.fit.FEW_PRODUCTS", 0)
    eraser = LEOPARD(rank=4, random_state=0)
    here = _projector(eraser)  # OpenMP now has threads, which a fork does not take along
    fork = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(1, mp_context=fork)
    try:
        there = pool.submit(_projector, eraser).result(60)
        pool.submit(_projector, Cascade(second=eraser)).result(60)
        pool.submit(_projector, LEACE(method="orthogonal")).result(60)
        for measure in (_evaluated, _certified, _coded):
            pool.submit(measure, eraser.eraser_).result(60)
    finally:
        for process in list(pool._processes.values()):
            process.kill()
        pool.shutdown(cancel_futures=True)
    np.testing.assert_allclose(there, here, atol=1e-6)


# -- Cores -----------------------------------------------------------------------------------------


def test_work_is_divided_by_the_quota(monkeypatch):
    limit = threadpool_limits(4, user_api="blas")
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        monkeypatch.setattr(machine, "cores", lambda: 8)
        with pieces_in_threads():
            assert divisible() == 4
        monkeypatch.setattr(machine, "cores", lambda: 3)
        with pieces_in_threads():
            assert divisible() == 3
        monkeypatch.setattr(machine, "cores", lambda: 1)
        with pieces_in_threads():
            assert divisible() == 1
    finally:
        torch.set_num_threads(before)
        limit.restore_original_limits()


def test_libraries_that_are_loaded_inside_are_limited_too():
    code = (
        "from unspot.machine import one_thread\n"
        "with one_thread():\n"
        "    import sklearn.ensemble, threadpoolctl\n"
        "    print([i['num_threads'] for i in threadpoolctl.threadpool_info()])"
    )
    plain = {name: value for name, value in os.environ.items() if "THREADS" not in name}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=plain)
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"\d+", done.stdout)) == {"1"}


def test_threads_limit_what_will_be_loaded(monkeypatch):
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    environment = dict(os.environ)
    with machine.threads(1):
        assert machine.cores() == 1
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
    assert dict(os.environ) == environment
