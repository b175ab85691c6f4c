"""Where distributed wrappers are called, by whatever name."""

from gpuscope.advice.changes.evidence.wrappers import keyword_edits
from gpuscope.advice.types import Seen, WrapSeen

TEXT = """\
from torch.distributed.fsdp import fully_shard as shard
for block in model:
    shard(block)
shard(model, reshard_after_forward=True)
"""


def test_every_call_is_edited_or_none():
    seen = Seen(
        wraps=(WrapSeen("fully_shard", {}, "t.py:3", 4), WrapSeen("fully_shard", {}, "t.py:4"))
    )
    edits = keyword_edits({"t.py": TEXT}, seen, "fully_shard", "reshard_after_forward", "False")
    assert edits is not None
    assert [(e.first, e.text) for e in edits] == [
        (3, "    shard(block, reshard_after_forward=False)\n"),
        (4, "shard(model, reshard_after_forward=False)\n"),
    ]
    elsewhere = Seen(wraps=(*seen.wraps, WrapSeen("fully_shard", {}, "lib.py:9")))
    assert keyword_edits({"t.py": TEXT}, elsewhere, "fully_shard", "x", "1") is None
