"""What every recording with a known cause must be told first, and what it must not be told.

The project's own recordings (tests/data/traces/README.md) and, where they are at hand, real traces
with known answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from gpuscope.document.text import render
from gpuscope.loading import load
from gpuscope.run import Run

OWN = Path(__file__).parents[1] / "data" / "traces"
SHARED = Path(__file__).parents[3] / "shared" / "traces"

LAUNCH_LESS = ("host_bound", "launch_bound", "small_kernels", "sync_bound", "input_bound")
"""Advice that is wrong where the device is busy."""


@dataclass(frozen=True)
class Known:
    """What is known of a recording.

    `first` is the kind of the first finding (None: there is none), `says` what its title or
    evidence must hold in each language, `absent` kinds that must not be among the findings,
    `straggler` the rank that holds up the others, `transfer_and_waiting` whether they stand apart.
    """

    first: str | None
    says: tuple[str, ...] = ()
    says_zh: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    straggler: int | None = None
    transfer_and_waiting: bool = False


ANY = "any"
"""Whatever costs most: only what must be absent is known."""

ANSWERS: dict[str, Known] = {
    "h200/compute_bound": Known(
        "compute_bound",
        ("Arithmetic sets the pace",),
        ("计算决定了速度",),
        (*LAUNCH_LESS, "low_occupancy", "pageable_copies", "untrusted_trace"),
    ),
    "h200/host_bound": Known(
        "host_bound",
        ("The host sets the pace", "record_traces.py"),
        ("主机决定了速度",),
        ("sync_bound", "input_bound", "communication_bound", "untrusted_trace"),
    ),
    "h200/input_bound": Known(
        "input_bound",
        ("waits for input data 80 %", "DataLoader"),
        ("等待输入数据",),
        ("host_bound", "sync_bound", "launch_bound", "untrusted_trace"),
    ),
    "h200/sync_bound": Known(
        "sync_bound",
        ("25 times a step", "_local_scalar_dense", "340 µs (14 %)", "1.44 ms more"),
        ("等待设备 25 次", "340 µs（14 %）", "1.44 ms"),
        ("input_bound", "untrusted_trace"),
    ),
    "h200/pageable_copies": Known(
        "pageable_copies",
        ("64.0 MiB at 9.36 GB/s",),
        ("可分页", "64.0 MiB"),
        ("transfer_bound", *LAUNCH_LESS, "untrusted_trace"),
    ),
    "h200/graph_decode": Known(
        "well_used",
        ("without waiting for its host", "20 graphs of 60 kernels"),
        ("无需等待主机", "20 个图"),
        (*LAUNCH_LESS, "pageable_copies", "untrusted_trace"),
    ),
    "h200/two_streams": Known(
        "transfer_bound",
        ("copy on another stream: it is overlapped", "338 µs of it beside"),
        ("等待另一个流上的拷贝", "338 µs 与内核同时进行"),
        (*LAUNCH_LESS, "pageable_copies", "untrusted_trace"),
    ),
    "h200/resnet50_channels_last": Known(
        ANY, absent=("untrusted_trace", "host_bound", "sync_bound", "input_bound")
    ),
    "8xh200/tensor_parallel_one_rank": Known(
        "collective_waiting",
        ("80 % of the step", "should take 95.6 µs", "88 % of the time working"),
        ("等待其他 rank", "本应 95.6 µs"),
        ("communication_bound", "untrusted_trace", "compute_bound"),
        transfer_and_waiting=True,
    ),
    "4xh200/ddp_balanced": Known(
        "compute_bound",
        ("Arithmetic sets the pace",),
        ("计算决定了速度",),
        ("untrusted_trace", "wait_for_rank", "input_bound", "host_bound", "communication_bound"),
        transfer_and_waiting=True,
    ),
    "4xh200/ddp_slow_host": Known(
        "host_bound",
        ("The host of rank 1 holds up all ranks", "rank 1 15.7 ms, the others 4.90"),
        ("rank 1 的主机拖慢了所有 rank",),
        ("communication_bound", "untrusted_trace", "sync_bound"),
        straggler=1,
        transfer_and_waiting=True,
    ),
    "4xh200/ddp_imbalance": Known(
        "wait_for_rank",
        ("The ranks wait for rank 3", "its device was busy longer"),
        ("等待 rank 3",),
        ("communication_bound", "host_bound", "untrusted_trace", "sync_bound"),
        straggler=3,
        transfer_and_waiting=True,
    ),
    "4xh200/tensor_parallel_host_bound": Known(
        "host_bound",
        ("The host of rank 0 holds up all ranks", "the others 1.89 ms to 3.89 ms"),
        ("rank 0 的主机拖慢了所有 rank",),
        ("communication_bound", "untrusted_trace"),
        straggler=0,
        transfer_and_waiting=True,
    ),
    "4xh200/fsdp": Known(
        "host_bound",
        (
            "The hosts of all ranks are slower than their devices",
            "28.5 ms",
            "the others 21.4 ms to 26.3 ms",
            "5.74 ms of work and transfer",
        ),
        ("所有 rank 的主机都慢于其设备", "rank 1"),
        ("communication_bound", "untrusted_trace"),
        straggler=1,
        transfer_and_waiting=True,
    ),
}

SHARED_ANSWERS: dict[str, Known] = {
    "kineto_tb_samples/resnet50_num_workers_0": Known(
        "input_bound",
        ("waits for input data 34 %",),
        ("等待输入数据",),
        ("host_bound", "untrusted_trace"),
    ),
    # Its path is the host's: a smaller dtype alone saves 9 ms of 140, fewer kernels save more.
    "kineto_tb_samples/resnet50_num_workers_4": Known(
        "pointwise_bound",
        ("batch_norm_backward",),
        ("batch_norm_backward",),
        ("input_bound", "untrusted_trace"),
    ),
    "tracelens/inference/vllm_decode_full": Known(
        "well_used",
        ("without waiting for its host",),
        ("无需等待主机",),
        (*LAUNCH_LESS, "low_occupancy"),
    ),
    "tracelens/inference/sglang_decode": Known(
        "device_idle",
        ("idle 98 % of the step", "hipMemcpyWithStream"),
        ("98 %", "hipMemcpyWithStream"),
        absent=LAUNCH_LESS,
    ),
    "param/dlrm_8rank": Known(
        "host_bound",
        ("The host sets the pace", "5.34 ms of that waiting for other ranks"),
        ("主机决定了速度", "其中 5.34 ms 在集合通信中等待其他 rank"),
        ("communication_bound",),
        transfer_and_waiting=True,
    ),
}


@cache
def told(folder: Path) -> Run:
    return load(str(folder))


def check(run: Run, known: Known) -> None:
    findings = run.analysis.findings
    if known.first is None:
        assert not findings
    elif known.first != ANY:
        first = findings[0]
        assert first.kind == known.first
        for words in known.says:
            assert words in f"{first.title} {first.evidence}"
        for words in known.says_zh:
            assert words in f"{render(first.title, 'zh')} {render(first.evidence, 'zh')}"
    assert not {finding.kind for finding in findings} & set(known.absent)
    for finding in findings:
        assert render(finding.title, "zh") != finding.title
        assert render(finding.evidence, "zh") != finding.evidence
        assert not finding.hint or render(finding.hint, "zh") != finding.hint
        assert (finding.max_gain_s or 0.0) <= run.analysis.step_s
    # What others wait for comes before them, whatever it gains itself.
    gains = [finding.max_gain_s or 0.0 for finding in findings if not finding.before]
    assert gains == sorted(gains, reverse=True)
    story = run.analysis.ranks
    straggler = story.straggler if story is not None else None
    assert (None if straggler is None else straggler.rank) == known.straggler
    # The classes add up to the step, whether or not waiting stands apart.
    labels = {share.label for share in run.analysis.classes}
    total = sum(share.time_s for share in run.analysis.classes)
    assert total == pytest.approx(run.analysis.step_s, rel=1e-9)
    apart = {label for label in labels if label.startswith("communication: ")}
    assert bool(apart) == known.transfer_and_waiting
    if known.transfer_and_waiting:
        assert "communication" not in labels


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_the_cause_built_into_a_recording_is_told_first(name: str) -> None:
    check(told(OWN / name), ANSWERS[name])


def test_every_recording_has_its_answer() -> None:
    assert {f"{p.parent.name}/{p.name}" for p in OWN.glob("*/*/")} == set(ANSWERS)


@pytest.mark.parametrize("name", sorted(SHARED_ANSWERS))
def test_real_traces_with_known_answers(name: str) -> None:
    if not (SHARED / name).exists():
        pytest.skip("the real traces are not here")
    check(told(SHARED / name), SHARED_ANSWERS[name])


def test_waiting_is_what_the_collectives_of_a_waiting_rank_are_made_of() -> None:
    run = told(OWN / "4xh200" / "ddp_imbalance")
    times = {share.label: share.time_s for share in run.analysis.classes}
    story = run.analysis.ranks
    assert story is not None
    own = next(share for share in story.ranks if share.rank == run.ranks[0])
    waiting, moving = (
        times["communication: waiting for another rank"],
        times["communication: transfer"],
    )
    assert waiting / moving == pytest.approx(own.exposed_waiting_s / own.exposed_transfer_s)
    # Rank 3 has three times the work: two thirds of its 15 ms are what the others wait for.
    assert waiting == pytest.approx(8.3e-3, rel=0.05)


def test_one_slow_host_among_slow_ones_is_not_the_whole_story() -> None:
    finding, *_ = told(OWN / "4xh200" / "fsdp").analysis.findings
    assert "saves at most 2.19 ms a step" in finding.hint
    assert "2.19 ms" in render(finding.hint, "zh")
