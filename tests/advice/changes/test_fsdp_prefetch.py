"""Explicit prefetch: gathers come earlier among the operators, none is added."""

from distributed_cases import collectives, fsdp, job_case

from gpuscope.advice.registry import find


def _products_before_the_third_gather(case):
    gathers = [*collectives(case, "all_gather"), *collectives(case, "_allgather")]
    third = sorted(op.index for op in gathers)[2]
    return sum(op.name.endswith("::mm") and op.index < third for op in case.program.ops)


def test_gathers_come_earlier():
    plain, ahead = job_case(fsdp(4)), job_case(fsdp(4), "fsdp-prefetch-2")
    assert _products_before_the_third_gather(ahead) < _products_before_the_third_gather(plain)
    assert len(collectives(ahead, "gather")) == len(collectives(plain, "gather"))
    assert find("fsdp-prefetch-2").fits(plain).applies
    assert not find("fsdp-prefetch-2").fits(job_case(fsdp(1))).applies
