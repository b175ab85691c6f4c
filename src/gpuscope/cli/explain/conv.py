"""`gpuscope explain conv`: one convolution, as the matrix product that it is."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuscope.cli.explanations import Dtype, On, Where, show
from gpuscope.cli.groups import grouped
from gpuscope.document.text import Text


def register(topics: typer.Typer) -> None:
    """Add the `conv` topic."""
    topics.command("conv")(grouped(conv_command))


def conv_command(
    n: Annotated[int, typer.Argument(metavar="N", help=Text("Images of a batch."))],
    c: Annotated[int, typer.Argument(metavar="C", help=Text("Input channels."))],
    h: Annotated[int, typer.Argument(metavar="H", help=Text("Height."))],
    w: Annotated[int, typer.Argument(metavar="W", help=Text("Width."))],
    k: Annotated[int, typer.Argument(metavar="K", help=Text("Output channels (filters)."))],
    kernel: Annotated[int, typer.Option(help=Text("Side of a filter."))] = 3,
    stride: Annotated[int, typer.Option(help=Text("Step between positions."))] = 1,
    padding: Annotated[int, typer.Option(help=Text("Zeros added on each side."))] = 1,
    dilation: Annotated[int, typer.Option(help=Text("Step within a filter."))] = 1,
    groups: Annotated[int, typer.Option(help=Text("Channel groups; C of them is depthwise."))] = 1,
    dtype: Dtype = "bf16",
    on: On = "h200",
    channels_last: Annotated[
        bool,
        typer.Option("--channels-last/--channels-first", help=Text("Tensors stored NHWC or NCHW.")),
    ] = False,
    backward: Annotated[bool, typer.Option("--backward", help=Text("The gradients, too."))] = False,
    *,
    shown: Where,
) -> None:
    """A convolution: the product inside, its tiles, layouts, and which sizes are cheaper."""
    from gpuscope.explanation.conv import conv

    show(
        lambda: conv(
            n,
            c,
            h,
            w,
            k,
            kernel=kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            dtype=dtype,
            on=on,
            channels_last=channels_last,
            backward=backward,
        ),
        shown,
    )
