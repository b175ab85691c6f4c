"""Examples of different lengths as a trainer hands them to a decoder: padded, or packed into rows.

Padded rows, and packed ones whose attention is kept apart by a mask, get the mask of
[batch, 1, seq, seq] that `transformers` makes of padding and of positions that start anew
(`masking_utils.create_causal_mask`); it is made here, since whether it is needed depends on data
that a capture does not have. With flash attention, `DataCollatorWithFlattening` lays all rows of a
micro-batch one after the other and says where each example ends (`return_flash_attn_kwargs`, as
its documentation advises): one kernel, no mask, no wait of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gpuscope.program.capture.operators import ONLY
from gpuscope.program.models.settings import Settings

_NAME = "gpuscope_varlen"


def batch_loss(
    model: Any, settings: Settings
) -> tuple[Callable[[nn.Module], torch.Tensor], list[torch.Tensor]]:
    """What gives the loss of a micro-batch of `settings.batch` rows of `settings.seq` tokens.

    Args:
        model: from `transformers`, a decoder; with flash attention it is changed.
        settings: with `rows`, or every example fills one.

    Returns:
        The loss of a model, and the tensors of the micro-batch.
    """
    rows, seq, device = settings.batch, settings.seq, settings.device
    laid = settings.rows
    packing = "" if laid is None else laid.packing
    flash = packing == "flash"
    shape = (1, rows * seq) if flash else (rows, seq)
    tokens = torch.randint(0, model.config.vocab_size, shape, device=device)
    given: dict[str, Any] = {"input_ids": tokens, "labels": tokens, "use_cache": False}
    places = torch.arange(shape[1], device=device).expand(shape)
    if packing in ("flash", "mask"):  # two examples a row: values change nothing that runs
        half = shape[1] // 2
        given["position_ids"] = torch.where(places < half, places, places - half)
    if laid is not None and flash:
        _use_flash(model, laid.sequences * rows)
    masked = laid is not None and laid.masked(rows)

    def loss(net: Any) -> torch.Tensor:
        if masked:
            given["attention_mask"] = _mask(places, given.get("position_ids"))
        found: torch.Tensor = net(**given).loss
        return found

    return loss, [tokens]


def _mask(places: torch.Tensor, starts: torch.Tensor | None) -> torch.Tensor:
    """Who sees whom, bool [rows, 1, seq, seq]: nobody what follows, nor padding or other examples.

    Args:
        places: of tokens in their row, [rows, seq].
        starts: of tokens in their example; None: rows are padded.
    """
    line = places[0]
    seen = (line[None, :] <= line[:, None])[None, None]
    if starts is None:
        return seen & (places < line[-1])[:, None, None, :]
    example = (starts.diff(prepend=starts[:, :1] - 1, dim=-1) != 1).cumsum(-1)
    return seen & (example[:, None, :, None] == example[:, None, None, :])


def _use_flash(model: Any, sequences: float) -> None:
    """Let attention be the one kernel of FlashAttention for lengths that vary.

    Args:
        model: from `transformers`.
        sequences: how many equal sequences do as much work as the micro-batch's.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    from gpuscope.program.capture.nested import varied_attention

    def attention(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: Any,
        dropout: float = 0.0,
        scaling: float | None = None,
        **_: Any,
    ) -> tuple[torch.Tensor, None]:
        """[1, heads, tokens, size] each -> [1, tokens, heads, size]."""
        half = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
        rows = [t.transpose(1, 2)[0].to(half or t.dtype) for t in (query, key, value)]
        options = (dropout, True, scaling, "flash" + ONLY)
        return varied_attention(rows, sequences, options).unsqueeze(0), None

    ALL_ATTENTION_FUNCTIONS.register(_NAME, attention)
    try:
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    except ImportError:  # before 4.53 each model made its own mask
        pass
    else:
        ALL_MASK_ATTENTION_FUNCTIONS.register(_NAME, lambda *_, **__: None)
    model.config._attn_implementation = _NAME
