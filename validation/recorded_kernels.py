"""Recorded kernels against their cost models: `python validation/recorded_kernels.py [NAME ...]`.

Joins the kernels of the recorded steps (recordings/h200/zoo) with the models and says, by kernel
family, how much device time gets a model with FLOPs and how far the models are off. The recordings
hold shapes only. So dtypes are read off the symbols, strides are taken as dense, attention as
causal for decoders, and sums over two dimensions as those of a bias gradient.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src")]
RECORDINGS = HERE / "recordings" / "h200" / "zoo"
DECODERS = re.compile(r"gpt2|llama|qwen|mistral|mixtral|gemma|phi")
HELPERS = re.compile(r"^Mem(set|cpy)|nchwToNhwc|nhwcToNchw|reduce|Reduce|tensorTransform")
LONG_CALLS = re.compile(
    r"rnn|_fused_|_foreach_|embedding|sort|index_put|unique|convolution_backward"
)
"""Operators of which one call launches the same kernel again."""
ONE_KERNEL = re.compile(r"::(add|b)?mm$")
INTEGERS = frozenset({"embedding", "nll_loss_forward", "nll_loss_backward"})


def timeline_of(name: str) -> Any:
    """The recorded step as a timeline: one call a run of rows with one operator and shapes."""
    from gpuscope.timeline.types import (
        EVENT_KINDS,
        Events,
        Lane,
        Recorded,
        RecordedDevice,
        Source,
        Timeline,
    )

    with gzip.open(RECORDINGS / f"{name}.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    names: dict[str, int] = {}
    ops: dict[tuple[str, str, str], int] = {}
    made: list[Any] = []
    events: list[tuple[int, ...]] = []
    launched: list[tuple[Any, ...]] = []
    before: tuple[str, str] = ("", "")
    seen: set[str] = set()
    call = -1
    for at, row in enumerate(rows):
        symbol, start = row["kernel"], round(float(row["start_us"]) * 1000)
        what = (row["op"], row["shapes"])
        main = not HELPERS.search(symbol) and not LONG_CALLS.search(row["op"])
        # A main symbol seen before in the same run of rows begins another call.
        if what != before or (main and (symbol in seen or (seen and ONE_KERNEL.search(row["op"])))):
            before, seen = what, set()
            ahead = [r["kernel"] for r in rows[at : at + 4] if (r["op"], r["shapes"]) == what]
            telling = [s for s in ahead if not HELPERS.search(s)] or ahead
            key = (*what, _dtype(telling[0]))
            if row["op"] not in ("",) and key not in ops:
                ops[key] = len(made)
                made.append(_op(len(made), row["op"], row["shapes"], key[2], name))
            events.append(
                (
                    start,
                    1,
                    names.setdefault(row["op"], len(names)),
                    EVENT_KINDS.index("operator"),
                    0,
                    ops.get(key, -1),
                    -1,
                    len(events),
                )
            )
            call = len(events) - 1
        if main:
            seen.add(symbol)
        kind = (
            "memset"
            if symbol.startswith("Memset")
            else ("memcpy" if symbol.startswith("Memcpy") else "kernel")
        )
        op = events[call][5]
        events.append(
            (
                start,
                round(float(row["duration_us"]) * 1000),
                names.setdefault(symbol, len(names)),
                EVENT_KINDS.index(kind),
                1,
                op,
                -1,
                len(events),
            )
        )
        launched.append((len(events) - 1, row["grid"], row["block"], row["bytes"], call))
    columns = np.array(events, np.int64).T
    order = np.arange(len(events))
    columns[0] = np.maximum.accumulate(columns[0])
    columns[7] = -1
    of = [x[4] if events[x[4]][5] >= 0 else -1 for x in launched]
    count = len(launched)
    none = np.full(count, -1, np.int64)

    def triples(at: int) -> Any:
        return np.array([[int(n) for n in (x[at] or "-1x-1x-1").split("x")] for x in launched])

    recorded = Recorded(
        event=order[[x[0] for x in launched]],
        grid=triples(1),
        block=triples(2),
        registers=none,
        shared_bytes=none,
        occupancy=np.full(count, np.nan),
        nbytes=np.array([int(x[3] or -1) for x in launched]),
        stream=none,
        graph=none,
        launch=none,
        operator=np.array(of, np.int64),
        collective=none,
        sequence=none,
    )
    board = RecordedDevice(0, "NVIDIA H200", 150109880320, (9, 0), 132, 32, 2048)
    return Timeline(
        tuple(names),
        (Lane("host", "host", device=-1), Lane("stream 7", "stream")),
        Events(*columns),
        ops=tuple(made),
        origin="measured",
        recorded=recorded,
        sources=(Source(0, name, devices=(board,), with_shapes=True),),
    )


def _dtype(symbol: str) -> str:
    from gpuscope.analysis.symbols import symbol_dtype

    if symbol.startswith("nvjet_sm90_t"):
        return "bfloat16"
    if symbol.startswith("cudnn_generated_fort_native_sdpa") or "cudnn" in symbol:
        return "bfloat16" if "f32f32" not in symbol else "float32"
    return symbol_dtype(symbol) or (
        "float32" if "f32f32" in symbol or "sgemm" in symbol else "bfloat16"
    )


def _op(index: int, name: str, shapes: str, dtype: str, run: str) -> Any:
    from gpuscope.program.types import Op, TensorSpec

    short = name.rpartition("::")[2]
    try:
        positions = json.loads(shapes) if shapes else []
    except json.JSONDecodeError:  # cut off in the recording: long lists of tensors
        positions = []
    flat: list[list[int]] = []
    for entry in positions:
        nested = bool(entry) and isinstance(entry[0], list)
        flat += entry if nested else [entry] if entry else []
    tensors = []
    for i, shape in enumerate(flat):
        stride = [int(np.prod(shape[j + 1 :])) for j in range(len(shape))]
        word = "int64" if i == 1 and (short in INTEGERS or "embedding" in short) else dtype
        tensors.append(TensorSpec(tuple(shape), tuple(stride), word))
    texts = [""] * max(len(positions), 16)
    if short in ("sum", "mean") and len(positions) > 2 and flat:
        texts[1] = "[0]" if short == "sum" else "[-1]"
    causal = str(bool(DECODERS.search(run)))
    for at in {
        "_cudnn_attention_forward": (10,),
        "_cudnn_attention_backward": (14,),
        "_flash_attention_forward": (8,),
        "_flash_attention_backward": (11,),
    }.get(short, ()):
        texts[at] = causal
    if short == "cat":
        texts[1] = "-1"
    if short == "cudnn_convolution":
        return Op(index, name, inputs=tuple(tensors))  # its size comes from the gradient's
    return Op(index, name, inputs=tuple(tensors), args={"concrete_inputs": tuple(texts)})


def judge(names: list[str]) -> None:
    from gpuscope.analysis.modelled import modelled
    from gpuscope.hardware import device

    total: dict[str, list[Any]] = defaultdict(lambda: [0.0, 0.0, 0.0, [], []])
    print(f"{'run':24s} device ms  modelled  with FLOPs  model/recorded")
    for name in names:
        joined = modelled(timeline_of(name), device("h200"))
        events = joined.events
        took = events.duration_ns[joined.recorded.event] * 1e-6
        kernels = [joined.kernels[i] for i in events.kernel[joined.recorded.event]]
        said = np.array([k.origin != "measured" for k in kernels])
        flops = np.array([k.flops > 0 for k in kernels])
        expected = np.array([k.duration_s for k in kernels]) * 1e3
        print(
            f"{name:24s} {took.sum():9.2f} {took[said].sum() / took.sum():8.0%} "
            f"{took[flops].sum() / took.sum():10.0%} "
            f"{expected[said].sum() / max(took[said].sum(), 1e-9):10.2f}"
        )
        for kernel, ms, mine, known in zip(kernels, took, expected, said, strict=True):
            for key in (kernel.kind, "all"):
                row = total[key]
                row[0] += ms
                row[1] += ms if known else 0.0
                row[2] += ms if kernel.flops else 0.0
                if known:
                    row[3].append(abs(mine / ms - 1))
                    row[4].append(ms)
    print(f"\n{'family':14s} device ms  modelled  with FLOPs  median |model/recorded - 1|, by time")
    for key, (ms, known, flops_ms, errors, weights) in sorted(
        total.items(), key=lambda x: -x[1][0]
    ):
        if errors:
            order = np.argsort(errors)
            share = np.cumsum(np.array(weights)[order]) / sum(weights)
            by_time = np.array(errors)[order][np.searchsorted(share, 0.5)]
            print(
                f"{key:14s} {ms:9.1f} {known / ms:8.0%} {flops_ms / ms:10.0%} "
                f"{np.median(errors):18.0%} {by_time:18.0%}"
            )
        else:
            print(f"{key:14s} {ms:9.1f} {0:8.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    every = sorted(path.name.removesuffix(".csv.gz") for path in RECORDINGS.glob("*.csv.gz"))
    judge(parser.parse_args().names or every)


if __name__ == "__main__":
    main()
