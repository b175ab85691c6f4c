"""Gradients as views of buckets: no copies, less memory. A static graph: the same collectives."""

from distributed_cases import collectives, ddp, job_case

from gpuscope.advice.registry import find


def _copies(case):
    return sum(
        op.phase == "backward" and op.name in ("aten::copy_", "aten::mul")
        for op in case.program.ops
    )


def test_copies_and_memory_go():
    plain, views = job_case(ddp(layers=12)), job_case(ddp(layers=12), "ddp-bucket-view")
    assert _copies(views) < _copies(plain)
    assert views.run.peak_memory_bytes <= plain.run.peak_memory_bytes
    assert find("ddp-bucket-view").fits(plain).applies
    assert "already" in find("ddp-bucket-view").fits(views).why


def test_a_static_graph_is_told_once():
    plain, fixed = job_case(ddp()), job_case(ddp(), "ddp-static-graph")
    assert fixed.seen.wraps[0].keywords["static_graph"] is True
    assert len(collectives(fixed, "allreduce")) == len(collectives(plain, "allreduce"))
    assert find("ddp-static-graph").fits(plain).applies
    assert not find("ddp-static-graph").fits(fixed).applies
