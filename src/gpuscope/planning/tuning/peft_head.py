"""The head of a fine-tuning script: what it is and what starts it, its imports, its constants."""

from __future__ import annotations

from collections.abc import Mapping
from pprint import pformat
from textwrap import fill, indent

from gpuscope.document.quantities import Bytes, Seconds
from gpuscope.planning.tuning.types import Tuned, TuningQuestion, Weighed
from gpuscope.planning.writers.torchrun import launched
from gpuscope.program.models.registry import find
from gpuscope.program.models.transformers_spec import TransformersSpec
from gpuscope.program.models.tuning import TARGETS

__all__ = ["STEPS", "constants", "header", "imports", "is_sharded"]

FILE = "tune.py"
"""What the launching line calls it."""

STEPS = 12
"""Of a script whose plan does not say how many tokens there are."""

_LENGTHS = 40
"""Lengths that stand for all of a plan's examples, where the script draws its own."""

_WIDTH = 96

_ATTENTION: Mapping[str, str] = {
    "flash": '"flash_attention_2" if torch.cuda.is_available() else "sdpa"'
}
"""By packing, where it is not PyTorch's own."""
_USUAL = '"sdpa"'

_MORE = (
    "Put --model (a folder, or a name on the hub) and --data (a file of JSON lines, each with "
    '"text") behind it for yours; without them weights and tokens are random, and what it prints '
    "can be held against the plan. --steps and --save FOLDER are there, too."
)

_CHECKED = (
    "Checked: scripts like this one run on a processor, in gpuscope's tests, with transformers "
    "5.17, peft 0.21, bitsandbytes 0.50 and a tiny model. Not checked: on a GPU."
)


def is_sharded(each: Tuned) -> bool:
    """Whether every device holds a part of each tensor."""
    return each.devices > 1 and each.tuning.sharding == "full"


def header(question: TuningQuestion, best: Weighed) -> str:
    """What it is, what starts it, what was planned, and what of it was checked."""
    each = best.candidate
    planned = f"a step of some {Seconds(best.step_s)} by the quick score; nothing was simulated."
    if best.simulated:
        planned = (
            f"a step of {Seconds(best.step_s)} (80 % sure: {Seconds(best.low_s)} to "
            f"{Seconds(best.high_s)}), {Bytes(best.peak_bytes)} at most on a device."
        )
    lines = [
        _filled(f'"""{question.model}: {each.words}. Start it on {each.cluster.name}:'),
        "",
        "    " + (launched(each.cluster, FILE) if each.devices > 1 else f"python {FILE}"),
        "",
        _filled(_MORE),
        "",
        _filled(f"Planned: {planned}"),
        _filled(_CHECKED),
        f"It needs: pip install {' '.join(_packages(each))}",
    ]
    if "attn_logit_softcapping" in _config(question.model)[1]:
        capped = "This model caps its attention's scores, which sdpa does not, nor did the plan."
        lines.append(f'{capped} "eager" does, and takes more memory.')
    return "\n".join([*lines, '"""'])


def _packages(each: Tuned) -> list[str]:
    found = ["transformers", "accelerate"]
    found += ["peft"] if each.tuning.method != "full" else []
    found += ["bitsandbytes"] if _needs_bitsandbytes(each) else []
    return found + (["flash-attn"] if each.packing == "flash" else [])


def _needs_bitsandbytes(each: Tuned) -> bool:
    return each.tuning.method == "qlora" or each.tuning.optimizer != "adamw"


def _config(model: str) -> tuple[str, dict[str, object]]:
    """Class and values of a decoder's configuration in `transformers`."""
    spec = getattr(find(model).build, "__self__", None)
    assert isinstance(spec, TransformersSpec)  # every decoder that has a size is one
    return spec.config, dict(spec.values)


def imports(question: TuningQuestion, each: Tuned) -> str:
    """Standard ones, then others."""
    several, tuning = each.devices > 1, each.tuning
    standard = ["argparse", "itertools", "json", "random", "time"]
    standard += ["os"] if several else []
    standard += ["contextlib"] if several and not is_sharded(each) else []
    other = ["import bitsandbytes as bnb"] if _needs_bitsandbytes(each) else []
    other += ["import torch"]
    other += ["import torch.distributed as dist"] if several else []
    if tuning.method != "full":
        found = ["LoraConfig", "get_peft_model"]
        widened = tuning.method == "qlora" and not is_sharded(each)
        found += ["prepare_model_for_kbit_training"] if widened else []
        other.append(f"from peft import {', '.join(found)}")
    other.append("from torch import nn")
    if is_sharded(each):
        other.append("from torch.distributed.device_mesh import init_device_mesh")
        other.append("from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard")
    elif several:
        other.append("from torch.nn.parallel import DistributedDataParallel")
    names = {"AutoModelForCausalLM", "AutoTokenizer", _config(question.model)[0]}
    names |= {"DataCollatorWithFlattening"} if each.packing == "flash" else set()
    other.append("from transformers import (")
    other += [f"    {name}," for name in sorted(names)] + [")"]
    return "\n".join([*(f"import {name}" for name in sorted(standard)), "", *other])


def constants(question: TuningQuestion, each: Tuned) -> str:
    """What the functions read."""
    steps = STEPS if question.steps is None else max(1, round(question.steps))
    passes = round(each.passes, 4)
    average = ", on average: so many rows do its examples fill" if passes % 1 else ""
    several, tuning = each.devices > 1, each.tuning
    number = 'int(os.environ.get("LOCAL_RANK", 0))' if several else "0"
    places = 'int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])' if several else "0, 1"
    on_host = is_sharded(each) or tuning.method == "qlora"
    home = 'torch.device("cpu")  # of weights, until a device has its part' if on_host else "DEVICE"
    config, values = _config(question.model)
    lines = [
        f"SEQ, MICROBATCH, STEPS = {question.seq}, {each.microbatch}, {steps}",
        f"PASSES = {passes:g}  # micro-batches of a step{average}",
        _list("LENGTHS", _lengths(question)),
        "RATE = 1e-4  # yours to choose",
        f"DEVICE_NUMBER = {number}",
        f"PLACE, PLACES = {places}",
        'DEVICE = torch.device(f"cuda:{DEVICE_NUMBER}" if torch.cuda.is_available() else "cpu")',
        f"HOME = {home}",
        f"ATTENTION = {_ATTENTION.get(each.packing, _USUAL)}",
    ]
    if tuning.method != "full":
        lines.append(f"RANK, TARGETS = {tuning.rank}, {_targets(tuning.targets)}")
    shown = indent(pformat(values, width=_WIDTH - 4).replace("'", '"'), "    ")
    lines.append(f"CONFIG = {config}.from_dict(\n{shown}\n)")
    return "\n".join(lines)


def _lengths(question: TuningQuestion) -> list[int]:
    """Of examples that stand for all, evenly taken."""
    found = question.lengths or (question.seq,)
    count = min(_LENGTHS, len(found))
    return [found[int((n + 0.5) * len(found) / count)] for n in range(count)]


def _list(name: str, values: list[int]) -> str:
    text = f"{name} = {values}"
    return _filled(text, " " * (len(name) + 4))


def _filled(text: str, before: str = "") -> str:
    """In lines of the script's width, `before` each but the first."""
    return fill(text, _WIDTH, subsequent_indent=before, break_on_hyphens=False)


def _targets(targets: tuple[str, ...]) -> str:
    """As `LoraConfig` takes them."""
    if targets == TARGETS["all-linear"]:
        return '"all-linear"'
    return "[" + ", ".join(f'"{name}_proj"' for name in targets) + "]"
