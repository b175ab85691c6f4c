"""A reading from another process is the same; a process that dies is a clear error."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from nsys_databases import make, step_tables

from gpuscope.errors import InputFileError
from gpuscope.loading.job import Job, run_job
from gpuscope.loading.worker import Worker


def test_a_reading_comes_back_whole(tmp_path: Path) -> None:
    path = make(tmp_path / "s.sqlite", step_tables())
    with Worker() as worker:
        for thin in (False, True):
            job = Job(str(path), "nsys", thin=thin)
            there, here = worker.do(job), run_job(job)
            assert there.timeline.names == here.timeline.names
            assert there.timeline.sources == here.timeline.sources
            assert there.span_ns == here.span_ns == 1_900
            for name in ("start_ns", "duration_ns", "kind", "lane", "correlation"):
                columns = (getattr(r.timeline.events, name) for r in (there, here))
                np.testing.assert_array_equal(*columns)
            assert (there.timeline.recorded.launch >= 0).any() is not np.bool_(thin)


def test_errors_come_back_and_the_worker_goes_on(tmp_path: Path) -> None:
    good = make(tmp_path / "s.sqlite", step_tables())
    with Worker() as worker:
        with pytest.raises(InputFileError, match="There is no file") as caught:
            worker.do(Job(str(tmp_path / "none.sqlite"), "nsys"))
        assert caught.value.next_step == "Check the path."
        assert worker.do(Job(str(good), "nsys")).compute_ns == 1_000


def test_a_process_that_dies_is_an_error() -> None:
    with (
        Worker([sys.executable, "-c", "import sys; sys.exit(7)"]) as worker,
        pytest.raises(InputFileError, match="ended with 7") as caught,
    ):
        worker.do(Job("huge.json", "kineto"))
    assert "--workers 1" in caught.value.next_step


def test_what_a_library_prints_is_no_answer(tmp_path: Path) -> None:
    """The answers have a channel of their own: standard output is for everything else."""
    path = make(tmp_path / "s.sqlite", step_tables())
    noisy = (
        "import builtins, runpy, sys; sys.argv = ['worker']\n"
        "import gpuscope.loading.job as job; read = job.run_job\n"
        "job.run_job = lambda j, **k: (print('noise' * 100), read(j, **k))[1]\n"
        "runpy.run_module('gpuscope.loading.worker', run_name='__main__')"
    )
    with Worker([sys.executable, "-c", noisy]) as worker:
        assert worker.do(Job(str(path), "nsys")).span_ns == 1_900
