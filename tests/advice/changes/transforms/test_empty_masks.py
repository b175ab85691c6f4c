"""Masks are left out only where none was given; positions that pack sequences keep theirs."""

import torch
from transformers import masking_utils

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.transforms.empty_masks import _packed, _Told, leave_masks_out


def test_positions_that_were_given_are_still_looked_at():
    told = _Told()
    find = _packed(lambda positions: "looked", told)
    call = told.watch(None, lambda *a, **k: find(k.get("position_ids")))
    positions = torch.tensor([[0, 1, 0, 1]])
    assert call(input_ids=positions) is None
    assert call(input_ids=positions, position_ids=positions) == "looked"
    assert call(positions, None, positions) == "looked"


def test_everything_is_put_back():
    before = masking_utils.find_packed_sequence_indices, masking_utils._ignore_causal_mask_sdpa
    live = Live()
    with live:
        leave_masks_out(live)
        assert masking_utils.find_packed_sequence_indices is not before[0]
        padding = torch.tensor([[True, False]])
        assert not masking_utils._ignore_causal_mask_sdpa(padding, 2, 2, 0, 0)
        assert masking_utils._ignore_causal_mask_sdpa(None, 2, 2, 0, 0)
    after = masking_utils.find_packed_sequence_indices, masking_utils._ignore_causal_mask_sdpa
    assert after == before
