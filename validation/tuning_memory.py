"""Memory of fine-tuning steps: predicted first, measured after, held against each other.

    python validation/tuning_memory.py predict               # no GPU: results/tuning_memory.json
    python validation/tuning_memory.py measure --out DIR     # one GPU: DIR/tuning_memory.jsonl
    python validation/tuning_memory.py eager                 # Gemma 2 anew: tuning_memory_eager.json

What is measured is what people run: models of `transformers` with random weights, adapters of
`peft`, 4-bit layers and 8-bit optimizers of `bitsandbytes`. None of it is in the prediction, which
captures layers of this project. Cases run one after another in one process, each from an empty
allocator; running out of memory is a result. Nothing is tuned on these runs.

The measured Gemma 2 computes attention step by step, to keep the cap on its scores; what was
predicted before takes what transformers takes by itself, which drops the cap. `eager` predicts
these cases anew with the measured attention.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src")]

PREDICTED = HERE / "results" / "tuning_memory.json"
EAGER = HERE / "results" / "tuning_memory_eager.json"
CAPPED = "gemma-2"
DEVICE = "h100"
STEPS = 3
"""The first makes the states of the optimizer; the peak is that of those after it."""

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One step of fine-tuning: a micro-batch, then the update."""

    model: str
    method: str
    microbatch: int
    seq: int
    recompute: bool = False
    optimizer: str = "adamw"

    @property
    def name(self) -> str:
        """As it is told."""
        words = [self.model, self.method, f"{self.microbatch} x {self.seq}"]
        words += ["recompute"] if self.recompute else []
        words += [self.optimizer] if self.optimizer != "adamw" else []
        return ", ".join(words)


PAGED = "paged-adamw-8bit"

CASES = (
    Case("llama-3.2-1b", "lora", 4, 2048),
    Case("llama-3.2-1b", "qlora", 4, 2048, optimizer=PAGED),
    Case("llama-3.2-1b", "full", 4, 2048),
    Case("mistral-7b", "qlora", 2, 2048, optimizer=PAGED),
    Case("mistral-7b", "lora", 2, 2048),
    Case("mistral-7b", "full", 1, 2048, recompute=True, optimizer="adamw-8bit"),
    Case("gemma-2-2b", "lora", 2, 1024),
    Case("gemma-2-2b", "full", 1, 1024),
    Case("gemma-2-2b", "qlora", 2, 1024, recompute=True, optimizer=PAGED),
    Case("phi-3-mini", "qlora", 4, 1024, optimizer=PAGED),
    Case("phi-3-mini", "lora", 2, 2048, recompute=True),
    Case("phi-3-mini", "full", 2, 1024),
    Case("qwen3-1.7b", "full", 4, 1024, optimizer=PAGED),
    Case("qwen3-1.7b", "lora", 2, 4096),
    Case("qwen3-1.7b", "qlora", 8, 1024, recompute=True, optimizer=PAGED),
    Case("llama-3.2-3b", "full", 2, 2048, recompute=True),
    Case("llama-3.2-3b", "lora", 2, 2048),
    Case("llama-3.2-3b", "qlora", 2, 2048, optimizer=PAGED),
)
"""The most telling first, in case there is no time for all."""


# -- before ----------------------------------------------------------------------------------------


def eager() -> None:
    """Predict anew what was measured with another attention than transformers' own choice."""
    figures = ("step_s", "low_s", "high_s", "peak_bytes")
    lines = []
    for case in CASES:
        if case.model.startswith(CAPPED):
            found = predicted(case)
            lines.append({"case": case.name, **{name: found[name] for name in figures}})
    EAGER.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


def predicted(case: Case) -> Line:
    """Figures of a case, with the attention that was measured."""
    import gpuscope
    from gpuscope.capturing import capture_job
    from gpuscope.hardware import parse_target
    from gpuscope.planning.tuning.types import Tuned
    from gpuscope.program.models.tuning import FineTuning

    cluster = parse_target(DEVICE)
    tuning = FineTuning(method=case.method, optimizer=case.optimizer)
    options = Tuned(cluster, tuning, case.microbatch, case.recompute, 1).options(case.seq)
    if case.model.startswith(CAPPED):
        options = replace(options, attention="eager")
    found = gpuscope.recost(capture_job(case.model, cluster, options), cluster, memory=True)
    return {
        "step_s": found.step_time_s,
        "low_s": found.low_s,
        "high_s": found.high_s,
        "peak_bytes": found.peak_memory_bytes,
    }


def predict() -> None:
    """Predict each case."""
    from gpuscope.planning.tuning.search import question_of_tuning
    from gpuscope.planning.tuning.simulate import Simulator
    from gpuscope.planning.tuning.types import Tuned
    from gpuscope.program.models.tuning import FineTuning

    lines: list[Line] = []
    for case in CASES:
        question = question_of_tuning(case.model, on=DEVICE, seq=case.seq)
        tuning = FineTuning(method=case.method, optimizer=case.optimizer)
        tuned = Tuned(question.clusters[0], tuning, case.microbatch, case.recompute)
        found = Simulator(question).judge(tuned)
        figures = ("step_s", "low_s", "high_s", "peak_bytes", "usable_bytes", "fits")
        line: Line = {"case": case.name, **asdict(case)}
        line |= {name: getattr(found, name) for name in figures}
        line["held"] = {str(name): size for name, size in found.held}
        lines.append(line)
        PREDICTED.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
        print(f"{case.name}: {found.peak_bytes / 2**30:.2f} GiB", flush=True)


# -- on the device ---------------------------------------------------------------------------------


def measure(out: Path, budget_s: float) -> None:
    """Run every case that has no line yet, until the time is over."""
    import torch

    out.mkdir(parents=True, exist_ok=True)
    path = out / "tuning_memory.jsonl"
    done = {line["case"] for line in lines_of(path)}
    began, longest_s = time.monotonic(), 0.0
    for case in CASES:
        if case.name in done:
            continue
        begun = time.monotonic()
        if begun - began + longest_s > budget_s:
            print("no time for the rest", flush=True)
            return
        try:
            found = {"outcome": "ran", **_measured(case)}
        except torch.OutOfMemoryError as error:
            found = {"outcome": "out of memory", "said": str(error)[:300]}
        except Exception as error:  # a case that cannot run must not cost the others
            found = {"outcome": "failed", "said": f"{type(error).__name__}: {error}"[:600]}
        took_s = time.monotonic() - begun
        longest_s = max(longest_s, took_s)
        line = {"case": case.name, **found, "took_s": took_s, "torch": torch.__version__}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(case.name, found, f"{took_s:.1f} s", flush=True)


def _measured(case: Case) -> Line:
    """Peaks of the steps after the first, from an allocator that begins empty."""
    import torch

    cuda = torch.cuda.is_available()
    _emptied(cuda)
    before = torch.cuda.memory_allocated() if cuda else 0
    model = _made(case, "cuda" if cuda else "cpu")
    _cleared(cuda)  # what making the model left behind
    built = torch.cuda.memory_allocated() if cuda else 0
    step = _step(case, model)
    step()
    first = torch.cuda.max_memory_allocated() if cuda else 0
    _cleared(cuda)
    times = []
    for _ in range(STEPS - 1):
        begun = time.perf_counter()
        step()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    found: Line = {"steps_s": times, "before_bytes": before, "built_bytes": built}
    if cuda:
        free, total = torch.cuda.mem_get_info()
        reserved = torch.cuda.memory_reserved()
        found |= {
            "first_peak_bytes": first,
            "peak_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved(),
            "outside_bytes": total - free - reserved,
            "device": torch.cuda.get_device_name(),
        }
    return found


def _emptied(cuda: bool) -> None:
    """Nothing of an earlier case is left, cuBLAS' room for its work neither."""
    import torch

    gc.collect()
    if cuda:
        torch._C._cuda_clearCublasWorkspaces()
        _cleared(cuda)


def _cleared(cuda: bool) -> None:
    import torch

    gc.collect()
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _made(case: Case, device: str) -> Any:
    """The model as its method wants it; on a processor narrow, to try the script."""
    import torch
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training

    model = _network(case, device)
    model.train()
    if case.method == "qlora":
        _quantised(model, device)
        model.is_loaded_in_4bit = True
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if case.recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if case.method != "full":
        adapters = LoraConfig(
            r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        model = get_peft_model(model, adapters).train()
    assert next(model.parameters()).device == torch.zeros(0, device=device).device
    return model


def _network(case: Case, device: str) -> Any:
    import importlib

    import torch

    from gpuscope.program.models import find

    spec: Any = find(case.model).build.__self__  # type: ignore[attr-defined]
    values = dict(spec.values)
    if device == "cpu":
        narrow = {"hidden_size": 192, "intermediate_size": 256, "vocab_size": 512}
        values |= narrow | {"num_hidden_layers": 2, "pad_token_id": 0}
    package = f"transformers.models.{spec.package}"
    made = importlib.import_module(f"{package}.configuration_{spec.package}")
    config = getattr(made, spec.config).from_dict(values)
    # Gemma 2 caps its attention's scores, which no fused kernel does.
    config._attn_implementation = "eager" if case.model.startswith(CAPPED) else "sdpa"
    network = getattr(importlib.import_module(f"{package}.modeling_{spec.package}"), spec.model)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model = network(config)
    finally:
        torch.set_default_dtype(torch.float32)
    model.tie_weights()
    return model


def _quantised(model: Any, device: str) -> None:
    """Every linear layer but the output in NF4 with double quantisation, as transformers does."""
    import bitsandbytes as bnb
    import torch

    for name, module in list(model.named_modules()):
        owner, _, last = name.rpartition(".")
        if type(module) is not torch.nn.Linear or last == "lm_head":
            continue
        packed = bnb.nn.Linear4bit(
            module.in_features,
            module.out_features,
            bias=module.bias is not None,
            compute_dtype=torch.bfloat16,
            compress_statistics=True,
            quant_type="nf4",
            device="meta",
        )
        packed.weight = bnb.nn.Params4bit(
            module.weight.data,
            requires_grad=False,
            compress_statistics=True,
            quant_type="nf4",
            module=packed,
        ).to(device)
        packed.bias = module.bias
        setattr(model.get_submodule(owner), last, packed)


def _step(case: Case, model: Any) -> Any:
    import torch

    device = next(model.parameters()).device
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = _optimizer(case, trained)
    shape = (case.microbatch, case.seq if device.type == "cuda" else 32)
    tokens = torch.randint(0, model.config.vocab_size, shape, device=device)
    mixed = torch.autocast(device.type, torch.bfloat16, enabled=case.method != "full")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with mixed:
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()

    return step


def _optimizer(case: Case, trained: list[Any]) -> Any:
    import torch

    if case.optimizer == "adamw" or not torch.cuda.is_available():
        return torch.optim.AdamW(trained, lr=1e-4)
    import bitsandbytes as bnb

    made = {"adamw-8bit": bnb.optim.AdamW8bit, PAGED: bnb.optim.PagedAdamW8bit}
    return made[case.optimizer](trained, lr=1e-4)


def lines_of(path: Path) -> list[Line]:
    """What was measured so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Predict or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("predict", "measure", "eager"))
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--budget", type=float, default=85.0, help="seconds in all")
    args = parser.parse_args()
    if args.what == "predict":
        predict()
    elif args.what == "eager":
        eager()
    else:
        measure(args.out, args.budget)


if __name__ == "__main__":
    main()
