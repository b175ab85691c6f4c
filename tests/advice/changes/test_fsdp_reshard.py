"""Parameters kept after forward: gathered once, for their memory."""

from distributed_cases import collectives, fsdp, job_case

from gpuscope.advice.registry import find


def test_half_of_the_gathers_go():
    plain, kept = job_case(fsdp(6)), job_case(fsdp(6), "fsdp-keep-parameters")
    gathered = len(collectives(plain, "all_gather")) + len(collectives(plain, "_allgather"))
    left = len(collectives(kept, "all_gather")) + len(collectives(kept, "_allgather"))
    assert left == 6
    assert gathered == 12
    assert kept.run.peak_memory_bytes > plain.run.peak_memory_bytes
    change = find("fsdp-keep-parameters")
    assert change.fits(plain).applies
    assert not change.fits(kept).applies
    assert "GB" in change.price(plain)
    assert not change.fits(job_case(fsdp(training=False))).applies
