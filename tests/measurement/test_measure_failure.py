from __future__ import annotations

import pytest
import torch

from gpuscope.errors import DoesNotFitError, InvalidValueError, WorkloadError
from gpuscope.measurement.failure import OutOfDeviceMemoryError, run_workload

MESSAGE = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.81 GiB of"
    " which 10.50 GiB is free. Process 7 has 129 GiB memory in use."
)


def _fail(error: BaseException):
    def call() -> None:
        raise error

    return call


def test_out_of_memory_says_what_was_missing() -> None:
    with pytest.raises(OutOfDeviceMemoryError) as caught:
        run_workload("step 3", _fail(torch.OutOfMemoryError(MESSAGE)))
    error = caught.value
    assert error.asked_bytes == 20 * 2**30
    assert error.missing_bytes == int(9.5 * 2**30)
    assert isinstance(error, DoesNotFitError)
    assert "ran out of memory in step 3" in error.what
    assert "test_measure_failure.py" in error.what
    assert "20.0 GiB" in error.why
    assert "9.50 GiB was missing" in error.why
    assert "140 GiB" in error.why


def test_the_operator_that_asked_is_named() -> None:
    """A real failure on the CPU: no machine has 2^60 bytes."""

    def step() -> None:
        torch.nn.functional.pad(torch.empty(1), (0, 2**58))

    with pytest.raises(WorkloadError):
        run_workload("the step", step)


def test_another_form_of_the_message() -> None:
    with pytest.raises(OutOfDeviceMemoryError) as caught:
        run_workload("build()", _fail(RuntimeError("HIP out of memory.")))
    assert caught.value.asked_bytes is None
    assert caught.value.why == "HIP out of memory."


def test_other_errors_keep_their_place() -> None:
    with pytest.raises(WorkloadError, match=r"Step 2 raised ValueError \(line \d+ of .*failure.py"):
        run_workload("step 2", _fail(ValueError("no\nmore")))
    with pytest.raises(WorkloadError, match="asks for a GPU that is not there"):
        run_workload("build()", _fail(AssertionError("Torch not compiled with CUDA enabled")))
    with pytest.raises(WorkloadError) as caught:
        run_workload("step 9", _fail(StopIteration()))
    assert "many times" in caught.value.next_step


def test_our_own_errors_and_interrupts_pass() -> None:
    with pytest.raises(InvalidValueError):
        run_workload("step", _fail(InvalidValueError("x")))
    with pytest.raises(KeyboardInterrupt):
        run_workload("step", _fail(KeyboardInterrupt()))
