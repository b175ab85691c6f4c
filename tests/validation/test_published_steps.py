"""Steps of published rows: few microbatches stand for many, captures are kept."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def test_each_end_follows_its_own_line() -> None:
    from published.steps import from_few

    found = from_few(384, (16, 32), lambda m: (0.8 + 0.1 * m, 0.7 + 0.09 * m, 0.9 + 0.12 * m))
    assert found == pytest.approx((0.8 + 38.4, 0.7 + 34.56, 0.9 + 46.08))


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved"])
def test_a_full_pipeline_of_many_microbatches_is_a_line(schedule: str) -> None:
    """Simulated whole, a small job of 4 ranks is what its few microbatches say, within 1e-3."""
    from published.express import Expressed
    from published.machines import Machine
    from published.rows import Row
    from published.steps import _of, _recost, from_few

    from gpuscope.program.models.parallel.options import ParallelOptions, Software
    from gpuscope.program.models.parallel.size import TransformerSize
    from gpuscope.program.models.settings import WorkloadOptions
    from gpuscope.program.pipeline.job_programs import capture_pipeline
    from gpuscope.program.workload import resolve

    size = TransformerSize(
        layers=8, hidden=256, heads=4, kv_heads=4, head=64, ffn=512, vocabulary=1024, context=256
    )
    plan = ParallelOptions(
        world=8,
        pp=4,
        microbatch=1,
        global_batch=16,
        fsdp="zero1",
        schedule=schedule,
        virtual=2 if schedule == "interleaved" else None,
        software=Software(sharing="beside"),
    )
    options = WorkloadOptions(seq=256, parallel=plan)
    row = Row(
        id="x",
        source="s",
        ref="r",
        kind="training",
        model="m",
        hardware="h",
        quantity="q",
        value=1.0,
        unit="u",
    )
    made = Expressed(
        row=row,
        stack="s",
        workload=size,
        machine=Machine("h100-sxm"),
        devices=8,
        options=options,
        step_s=1.0,
        tokens=1,
    )
    job = resolve(size, options, load=False).job
    assert job is not None
    blocks = capture_pipeline(job, local_size=8)

    def time_s(count: int) -> tuple[float, float, float]:
        return _recost(made, _of(blocks, made, count).programs())

    whole, few = time_s(32), from_few(32, (4, 8), time_s)
    assert few[0] == pytest.approx(whole[0], rel=2e-3)
    assert few[1:] == pytest.approx(whole[1:], rel=0.05)


def test_a_capture_is_named_by_what_is_set_and_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from published import captures

    @dataclass
    class Asked:
        ranks: int = 1
        more: int = 0

    assert captures._set(Asked(2)) == captures._set(Asked(2, more=0)) != captures._set(Asked(3))
    monkeypatch.setattr(captures, "FOLDER", tmp_path)
    monkeypatch.setattr(captures, "_program", lambda: "one")
    made = iter(range(9))
    assert [captures._kept("a", lambda: next(made)) for _ in range(2)] == [0, 0]
    monkeypatch.setattr(captures, "_program", lambda: "two")  # its sources have changed
    assert captures._kept("a", lambda: next(made)) == 1


def test_software_with_layers_of_its_own_runs_no_python_of_dtensor() -> None:
    from published.stacks import stacks
    from published.steps import _plain

    from gpuscope.program.types import Op, Program

    own = {stack.name for stack in stacks() if not stack.dtensor}
    assert {"megatron-core", "nemo", "mlperf", "simumax", "llama-3"} <= own  # bases' children, too
    assert not own & {"torchtitan", "pytorch-eager", "llm-foundry"}
    program = Program("x", (Op(0, "aten::mm", distributed=True), Op(1, "aten::add")))
    plain = _plain(program)
    assert [op.distributed for op in plain.ops] == [False, False]
    assert [op.name for op in plain.ops] == [op.name for op in program.ops]
