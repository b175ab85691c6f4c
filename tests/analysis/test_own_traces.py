"""The project's own recordings, each made with one known cause (tests/data/traces/README.md)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from gpuscope.analysis import Analysis, analyze
from gpuscope.document.format import time as format_time
from gpuscope.loading import load
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.ranks import merge
from gpuscope.views.terminal import make_console
from gpuscope.views.terminal.headline import headline
from gpuscope.views.terminal.symbol_panel import symbols

TRACES = Path(__file__).parents[1] / "data" / "traces" / "h200"

WAITS = {"host_bound", "input_bound", "sync_bound"}


@cache
def story(name: str) -> Analysis:
    return analyze(read_trace(TRACES / name / "rank-0.json.gz"))


def kinds(name: str) -> set[str]:
    return {finding.kind for finding in story(name).findings}


def test_a_busy_device_waits_for_nothing() -> None:
    found = story("compute_bound")
    assert not kinds("compute_bound") & (WAITS | {"launch_bound", "pageable_copies"})
    # The host was done in 8 ms; the three steps took the device 55 ms.
    assert found.step_s == pytest.approx(18.3e-3, rel=0.01)
    assert found.critical_path is not None
    assert found.critical_path.time_s["kernel"] > 0.98 * found.step_s


def test_tiny_layers_are_held_up_by_the_host_in_the_users_function() -> None:
    found = story("host_bound")
    assert found.findings[0].kind == "host_bound"
    assert found.idle_spots[0].what == "record_traces.py(46): step"
    assert found.critical_path is not None
    host = found.critical_path.gain_s["host"]
    assert host == pytest.approx(found.step_s - found.time[0].busy_s / 3, rel=0.05)


def test_a_slow_loader_is_what_the_device_waits_for() -> None:
    found = story("input_bound")
    assert found.findings[0].kind == "input_bound"
    assert "host_bound" not in kinds("input_bound")
    assert "DataLoader" in found.idle_spots[0].what
    assert found.critical_path is not None
    path = found.critical_path.time_s
    assert next(iter(path)) == "loading input"
    # 12 ms of work for a batch and 6 to 7 ms of drawing it.
    assert 18e-3 < path["loading input"] < 20e-3


def test_item_after_each_layer_is_named() -> None:
    assert "sync_bound" in kinds("sync_bound")
    (sync,) = (finding for finding in story("sync_bound").findings if finding.kind == "sync_bound")
    assert "cudaStreamSynchronize ×24" in sync.evidence
    assert "aten::_local_scalar_dense" in sync.evidence


def test_a_pageable_copy_is_found_with_its_size_and_rate() -> None:
    assert story("pageable_copies").findings[0].kind == "pageable_copies"
    (copy,) = story("pageable_copies").copies
    assert (copy.memory, copy.total_bytes, copy.count) == ("pageable", 64 << 20, 1)
    assert copy.rate_bytes_per_s == pytest.approx(9.4e9, rel=0.01)
    path = story("pageable_copies").critical_path
    assert path is not None
    assert next(iter(path.time_s)) == "copy"


def test_graphs_are_seen_and_nothing_is_to_be_raised() -> None:
    assert not kinds("graph_decode") & (WAITS | {"launch_bound"})
    launches = story("graph_decode").launches
    assert launches is not None
    assert (launches.graph_launches, launches.kernels_per_graph) == (20, 60)


def test_the_copy_on_a_side_stream_is_partly_hidden() -> None:
    found = story("two_streams")
    (copy,) = found.copies
    assert (copy.memory, copy.largest_bytes) == ("pinned", 64 << 20)
    assert 0 < copy.exposed_s < 0.9 * copy.time_s
    assert found.critical_path is not None
    assert found.critical_path.gain_s["copy"] < found.critical_path.time_s["copy"]


@pytest.mark.parametrize(
    ("name", "rank", "kind"),
    [
        ("ddp_slow_host", 1, "python"),
        ("ddp_imbalance", 3, "kernel"),
        ("tensor_parallel_host_bound", 0, "python"),
    ],
)
def test_the_path_crosses_to_the_rank_that_holds_the_others_up(
    name: str, rank: int, kind: str
) -> None:
    files = sorted((TRACES.parent / "4xh200" / name).glob("rank-*.json.gz"))
    timeline = merge([read_trace(file) for file in files])
    path = analyze(timeline).critical_path
    assert path is not None
    edges = [*path.segment_start_ns, path.end_ns]
    on_rank: dict[int, int] = {}
    for i, lane in enumerate(path.segment_lane):
        if lane >= 0:
            at = timeline.lanes[lane].rank
            on_rank[at] = on_rank.get(at, 0) + edges[i + 1] - edges[i]
    assert max(on_rank, key=on_rank.__getitem__) == rank
    assert on_rank[rank] > 0.9 * sum(on_rank.values())
    assert next(iter(path.time_s)) == kind
    assert path.gain_s["host" if kind == "python" else kind] > 0.5 * sum(path.time_s.values())


def test_a_launch_of_a_kernel_is_told_as_long_as_it_ran() -> None:
    """It was 1.14 ms: what is counted of it beside others, over its launches."""
    run = load(TRACES.parent / "4xh200" / "ddp_slow_host")
    share = next(s for s in run.analysis.symbols if "AllReduce" in s.label)
    assert share.running_s is not None
    assert share.running_s > share.time_s
    console = make_console()
    with console.capture() as shown:
        console.print(symbols(run, "en", 10))
    line = next(text for text in shown.get().splitlines() if "AllReduce" in text)
    assert format_time(share.time_s) in line
    assert format_time(share.running_s / share.count) in line


def test_the_device_does_not_set_the_pace_while_it_waits_for_other_ranks() -> None:
    """It "works 98.5 % of a step", half of which it waits for rank 1's host."""
    run = load(TRACES.parent / "4xh200" / "ddp_slow_host")
    console = make_console()
    with console.capture() as shown:
        console.print(headline(run, "en"))
    assert "7.30 ms of that waiting for other ranks" in " ".join(
        shown.get().replace("│", "").split()
    )


def test_batch_norm_is_named_where_it_takes_most_of_a_clean_recording() -> None:
    found = load(TRACES / "resnet50_channels_last").analysis
    (norms,) = (f for f in found.findings if f.kind == "pointwise_bound")
    assert "native_batch_norm" in norms.evidence
    assert "untrusted_trace" not in {finding.kind for finding in found.findings}
    assert found.step_s == pytest.approx(56.7e-3, rel=0.01)
