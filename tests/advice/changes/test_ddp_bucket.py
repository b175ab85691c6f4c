"""Buckets of DDP: as many collectives as their size says."""

from changed_cases import case_of
from distributed_cases import collectives, ddp, job_case, moved
from tiny_models import llama, tiny

from gpuscope.advice.registry import find


def test_larger_buckets_are_fewer():
    # 12 layers of 2.36 MB are 28 MB.
    few = job_case(ddp(layers=12), "ddp-bucket-400")
    many = job_case(ddp(layers=12), "ddp-bucket-10")
    assert len(collectives(few, "allreduce")) == 1
    # Five layers fill a bucket of 10 MiB.
    assert len(collectives(many, "allreduce")) == 3
    assert moved(few, "allreduce") == moved(many, "allreduce")


def test_it_fits_ddp_alone():
    change = find("ddp-bucket-100")
    fit = change.fits(job_case(ddp()))
    assert fit.applies
    assert "25 MiB" in fit.why
    assert not change.fits(job_case(ddp(bucket_cap_mb=100))).applies
    assert not change.fits(case_of(tiny(llama()))).relevant


def test_the_keyword_is_written_into_the_call():
    from gpuscope.advice.types import Seen, WrapSeen

    text = "from torch.nn.parallel import DistributedDataParallel as DDP\nmodel = DDP(net)\n"
    seen = Seen(wraps=(WrapSeen("ddp", {}, "train.py:2"),))
    (edit,) = find("ddp-bucket-50").edits({"train.py": text}, seen)
    assert edit.text == "model = DDP(net, bucket_cap_mb=50)\n"
    assert find("ddp-bucket-50").edits({"train.py": "model = other(net)\n"}, seen) is None
