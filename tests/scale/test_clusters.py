"""Tasks of an engine: one that is made of threads shows what is sent and what comes back."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from unspot.scale.clusters import EngineExecutor, attempt


def test_the_first_argument_is_sent_once():
    sent = []
    with ThreadPoolExecutor(1) as threads:
        run = partial(threads.submit, attempt)
        pool = EngineExecutor("Threads", lambda it: sent.append(it) or it, run)
        job, other = {"a": 1}, {"a": 1}  # equal, but not the same
        found = [pool.submit(dict, it, b=b) for it, b in ((job, 2), (job, 3), (other, 4))]
    assert [future.result() for future in found] == [{"a": 1, "b": b} for b in (2, 3, 4)]
    assert sent[0] is job
    assert sent[1] is other
    assert len(sent) == 2


def test_errors_of_tasks_and_of_workers():
    def lost(*_):
        raise OSError("the machine is gone")

    with ThreadPoolExecutor(1) as threads:
        task = EngineExecutor("Threads", str, partial(threads.submit, attempt)).submit(int, "x")
        worker = EngineExecutor("Threads", str, partial(threads.submit, lost)).submit(int, "7")
    with pytest.raises(ValueError, match="invalid literal"):
        task.result()
    with pytest.raises(ConnectionError, match=r"Lost a Threads worker \(the machine is gone\)"):
        worker.result()
