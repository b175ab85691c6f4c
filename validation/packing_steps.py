"""Fine-tuning steps on examples of different lengths: predicted first, measured after.

    python validation/packing_steps.py predict               # no GPU: results/packing_steps_*.json
    python validation/packing_steps.py measure --out DIR     # one GPU: DIR/packing_steps.jsonl

Two models, LoRA and full fine-tuning, two mixes of lengths, and each way to lay examples in rows:
one a row (single), padded to the longest (padded), packed with FlashAttention's kernel for lengths
that vary (flash), packed with a mask between examples (mask); beside them rows of one length
(none). What is measured is what people run: models of `transformers` with random weights, adapters
of `peft`, batches of `DataCollatorWithFlattening` where flash packs them, masks as `transformers`
makes them from padding and from positions. FlashAttention's kernel is the copy inside PyTorch,
where the package `flash_attn` is not installed. None of it is in the prediction. Each case runs
micro-batches that are drawn from its mix; the first holds the longest rows that can come, and gives
the peak. Nothing is tuned on these runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

import tuning_memory  # noqa: E402

RESULTS = HERE / "results"
DEVICE = "h100"
"""Predicted for, and committed, before any was run. The machine that came had an H200: the same
prediction for it was made after (`predict --on h200`), by the same code."""

SEQ = 2048
STEPS = 6
"""Micro-batches that are timed, after the longest and two more."""

MIXES = {"wide": "lognormal:400,0.8", "long": "256..2048"}
ROWS = {"none": 2, "single": 1, "padded": 4, "flash": 2, "mask": 2}
"""Rows of a micro-batch."""

_VARLEN = "measured_varlen"

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One micro-batch, then the update."""

    model: str
    method: str
    way: str
    mix: str = ""

    @property
    def name(self) -> str:
        """As it is told."""
        return ", ".join(each for each in (self.model, self.method, self.mix, self.way) if each)


CASES = tuple(
    Case(model, method, way, mix)
    for model in ("llama-3.2-1b", "qwen3-1.7b")
    for method in ("lora", "full")
    for way, mix in (
        ("none", ""),
        *((way, mix) for mix in MIXES for way in ("flash", "padded", "mask", "single")),
    )
)


# -- before ----------------------------------------------------------------------------------------


def predict(on: str) -> None:
    """Predict each case."""
    lines, path = list[Line](), RESULTS / f"packing_steps_{on}.json"
    for case in CASES:
        line: Line = {"case": case.name, **asdict(case), "rows": ROWS[case.way]}
        lines.append(line | predicted(case, on))
        path.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
        print(f"{case.name}: {lines[-1]['step_s'] * 1e3:.1f} ms", flush=True)


def predicted(case: Case, on: str) -> Line:
    """Figures of a case on a device."""
    from gpuscope.planning.tuning.search import question_of_tuning
    from gpuscope.planning.tuning.simulate import Simulator
    from gpuscope.planning.tuning.types import Tuned
    from gpuscope.program.models.rows import rows_of
    from gpuscope.program.models.tuning import FineTuning

    lengths = MIXES.get(case.mix)
    packing = {"single": "padded"}.get(case.way, case.way)
    question = question_of_tuning(
        case.model, on=on, seq=SEQ, lengths=lengths, packing=packing if lengths else None
    )
    rows = rows_of(question.lengths, SEQ, packing, ROWS[case.way]) if lengths else None
    tuning = FineTuning(method=case.method)
    tuned = Tuned(question.clusters[0], tuning, ROWS[case.way], False, 1, rows)
    found = Simulator(question).judge(tuned)
    line = {key: getattr(found, key) for key in ("step_s", "low_s", "high_s", "peak_bytes")}
    examples = rows.examples if rows else 1.0
    line["tokens"] = examples * ROWS[case.way] * question.example_tokens
    line["row_tokens"] = tuned.row(SEQ, usual=True)
    return line


# -- on the device ---------------------------------------------------------------------------------


def measure(out: Path, budget_s: float) -> None:
    """Run every case that has no line yet, until the time is over."""
    import torch

    out.mkdir(parents=True, exist_ok=True)
    path = out / "packing_steps.jsonl"
    done = {line["case"] for line in tuning_memory.lines_of(path)}
    began, model, made = time.monotonic(), None, None
    for case in CASES:
        if case.name in done:
            continue
        if time.monotonic() - began > budget_s:
            print("no time for the rest", flush=True)
            return
        begun = time.monotonic()
        try:
            if made != (case.model, case.method):
                model = None
                tuning_memory._emptied(torch.cuda.is_available())
                model, made = _made(case), (case.model, case.method)
            found = {"outcome": "ran", **_measured(case, model)}
        except torch.OutOfMemoryError as error:
            found = {"outcome": "out of memory", "said": str(error)[:300]}
        except Exception as error:  # a case that cannot run must not cost the others
            found = {"outcome": "failed", "said": f"{type(error).__name__}: {error}"[:600]}
        line = {"case": case.name, **found, "took_s": time.monotonic() - begun}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | {"torch": torch.__version__}) + "\n")
        print(case.name, found.get("mean_s", found), f"{line['took_s']:.1f} s", flush=True)


def _made(case: Case) -> Any:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return tuning_memory._made(tuning_memory.Case(case.model, case.method, 1, SEQ), device)


def _measured(case: Case, model: Any) -> Line:
    """The mean step of micro-batches as they come, and the peak of the longest."""
    import torch

    cuda = torch.cuda.is_available()
    inner = getattr(model, "get_base_model", lambda: model)()
    inner.config._attn_implementation = _varlen() if case.way == "flash" else "sdpa"
    device = next(model.parameters()).device
    batches = [_on(each, device) for each in _batches(case, inner.config.vocab_size)]
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    mixed = torch.autocast(device.type, torch.bfloat16, enabled=case.method != "full")

    def step(batch: Line) -> None:
        optimizer.zero_grad(set_to_none=True)
        with mixed:
            loss = model(**batch["given"], use_cache=False).loss
        loss.backward()
        optimizer.step()

    step(batches[0])  # makes the states of the optimizer
    tuning_memory._cleared(cuda)
    step(batches[0])
    found: Line = {"peak_bytes": torch.cuda.max_memory_allocated() if cuda else 0}
    for each in batches[1:3]:
        step(each)
    found |= _timed(step, batches[3:])
    if cuda and case.model.startswith("llama") and case.mix in ("", "wide"):
        found["kernels"] = _kernels(step, batches[3])
    for parameter in model.parameters():
        parameter.grad = None
    return found


def _timed(step: Any, batches: list[Line]) -> Line:
    """All one after another, the host waiting for none but the last."""
    import torch

    cuda = torch.cuda.is_available()
    marks: list[Any] = []

    def mark() -> None:
        if cuda:
            marks.append(torch.cuda.Event(enable_timing=True))
            marks[-1].record()

    if cuda:
        torch.cuda.synchronize()
    begun = time.perf_counter()
    mark()
    for each in batches:
        step(each)
        mark()
    issued_s = time.perf_counter() - begun
    if cuda:
        torch.cuda.synchronize()
    took_s = time.perf_counter() - begun
    return {
        "mean_s": took_s / len(batches),
        "issued_s": issued_s / len(batches),
        "steps_s": [a.elapsed_time(b) / 1e3 for a, b in pairwise(marks)],
        "tokens": [each["tokens"] for each in batches],
        "shapes": [list(each["given"]["input_ids"].shape) for each in batches],
        "device": torch.cuda.get_device_name() if cuda else "cpu",
    }


def _kernels(step: Any, batch: Line) -> Line:
    """One step profiled: what ran on the device, the longest first."""
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as kept:
        step(batch)
        torch.cuda.synchronize()
    total, count = Counter[str](), Counter[str]()
    for event in kept.events():
        if event.device_type == DeviceType.CUDA:
            total[event.name] += event.device_time
            count[event.name] += 1
    top = [[name[:160], count[name], round(us, 1)] for name, us in total.most_common(25)]
    return {"launches": sum(count.values()), "busy_us": sum(total.values()), "top": top}


# -- examples --------------------------------------------------------------------------------------


def _batches(case: Case, vocabulary: int) -> list[Line]:
    """The longest that can come, then micro-batches as they come: what the model is given."""
    import numpy as np

    from gpuscope.program.lengths import parse_lengths

    random, rows, wanted = np.random.default_rng(1), ROWS[case.way], STEPS + 2
    if not case.mix:
        micro = [[[SEQ]] * rows] * wanted
        return [_batch(case, each, vocabulary) for each in ([[SEQ]] * rows, *micro)]
    drawn = parse_lengths(MIXES[case.mix]).draw(600, random)
    lengths = [int(each) for each in np.minimum(drawn, SEQ)]
    if case.way in ("flash", "mask"):
        packed = _packed(lengths)
        random.shuffle(packed)
        longest = [max(packed, key=sum)] * rows
    else:
        packed, longest = [[each] for each in lengths], [[SEQ]] * rows
    if case.way == "single":
        wanted = 3 * STEPS
    micro = [packed[n * rows : (n + 1) * rows] for n in range(wanted)]
    return [_batch(case, each, vocabulary) for each in (longest, *micro)]


def _packed(lengths: list[int]) -> list[list[int]]:
    """Rows of examples: best fit, decreasing."""
    rows: list[list[int]] = []
    for each in sorted(lengths, reverse=True):
        fitting = [row for row in rows if sum(row) + each <= SEQ]
        if fitting:
            max(fitting, key=sum).append(each)
        else:
            rows.append([each])
    return rows


def _batch(case: Case, rows: list[list[int]], vocabulary: int) -> Line:
    import torch

    examples = [n for row in rows for n in row]
    found: Line = {"tokens": sum(examples)}
    if case.way == "flash":
        from transformers import DataCollatorWithFlattening

        collate = DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_tensors="pt")
        drawn = [torch.randint(0, vocabulary, (n,)).tolist() for n in examples]
        return found | {"given": dict(collate([{"input_ids": each} for each in drawn]))}
    wide = SEQ if case.way in ("mask", "none") else max(examples)
    tokens = torch.randint(0, vocabulary, (len(rows), wide))
    labels = tokens.clone()
    given = {"input_ids": tokens, "labels": labels}
    if case.way == "mask":
        filled = [(*row, *((wide - sum(row),) if sum(row) < wide else ())) for row in rows]
        places = [torch.cat([torch.arange(n) for n in row]) for row in filled]
        given["position_ids"] = torch.stack(places)
    elif case.way != "none":
        given["attention_mask"] = (torch.arange(wide) < torch.tensor(examples)[:, None]).long()
    for number, row in enumerate(rows):
        labels[number, sum(row) :] = -100
    return found | {"given": given}


def _on(batch: Line, device: Any) -> Line:
    given = {k: v.to(device) if hasattr(v, "to") else v for k, v in batch["given"].items()}
    return batch | {"given": given}


def _varlen() -> str:
    """FlashAttention's kernel for lengths that vary, as transformers hands it rows."""
    import torch
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    def attention(
        module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **given: Any
    ) -> tuple[Any, None]:
        """[1, heads, tokens, size] each -> [1, tokens, heads, size]."""
        rows = [t.transpose(1, 2)[0].to(torch.bfloat16) for t in (query, key, value)]
        ends, longest = given["cu_seq_lens_q"], given["max_length_q"]
        if query.device.type == "cpu":  # to try the script
            parts = zip(*(t.split(ends.diff().tolist()) for t in rows), strict=True)
            each = [
                torch.nn.functional.scaled_dot_product_attention(
                    *(t.transpose(0, 1)[None] for t in part),
                    is_causal=True, scale=scaling, enable_gqa=True,
                )[0].transpose(0, 1)
                for part in parts
            ]  # fmt: skip
            return torch.cat(each)[None], None
        found = torch.ops.aten._flash_attention_forward(
            *rows, ends, ends, longest, longest, 0.0, True, False, scale=scaling
        )
        return found[0][None], None

    ALL_ATTENTION_FUNCTIONS.register(_VARLEN, attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(_VARLEN, lambda *_, **__: None)
    return _VARLEN


def main() -> None:
    """Predict or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("predict", "measure"))
    parser.add_argument("--on", default=DEVICE)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--budget", type=float, default=85.0, help="seconds in all")
    args = parser.parse_args()
    if args.what == "predict":
        predict(args.on)
    else:
        measure(args.out, args.budget)


if __name__ == "__main__":
    main()
