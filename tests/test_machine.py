"""Work in threads: results in order, errors in their place, and the limit on BLAS given back."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from unspot.data.statistics import ClassStatistics
from unspot.machine import in_threads


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(2, "blas"):
        yield


def _blas_threads():
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
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


@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_statistics_have_the_same_bits_with_one_thread_and_with_two(dtype, per_class):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(70_000, 6)).astype(dtype), rng.integers(0, 3, 70_000)
    two = ClassStatistics.from_rows(X, codes, 3, per_class=per_class)
    with threadpool_limits(1, "blas"):
        one = ClassStatistics.from_rows(X, codes, 3, per_class=per_class)
    np.testing.assert_array_equal(two.means, one.means)
    np.testing.assert_array_equal(two.within, one.within)
