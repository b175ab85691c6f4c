"""Collect the operators of the world's models: `python -m benchmarks.harvest.collect OUT.jsonl.gz`.

Captures a step of each architecture of transformers (its own configuration: widths, heads, experts
and vocabulary as its authors set them; two layers, since all are alike) and of each family of timm,
torchvision and diffusers (`packages.py`; those that are installed), without a GPU, and writes
every distinct operator call with exact shapes, strides, dtypes and flags, with the families that
make it. What a model is run as (training or inference, precision, batch, length) is drawn by a hash
of its name, so that every run draws the same. Goes on where it stopped.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from benchmarks.harvest import packages  # noqa: E402
from benchmarks.harvest.calls import ATTENTION, RefusedError, taken  # noqa: E402
from validation.corpus import shrink  # noqa: E402
from validation.corpus.families import transformers_models as models  # noqa: E402

PRECISIONS = ("fp32", "tf32", "autocast", "bf16", "fp16")
TEXTS = ((1, 512), (4, 512), (8, 128), (16, 64), (3, 333), (32, 128), (8, 512))
LONG = ((1, 2048), (2, 1024), (1, 4096))
"""Batch and length; long ones for decoders, whose positions reach so far."""

SHORT = frozenset("bert roberta xlm-roberta camembert electra gpt2 openai-gpt bart".split())
PICTURES = (1, 4, 16, 32)


def cases() -> list[tuple[str, str, str]]:
    """(task, architecture, way): each architecture for at most two of its tasks."""
    levels = json.loads(models.LEVELS.read_text("utf-8"))
    found: dict[str, list[tuple[str, str, str]]] = {}
    for task, kinds in levels.items():
        for kind, done in kinds.items():
            way = "train" if "train" in done else "forward" if "forward" in done else ""
            if way and len(found.setdefault(kind, [])) < 2:
                found[kind].append((task, kind, way))
    chosen = [case for of_kind in found.values() for case in of_kind]
    return sorted(chosen, key=lambda c: random.Random(f"order {c}").random())


@contextmanager
def _true_sizes(batch: int, length: int) -> Iterator[None]:
    """The corpus' builders at true widths: its small sizes are set aside for the while."""
    before = shrink.arguments, models.BATCH, models.LENGTH

    def arguments(config: type, level: str) -> dict[str, Any]:
        found = before[0](config, "layers")
        return {k: v for k, v in found.items() if isinstance(v, dict) or _layers(k)}

    shrink.arguments, models.BATCH, models.LENGTH = arguments, batch, length
    try:
        yield
    finally:
        shrink.arguments, models.BATCH, models.LENGTH = before


def _layers(name: str) -> bool:
    return bool(shrink._LAYERS.search(name)) or name in ("depths", "layers_per_stage")


def step_of(task: str, kind: str, way: str) -> tuple[dict[str, Any], Any]:
    """How the model is run, and the function that builds its step."""
    rng = random.Random(f"{task} {kind} {way}")
    precision = rng.choice(PRECISIONS)
    pictures = task in ("picture", "segmentation", "backbone", "depth", "detection", "video")
    batch, length = (rng.choice(PICTURES), 16) if pictures else rng.choice(TEXTS)
    if task == "causal" and rng.random() < 0.5 and kind not in SHORT:
        batch, length = rng.choice(LONG)
    way = rng.choice(("train", "forward")) if way == "train" else way
    facts = {
        "family": kind,
        "task": task,
        "way": way,
        "precision": precision,
        "batch": batch,
        "length": length,
    }

    def build() -> Any:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision != "fp32"
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
        torch.set_default_dtype(dtype)
        with _true_sizes(batch, length):
            step = models.WAYS[way](task, kind, "layers", "cuda")
        if precision != "autocast":
            return step

        def under() -> object:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return step()

        return under

    return facts, build


NO_KERNEL = frozenset(
    "_unsafe_view new_empty empty empty_like empty_strided new_empty_strided _reshape_alias"
    " resize_ set_ detach alias lift_fresh".split()
)


def _params(facts: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """A recorded operator as `Call.params`; attention as PyTorch's own function."""
    if facts.name.startswith("aten::"):
        return taken(f"{facts.name[6:]}.{facts.overload}", args, kwargs)
    if facts.name == "gpuscope::attention":
        q, k, v, mask, dropout, causal, scale, _ = args
        return taken(f"{ATTENTION}.default", (q, k, v, mask, dropout, causal), {"scale": scale})
    if facts.name == "gpuscope::attention_backward":
        _, q, k, v, _, _, mask, dropout, causal, scale, _ = args
        return taken(f"{ATTENTION}.backward", (q, k, v, mask, dropout, causal), {"scale": scale})
    raise RefusedError(facts.name)


@contextmanager
def listening(heard: dict[str, dict[str, Any]]) -> Iterator[None]:
    """Every operator that a capture records inside of the block, as `Call.params` by its text."""
    from gpuscope.program.capture.recorder import Recorder

    record = Recorder._record

    def both(self: Any, facts: Any, args: Any, kwargs: Any, out: Any) -> None:
        if self.recording and not facts.viewing and facts.name[6:] not in NO_KERNEL:
            try:
                found = _params(facts, args, kwargs)
                heard.setdefault(json.dumps(found, sort_keys=True), found)
            except (RefusedError, AttributeError, RuntimeError):
                pass
        record(self, facts, args, kwargs, out)

    Recorder._record = both  # type: ignore[method-assign]
    try:
        yield
    finally:
        Recorder._record = record  # type: ignore[method-assign]


def collect(case: tuple[str, str, str]) -> dict[str, Any]:
    """One line of the file: how the model was run, and its calls, or why it could not be."""
    import torch

    import gpuscope as gs

    facts, build = (packages if case[0] in packages.PACKAGES else sys.modules[__name__]).step_of(
        *case
    )
    heard: dict[str, dict[str, Any]] = {}
    began, default = time.perf_counter(), torch.get_default_dtype()
    try:
        with listening(heard):
            gs.capture(build)
        return {**facts, "s": round(time.perf_counter() - began, 1), "calls": list(heard.values())}
    except Exception as error:
        return {**facts, "failed": f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"}
    finally:
        torch.set_default_dtype(default)


def main() -> int:
    """Capture until all are done or the time is over."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--only", nargs="*", help="architectures")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    done: set[tuple[str, str]] = set()
    if args.out.exists():
        with gzip.open(args.out, "rt") as lines:
            done = {
                (row["task"], row.get("model", row["family"])) for row in map(json.loads, lines)
            }
    deadline_s = time.monotonic() + args.seconds
    for case in (*cases(), *packages.cases()):
        if case[:2] in done or (args.only and case[1] not in args.only):
            continue
        if time.monotonic() > deadline_s:
            break
        row = collect(case)
        with gzip.open(args.out, "at") as out:
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
        print(*case, row.get("failed") or f"{len(row['calls'])} calls, {row['s']} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
