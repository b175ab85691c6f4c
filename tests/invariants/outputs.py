"""Real outputs, each made once a process: what every invariant must hold for.

Depths and sizes are reduced, so that all of them together take about a minute of CPU; what they go
through (capture, costs, simulation, analysis, page, screens, pictures, "What if") is real.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gpuscope import api
from gpuscope.invariants import Checked, Output, check
from gpuscope.loading import load
from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.pipeline import job_programs
from gpuscope.program.workload import WorkloadOptions
from gpuscope.run import Run
from gpuscope.views.check import output_of

TESTS = Path(__file__).parents[1]
TRACES = TESTS / "data" / "traces"
SHARED = TESTS.parents[1] / "shared" / "traces"
"""Recordings beside the repository; those tests are left out where it is not there."""

BUILT_IN: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2 train": ("gpt2", "h200", {"task": "train", "batch": 4, "seq": 512, "layers": 2}),
    "gpt2 train, small": ("gpt2", "h100", {"task": "train", "batch": 1, "seq": 64, "layers": 2}),
    "gpt2 prefill": ("gpt2", "a100", {"task": "prefill", "batch": 2, "seq": 512, "layers": 2}),
    "gpt2 decode": ("gpt2", "h200", {"task": "decode", "batch": 1, "layers": 3}),
    "gpt2 compiled": (
        "gpt2",
        "h200",
        {"task": "train", "batch": 4, "seq": 512, "layers": 2, "compile": "default"},
    ),
    "gpt2 in graphs": (
        "gpt2",
        "h200",
        {"task": "decode", "batch": 1, "layers": 2, "compile": "reduce-overhead"},
    ),
    "gpt2 checkpointed": (
        "gpt2",
        "h200",
        {"task": "train", "batch": 4, "seq": 512, "layers": 2, "checkpointing": True},
    ),
    "gpt2 float32": (
        "gpt2",
        "rtx-4090",
        {"task": "train", "batch": 2, "seq": 256, "layers": 2, "dtype": "float32"},
    ),
    "llama train": (
        "llama-3.2-1b",
        "b200",
        {"task": "train", "batch": 2, "seq": 1024, "layers": 2},
    ),
    "llama decode": ("llama-3.1-8b", "h200", {"task": "decode", "batch": 8, "layers": 2}),
    "qwen prefill": ("qwen2.5-0.5b", "mi300x", {"task": "prefill", "seq": 2048, "layers": 2}),
    "gemma decode": ("gemma-3-270m", "l40s", {"task": "decode", "batch": 4, "layers": 2}),
    "mixtral prefill": ("mixtral-8x7b", "h200", {"task": "prefill", "seq": 512, "layers": 1}),
    "bert train": ("bert-base", "gaudi3", {"task": "train", "batch": 8, "seq": 128, "layers": 2}),
    "lstm train": ("lstm", "h100", {"task": "train", "batch": 16}),
    "dlrm train": ("dlrm", "h200", {"task": "train", "batch": 2048}),
}

FOLDED = "folded pipeline"
"""As a long one is: each pass of a microbatch is a handful of operators without own work."""

JOBS: Mapping[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "fsdp": ("llama-3.2-1b", "8xh200", {"seq": 1024, "layers": 2}, {"fsdp": "full"}),
    "zero1": ("gpt2", "4xh100", {"seq": 512, "layers": 2}, {"fsdp": "zero1"}),
    "tp": ("llama-3.2-1b", "4xh200", {"seq": 1024, "layers": 2}, {"tp": 4}),
    "tp and dp": ("llama-3.2-1b", "8xa100", {"seq": 512, "layers": 2}, {"tp": 2, "dp": 4}),
    "pipeline": (
        "llama-3.2-1b",
        "4xh200",
        {"seq": 512, "layers": 4},
        {"pp": 4, "microbatch": 1, "global_batch": 8},
    ),
    FOLDED: (
        "llama-3.2-1b",
        "2xh200",
        {"seq": 512, "layers": 2},
        {"pp": 2, "microbatch": 1, "global_batch": 16},
    ),
    "context parallel": ("llama-3.2-1b", "2xh200", {"seq": 2048, "layers": 2}, {"cp": 2}),
    "two nodes": ("gpt2", "2x8xh100", {"seq": 256, "layers": 2}, {"fsdp": "full"}),
}


def _mlp(extra: str = "") -> Callable[[], Callable[[], object]]:
    """A training step of two layers; `extra` is what else it does."""

    def build() -> Callable[[], object]:
        model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        host = torch.randn(512, 1024)
        held = torch.randn(512, 1024, device="cuda")

        def step() -> object:
            x = host.cuda() if extra == "copies" else held
            optimizer.zero_grad(set_to_none=True)
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.item() if extra == "waits" else loss

        return step

    return build


OWN: Mapping[str, Callable[[], Callable[[], object]]] = {
    "own build": _mlp(),
    "own build that copies": _mlp("copies"),
    "own build that waits": _mlp("waits"),
}

RECORDED = (
    *("compute_bound", "graph_decode", "host_bound", "input_bound", "pageable_copies"),
    *("snapshot.pickle", "sync_bound", "two_streams"),
)
RECORDED_JOBS = (
    *("ddp_balanced", "ddp_imbalance", "ddp_slow_host", "fsdp", "tensor_parallel_host_bound"),
)
RECORDED_ELSEWHERE = (
    "h200/gpt2_medium_b8_s1024_bf16.json.gz",
    "h200/resnet50_b256_bf16_cl.json.gz",
    "h200/tp8_llama8b_prefill_b1_s2048_rank0.json.gz",
    "hta/critical_path_alexnet",
    "hta/amd_trace",
    "kineto_tb_samples/resnet50_num_workers_0",
    "param/dlrm_8rank",
    "param/linear_kineto.json.gz",
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
)


@cache
def built_in(name: str) -> Run:
    """A built-in model on one device."""
    model, on, options = BUILT_IN[name]
    return api.predict(model, on, options=WorkloadOptions(**options))


@cache
def own(name: str) -> Run:
    """A build of the user's own."""
    return api.predict(OWN[name], "h200")


@cache
def job(name: str) -> Run:
    """Many ranks."""
    model, on, options, parallel = JOBS[name]
    asked = WorkloadOptions(task="train", parallel=ParallelOptions(**parallel), **options)
    with pytest.MonkeyPatch.context() as patch:
        if name == FOLDED:
            patch.setattr(job_programs, "LONG", 0)
        return api.predict(model, on, options=asked)


@cache
def recorded(path: Path) -> Run:
    """What somebody recorded."""
    return load(str(path))


@cache
def checked(run: Callable[[Any], Run], name: Any) -> Checked:
    """Every invariant over a run, its page, its screens and its pictures."""
    return check(output(run, name))


def output(run: Callable[[Any], Run], name: Any) -> Output:
    """Everything that is shown of a run."""
    return output_of(run(name))


def told(found: Checked) -> str:
    """The violations, one a line."""
    return "\n".join(map(str, found.violations))
