"""Built-in models through a capture: what the families promise of a step's operators."""

import pytest

from gpuscope.program.types import Program
from gpuscope.program.workload import WorkloadOptions, resolve
from sweeps import sweep

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gpuscope.program.capture")


def captured(name: str, **options: object) -> Program:
    from gpuscope.program.capture import capture

    work = resolve(name, WorkloadOptions(**options))  # type: ignore[arg-type]
    return capture(
        work.build, name=work.name, task=work.task, samples=work.samples, tokens=work.tokens
    )


def names(program: Program) -> list[str]:
    return [op.name for op in program.ops]


STEPS = [
    ("gpt2", {"layers": 2}),
    ("llama-3.1-8b", {"layers": 2, "checkpointing": True}),
    ("mixtral-8x7b", {"layers": 1}),
    ("deepseek-v3", {"layers": 4}),
    ("gemma-3-4b", {"layers": 2}),
    ("t5-small", {"layers": 1}),
    ("whisper-tiny", {"layers": 1}),
    ("resnet18", {}),
    ("swin-t", {}),
    ("dit-xl-2", {"layers": 2}),
    ("lstm", {}),
    ("dlrm", {}),
]


ALWAYS = ("mixtral-8x7b", "t5-small", "resnet18", "lstm", "dlrm")


@pytest.mark.parametrize(
    ("name", "options"), sweep(STEPS, *(step for step in STEPS if step[0] in ALWAYS))
)
def test_training_steps_are_captured(name: str, options: dict[str, object]) -> None:
    program = captured(name, **options)
    assert program.unsupported == ()
    phases = {op.phase for op in program.ops}
    assert {"forward", "backward", "optimizer"} <= phases
    assert {s.category for s in program.storages} >= {"parameter", "gradient"}


def test_decoding_copies_the_whole_cache_of_every_layer() -> None:
    program = captured("llama-3.1-8b", task="decode", layers=3, context=100, batch=2)
    grown = [
        op
        for op in program.ops
        if op.name == "aten::cat" and op.outputs[0].shape == (2, 8, 101, 128)
    ]
    assert len(grown) == 2 * 3  # keys and values
    assert names(program).count("gpuscope::attention") == 3


def test_decoding_holds_one_cache() -> None:
    program = captured("llama-3.1-8b", task="decode", layers=2, context=1000)
    one = 8 * 1000 * 128 * 2
    resident = [s.nbytes for s in program.storages if s.born == -1 and s.category != "parameter"]
    assert 4 * one <= sum(resident) < 4 * one * 1.1


def test_attention_is_what_was_asked_for() -> None:
    fused = captured("gpt2", layers=2, task="prefill")
    eager = captured("gpt2", layers=2, task="prefill", attention="eager")
    assert names(fused).count("gpuscope::attention") == 2
    assert "gpuscope::attention" not in names(eager)
    assert names(eager).count("aten::_softmax") == 2


def test_depth_adds_equal_work() -> None:
    counts = [len(captured("qwen3-0.6b", task="prefill", layers=n).ops) for n in (1, 2, 3)]
    assert counts[2] - counts[1] == counts[1] - counts[0] > 10


def test_float8_weights_take_one_byte() -> None:
    program = captured("llama-3.1-8b", task="decode", layers=1, dtype="fp8")
    weights = [s for s in program.storages if s.category == "parameter"]
    assert any(s.nbytes == 4096 * 14336 for s in weights)
    assert names(program).count("aten::_scaled_mm") == 7
