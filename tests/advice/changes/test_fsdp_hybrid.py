"""Hybrid sharding: gathers among a node's devices, gradients summed between nodes as well."""

from distributed_cases import collectives, fsdp, job_case

from gpuscope.advice.registry import find


def test_gathers_stay_in_the_node():
    plain = job_case(fsdp(), on="16xh200")
    hybrid = job_case(fsdp(), "fsdp-hybrid", on="16xh200")
    sizes = [
        {case.program.groups[op.group].size for op in collectives(case, "gather")}
        for case in (plain, hybrid)
    ]
    assert sizes == [{16}, {8}]
    assert collectives(hybrid, "all_reduce") or collectives(hybrid, "allreduce")
    change = find("fsdp-hybrid")
    assert change.fits(plain).applies
    assert not change.fits(job_case(fsdp())).applies
    assert change.price(plain).startswith("2 times")
