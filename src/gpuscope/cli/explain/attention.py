"""`gpuscope explain attention`: one call of scaled dot-product attention."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuscope.cli.explanations import Dtype, On, Where, show
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text


def register(topics: typer.Typer) -> None:
    """Add the `attention` topic."""
    topics.command("attention")(grouped(attention_command))


def attention_command(
    batch: Annotated[int, typer.Option(help=Text("Sequences."))] = 1,
    heads: Annotated[int, typer.Option(help=Text("Query heads."))] = 32,
    kv_heads: Annotated[
        int | None, typer.Option(help=Text("Heads of K and V; else --heads."))
    ] = None,
    seq: Annotated[int, typer.Option(help=Text("Queries of a sequence; 1 is decoding."))] = 4096,
    kv_seq: Annotated[
        int | None, typer.Option(help=Text("Keys of a sequence; else --seq."))
    ] = None,
    head_dim: Annotated[int, typer.Option(help=Text("Width of a head."))] = 128,
    causal: Annotated[
        bool, typer.Option("--causal", help=Text("Only earlier keys count."))
    ] = False,
    dtype: Dtype = "bf16",
    on: On = "h200",
    backward: Annotated[bool, typer.Option("--backward", help=Text("The gradients, too."))] = False,
    backend: Annotated[
        str, typer.Option(help=Text("auto, cudnn, flash, efficient or math."))
    ] = "auto",
    *,
    shown: Where,
) -> None:
    """Attention: tiles, what fusing saves, the softmax's own limit, prefill and decoding."""
    from gpuscope.explanation.attention import attention

    show(
        lambda: attention(
            batch,
            heads,
            seq,
            head_dim,
            kv_heads=kv_heads,
            kv_seq=kv_seq,
            causal=causal,
            dtype=dtype,
            on=on,
            backward=backward,
            backend=backend,
        ),
        shown,
    )
