"""What a shape costs the first time that it comes: why steps of ever new lengths were slow.

    python validation/new_shapes.py --out DIR          # one GPU, a minute: DIR/new_shapes.jsonl

In `packing_steps.py` steps with LoRA whose rows had ever new lengths took 0.2 s more of the host
than launches explain, and full fine-tuning of the same lengths, later in the same process, did not.
Expected, and written down before this was run: PyTorch's attention takes cuDNN, which makes a plan
for every new shape (0.05 to 0.1 s forward, as much backward), where FlashAttention's kernel and
cuBLAS need less than a millisecond; a second pass over the same lengths is as quick as rows of one
length (about 95 ms with LoRA).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

LENGTHS = (378, 102, 599, 415, 1610, 1960, 318, 514)
MASKED = (450, 469, 300, 818, 253, 1581)

Line = dict[str, Any]


def _s(run: Callable[[], object]) -> float:
    import torch

    torch.cuda.synchronize()
    begun = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - begun


def attention(say: Callable[[Line], None]) -> None:
    """Forward and backward of each new shape, twice: by PyTorch's choice, and by FlashAttention."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as attend

    every = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    every.append(SDPBackend.EFFICIENT_ATTENTION)
    for name, kinds in (("usual", every), ("flash", [SDPBackend.FLASH_ATTENTION])):
        for masked, lengths, rows in ((False, LENGTHS, 1), (True, MASKED, 4)):
            if masked and name == "flash":
                continue  # it takes no mask
            for number, n in enumerate((64, *lengths)):
                shape = rows, 32, n, 64
                q, k, v = (
                    torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
                    for _ in range(3)
                )
                mask = torch.ones(rows, 1, n, n, dtype=torch.bool, device="cuda").tril()
                given: Line = {"attn_mask": mask} if masked else {"is_causal": True}
                line: Line = {"what": "attention", "by": name, "masked": masked, "tokens": n}
                with sdpa_kernel(kinds):
                    for time_ in ("first", "second"):
                        made: list[Any] = []
                        line[f"{time_}_forward_s"] = _s(
                            lambda made=made, q=q, k=k, v=v, given=given: made.append(
                                attend(q, k, v, **given)
                            )
                        )
                        grad = torch.ones_like(made[0])
                        line[f"{time_}_backward_s"] = _s(
                            lambda made=made, grad=grad: made[0].backward(grad)
                        )
                if number:  # the shortest loads what every shape needs
                    say(line)


def products(say: Callable[[Line], None]) -> None:
    """A product of each new number of rows, twice."""
    import torch

    weight = torch.randn(2048, 8192, device="cuda", dtype=torch.bfloat16)
    for number, n in enumerate((64, *LENGTHS)):
        rows = torch.randn(n, 2048, device="cuda", dtype=torch.bfloat16)
        first, second = (_s(lambda rows=rows: rows @ weight) for _ in range(2))
        if number:
            say({"what": "product", "tokens": n, "first_s": first, "second_s": second})


def steps(say: Callable[[Line], None]) -> None:
    """LoRA steps of new lengths, then the same ones again: what a step takes of the host."""
    import packing_steps
    import torch

    case = packing_steps.Case("llama-3.2-1b", "lora", "single", "wide")
    model = packing_steps._made(case)
    inner = model.get_base_model()
    inner.config._attn_implementation = "sdpa"
    device = next(model.parameters()).device
    batches = packing_steps._batches(case, inner.config.vocab_size)[1:]
    given = [packing_steps._on(each, device)["given"] for each in batches]
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)

    def step(batch: Line) -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(**batch, use_cache=False).loss
        loss.backward()
        optimizer.step()

    for _ in range(3):
        step(given[0])
    for number in ("first", "second", "third"):
        say({"what": "step", "pass": number, "steps_s": [_s(lambda b=b: step(b)) for b in given]})
    same = [_s(lambda: step(given[1])) for _ in range(8)]
    say({"what": "step", "pass": "one length", "steps_s": same})


def main() -> None:
    """Measure all three."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path())
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    def say(line: Line) -> None:
        line |= {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        with (out / "new_shapes.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)

    for each in (products, attention, steps):
        each(say)


if __name__ == "__main__":
    main()
