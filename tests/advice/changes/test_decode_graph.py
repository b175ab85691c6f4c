"""Decoding from a graph: the host's launches go, alone and with compilation."""

import torch
from changed_cases import case_of
from decoding_builds import decoding
from live_runs import results

from gpuscope.advice.registry import find


def test_the_host_no_longer_sets_the_pace():
    plain, graphed = case_of(decoding()), case_of(decoding(), "decode-graph")
    assert graphed.program.compiled == "cudagraphs"
    assert graphed.run.host_busy_s < 0.05 * plain.run.host_busy_s
    assert graphed.run.step_time_s < 0.5 * plain.run.step_time_s
    assert find("decode-graph").fits(plain).applies
    assert "already" in find("decode-graph").fits(graphed).why


def test_with_compilation_it_is_a_graph_of_fused_kernels():
    graphed, both = (
        case_of(decoding(), "decode-graph"),
        case_of(decoding(), "decode-graph", "compile"),
    )
    assert both.program.compiled == "reduce-overhead"
    assert both.run.device_busy_s < graphed.run.device_busy_s


def test_on_the_host_the_same_logits_come():
    torch.testing.assert_close(
        results(decoding("cpu"), "decode-graph"), results(decoding("cpu")), rtol=1e-4, atol=1e-5
    )
