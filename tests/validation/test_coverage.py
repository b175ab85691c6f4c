"""The corpus: a small shard runs, captured operators are those of a real run, rows are told."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from validation.corpus import beside, faithful, on_gpu, one, page
from validation.corpus.case import Case
from validation.corpus.families import classics
from validation.corpus.shrink import VOCABULARY, arguments

SHARD = (
    "denoising-autoencoder squeeze-and-excite mixup physics-informed language-model-with-cache"
    " triplets federated-round small-gpt"
).split()
CASES = {case.name.partition("/")[2]: case for case in classics.cases()}


@pytest.mark.parametrize("name", SHARD)
def test_a_program_is_predicted_and_calls_what_a_real_run_calls(name: str) -> None:
    row = one.followed(CASES[name])
    assert row["predicted"], row
    assert row["launches"] > 0
    real = one.compared(CASES[name], row["program"])
    assert real["equal"], real


def test_a_program_that_captures_otherwise_than_it_runs_is_found_out() -> None:
    def build(device: str) -> Any:
        import torch

        x = torch.randn(4, 4, device=device)
        return lambda: x @ x if device == "cuda" else x + x

    row = one.followed(Case("a/b", build))
    apart = one.compared(Case("a/b", build), row["program"])
    assert not apart["equal"]
    mm, add = (["1 x mm(float32[4, 4], float32[4, 4])"], ["1 x add(float32[4, 4], float32[4, 4])"])
    assert apart["apart"] == {"only captured": mm, "only real": add}


def test_a_hang_and_a_crash_are_rows() -> None:
    def hangs(device: str) -> Any:
        while True:
            pass

    def dies(device: str) -> Any:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGTERM)

    row = one.in_child(Case("a/hangs", hangs), limit_s=0.5)
    assert not row["captured"]
    assert "no answer" in row["crash"]
    assert "signal 15" in one.in_child(Case("a/dies", dies))["crash"]


def test_calls_of_lists_and_whole_operators_are_named_alike() -> None:
    assert faithful.told("aten::cudnn_batch_norm", [("float32", (2,))]) == (
        "native_batch_norm(float32[2])"
    )
    assert faithful.told("gpuscope::attention", [("float32", (1, 2))]) == "attention"


def test_a_configuration_shrinks_with_its_parts() -> None:
    class Part:
        def __init__(self, *, hidden_size: int = 1024, num_heads: int = 16) -> None: ...

    class Whole:
        sub_configs: ClassVar = {"text_config": Part}

        def __init__(
            self,
            *,
            text_config: Any = None,
            vocab_size: int = 50000,
            eos_token_id: int = 49999,
            num_hidden_layers: int = 24,
            use_cache: bool = True,
        ) -> None: ...

    small = arguments(Whole, "fixed")
    assert small.pop("eos_token_id") < VOCABULARY
    text = {"hidden_size": 64, "num_heads": 4}
    assert small == {"text_config": text, "vocab_size": 512, "num_hidden_layers": 2}
    assert arguments(Part, "eighth") == {"hidden_size": 128, "num_heads": 2}
    assert arguments(Part, "wide") == {}


def test_measured_rows_stand_beside_their_predictions(tmp_path: Path) -> None:
    name = "classics/variational-autoencoder"
    alone = one.followed(next(c for c in classics.cases() if c.name == name))
    row = {"name": name, "launches": alone["launches"] * 2, "step_s": 1.0}
    row["peak_bytes"] = alone["peak_bytes"]
    file = tmp_path / "rows.jsonl"
    lost = {"name": "classics/dcgan", "failed": "OutOfMemoryError"}
    file.write_text("".join(json.dumps(r) + "\n" for r in (row, lost)))
    (found,) = beside.compare(file, "first", "h200")
    assert found["launches_off"] == pytest.approx(-0.5)
    assert found["peak_off"] == 0
    assert "launches within 5 %: 0, peak memory within 3 %: 1" in beside.told([found])


def test_kernels_of_a_trace_are_told_by_the_operators_around_them() -> None:
    def op(number: int, name: str, ts: float, dur: float) -> dict[str, Any]:
        args = {"External id": number, "Input Dims": [[4]]}
        return {"cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "tid": 1, "args": args}

    def work(kind: str, name: str, number: int, ts: float) -> dict[str, Any]:
        args = {"External id": number}
        return {"cat": kind, "name": name, "ts": ts, "dur": 3.0, "args": args}

    events = [
        op(1, "aten::clone", 0, 10),
        op(2, "aten::copy_", 2, 5),
        op(3, "autograd::engine::evaluate_function: MulBackward0", 11, 9),
        op(4, "aten::mul", 12, 2),
        work("kernel", "copying", 2, 20),
        work("kernel", "copying", 2, 22),
        work("gpu_memset", "Memset (Device)", 4, 30),
        work("kernel", "times", 4, 40),
    ]
    row = on_gpu.worked(events)
    assert (row["launches"], row["copies"], row["fills"]) == (3, 0, 1)
    assert row["busy_s"] == pytest.approx(11e-6)
    copy, times = row["by_operator"]
    assert copy["op"] == "aten::clone>aten::copy_"
    assert copy["shapes"] == "[[4]]"
    assert copy["kernels"] == {"copying": 2}
    assert copy["calls"] == 1
    assert (times["op"], times["kernels"]) == ("aten::mul", {"Memset (Device)": 1, "times": 1})
    predicted = {"aten::clone": 1, "aten::mul_": 1, "aten::sum": 1}
    assert beside.apart(row["by_operator"], predicted) == {"clone": [2, 1], "sum": [0, 1]}


def test_a_program_that_takes_its_process_with_it_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(case: Case) -> dict[str, Any]:
        if case.name == "a/dies":
            import os

            os._exit(3)
        return {"step_s": 1.0}

    monkeypatch.setattr(on_gpu, "measured", measured)
    file = tmp_path / "rows.jsonl"
    cases = [Case(f"a/{name}", lambda device: lambda: None) for name in ("lives", "dies", "last")]
    on_gpu.run(file, cases, 60.0)
    rows = on_gpu.lines(file)
    assert [rows[f"a/{n}"].get("failed") for n in ("lives", "last")] == [None, None]
    assert rows["a/dies"]["failed"] == "the process ended"
    on_gpu.run(file, cases, 60.0)
    assert len(file.read_text("utf-8").splitlines()) == 3


def test_the_page_counts_what_the_rows_say() -> None:
    apart = {"only captured": ["2 x mm(float32[1])"], "only real": []}
    rows = [
        {"name": "a/b", "captured": True, "predicted": True, "seconds": 1.0, "equal": True},
        {"name": "a/c", "captured": True, "predicted": True, "seconds": 3.0, "equal": False}
        | {"apart": apart},
        {"name": "transformers/bert/masked/train", "captured": False, "predicted": False}
        | {"seconds": 2.0, "said": ["It failed (line 7 of /x/y/code.py).", "Why.", "Do."]},
    ]
    told = page.figures(rows, {"torch": "2"}, 4)
    assert (told["predicted"], told["programs"], told["of"]) == ("2", "3", "4")
    assert (told["share"], told["equal_share"]) == ("66.7 %", "50.0 %")
    assert (told["median"], told["slowest"], told["crashes"]) == ("2.0", "3.0", "0")
    assert "| a | 2 | 2 | 100.0 % | 3.0 | 1 / 2 |" in told["table"]
    assert "| transformers: masked, train | 1 | 0 | 0.0 % | 2.0 | 0 / 0 |" in told["table"]
    assert "It failed (code.py:7). Why. Do." in told["failures"]
    assert told["differences"] == "| `mm` | 1 | 0 |"
    gpu = beside.totals(json.loads(page.ON_A_GPU.read_text("utf-8")))
    assert (told["gpu_peaks"], told["gpu_launches"]) == (str(gpu["peaks"]), str(gpu["launches"]))
    pages = [(page.DOCS / f"coverage{suffix}.md").read_text("utf-8") for suffix in page.TEXTS]
    assert all(f"{told['gpu_step']}" in text and "{" not in text for text in pages)


def test_rows_hold_no_path_of_the_machine() -> None:
    import site

    def build(device: str) -> Any:
        raise ValueError(f"cannot read {site.getsitepackages()[0]}/torch/x.py, /srv/someone/y.txt")

    row = one.in_child(Case("a/b", build))
    assert "cannot read torch/x.py, y.txt" in row["real"]
    assert "tests/validation/test_coverage.py" in row["said"][0]
    assert one.without_machine(["1/2 of https://a.b/c/d", "a / b"]) == [
        "1/2 of https://a.b/c/d",
        "a / b",
    ]
    kept = Path(one.__file__).parents[1] / "results"
    files = [kept / "coverage.jsonl", kept / "coverage-h200.json"]
    assert not [file.name for file in files if one.PATH.search(file.read_text("utf-8"))]


@pytest.mark.parametrize("mask", ["keys apart", "none, key heads broadcast"])
def test_attention_that_no_kernel_takes_is_written_out_as_in_pytorch(mask: str) -> None:
    def build(device: str) -> Any:
        import torch

        heads = 1 if mask.startswith("none") else 4
        q = torch.randn(2, 4, 16, 8, device=device, requires_grad=True)
        k = torch.randn(2, heads, 16, 8, device=device, requires_grad=True)
        bias = torch.randn(1, 4, 16, 16, device=device)
        given = bias.transpose(-2, -1) if mask == "keys apart" else None

        def step() -> None:
            torch.nn.functional.scaled_dot_product_attention(q, k, k, given).sum().backward()

        return step

    import gpuscope as gs

    ours = faithful.captured_calls(gs.capture(lambda: build("cuda")))
    assert ours == faithful.real_calls(build)
    assert not ours["attention"]
    assert sum(n for call, n in ours.items() if call.startswith("bmm")) == 6
