"""Built-in models really run on an accelerator. Run by hand: pytest -m gpu tests/program."""

import pytest

from gpuscope.program.models import find, model_names
from gpuscope.program.workload import WorkloadOptions, resolve

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

FAMILIES = {line.family: line.name for line in reversed(model_names())}  # the smallest of each
CASES = [
    (name, task)
    for name in sorted({*FAMILIES.values(), "qwen3-30b-a3b", "gemma-3-1b", "t5-base", "dit-xl-2"})
    for task in find(name).tasks
]


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "task"), CASES)
def test_default_step_runs_and_is_finite(name: str, task: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no accelerator")
    model = find(name)
    options = WorkloadOptions(task=task, batch=2, layers=4 if model.layers else None)
    try:
        step = resolve(name, options).build()
        results = [step() for _ in range(3)]
    except torch.OutOfMemoryError:
        pytest.skip("four layers of it do not fit this device")
    finally:
        torch.cuda.empty_cache()
    assert all(bool(r.isfinite().all()) for r in results)  # type: ignore[attr-defined]


@pytest.mark.gpu
@pytest.mark.parametrize("task", ["train", "prefill", "decode"])
def test_float8_runs(task: str) -> None:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("no accelerator with float8")
    options = WorkloadOptions(task=task, batch=2, layers=2, dtype="fp8")
    result = resolve("llama-3.2-1b", options).build()()
    assert bool(result.isfinite().all())  # type: ignore[attr-defined]
