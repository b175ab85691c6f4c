"""`explain conv`: equal to the prediction; shapes, layouts and limits that can be checked."""

from __future__ import annotations

import pytest
from blocks import blocks, fact, sound, titled

import gpuscope as gs
from gpuscope.document.blocks import Bars, Diagram, Explorer, HeatMap, Paragraph, Table
from gpuscope.document.format import percent
from gpuscope.errors import GpuscopeError, InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.explanation import conv_figures
from gpuscope.explanation.conv import conv
from gpuscope.hardware import device


@pytest.fixture(autouse=True)
def _few_stops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand combinations of the sliders are priced for the test of the explorer alone."""
    if "explorer" not in request.node.name:
        monkeypatch.setattr(conv_figures, "_stops", lambda size: tuple(sorted({8, 65, size})))


@pytest.mark.parametrize("nhwc", [True, False])
def test_equals_the_prediction_of_real_code(nhwc: bool) -> None:
    import torch

    form = torch.channels_last if nhwc else torch.contiguous_format

    def build():  # type: ignore[no-untyped-def]
        layer = torch.nn.Conv2d(64, 96, 3, 2, 1, bias=False, dtype=torch.bfloat16).cuda()
        layer = layer.to(memory_format=form)
        x = torch.randn(16, 64, 56, 56, dtype=torch.bfloat16, device="cuda")
        x = x.to(memory_format=form)
        return lambda: layer(x)

    with torch.no_grad():
        run = gs.predict(build, on="h200")
    found = conv(16, 64, 56, 56, 96, stride=2, channels_last=nhwc)
    assert fact(found, "time by itself") == pytest.approx(run.device_busy_s, abs=3e-9)


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"channels_last": True, "backward": True}, marks=pytest.mark.slow),
        {"kernel": 1, "padding": 0, "dtype": "tf32"},
        {"kernel": 1, "padding": 0, "backward": True},
        {"groups": 64, "backward": True},
        {"groups": 4, "on": "a100", "dtype": "fp16"},
        {"on": "mi300x", "channels_last": True},
        {"dtype": "fp32", "dilation": 2, "padding": 2},
        {"kernel": 7, "stride": 2, "padding": 3, "on": "l40s"},
    ],
)
def test_every_kind_is_sound(options: dict[str, object]) -> None:
    found = conv(8, 64, 28, 28, 64, **options)  # type: ignore[arg-type]
    sound(found)
    assert fact(found, "time by itself") > 0


def test_the_product_inside_by_hand() -> None:
    """ResNet's 3 x 3: M = 32 x 56 x 56, N = 256, K = 256 x 9; 128 x 256 tiles: 784 of them."""
    found = conv(32, 256, 56, 56, 256, channels_last=True, backward=True)
    rows = titled(found, Table, "Each pass").rows
    assert [row[2:5] for row in rows] == [
        (100352, 256, 2304),
        (100352, 256, 2304),
        (256, 2304, 100352),
    ]
    assert fact(found, "arithmetic") == 3 * 2 * 100352 * 256 * 2304
    assert fact(found, "tiles") in (784, 1568, 392)


def test_a_strided_result_by_hand() -> None:
    found = conv(1, 3, 224, 224, 64, kernel=7, stride=2, padding=3)
    rows = titled(found, Table, "Each pass").rows
    assert rows[0][2:5] == (112 * 112, 64, 147)


def test_kernels_add_up() -> None:
    found = conv(16, 64, 56, 56, 128, backward=True)
    bars = titled(found, Bars, "Kernels")
    whole = sum(part.value for bar in bars.bars for part in bar.parts)
    assert whole == pytest.approx(fact(found, "time by itself"))
    parts = titled(found, Bars, "Where the forward")
    first = titled(found, Table, "Each pass").rows[0][7]
    assert sum(p.value for b in parts.bars for p in b.parts) == pytest.approx(first, rel=0.01)


def test_channels_first_pays_for_conversions() -> None:
    first = conv(32, 128, 28, 28, 128)
    last = conv(32, 128, 28, 28, 128, channels_last=True)
    assert fact(first, "time by itself") > fact(last, "time by itself")
    table = titled(first, Table, "The same convolution")
    row = table.rows[table.marked[0]]
    assert row[0] == "bf16"
    assert row[3] > 0  # type: ignore[operator]
    assert any("channels-last" in line for line in first.summary)
    assert not any("NCHW" in line for line in last.summary)


def test_an_odd_channel_is_dear_and_padding_is_counted_as_lost() -> None:
    even, odd = (conv(32, c, 56, 56, 256, channels_last=True) for c in (256, 257))
    assert fact(odd, "time by itself") > 1.4 * fact(even, "time by itself")
    row = next(
        r
        for r in titled(even, Table, "Neighbours").rows
        if "= 257" in r[0]  # type: ignore[union-attr]
    )
    assert row[5] > 1.4  # type: ignore[operator]
    bars = {
        b.label.split(":")[0]: b.parts[0].value  # type: ignore[union-attr]
        for b in titled(odd, Bars, "Where the forward").bars
    }
    ideal_s = fact(odd, "arithmetic") / device("h200").peak_flops_per_s("bf16")
    assert bars["arithmetic at the peak"] == pytest.approx(ideal_s, rel=0.01)
    assert bars["edges and padding"] > 0.2 * bars["arithmetic at the peak"]


def test_depthwise_is_no_product_and_far_below_the_ridge() -> None:
    found = conv(32, 512, 28, 28, 512, groups=512, channels_last=True)
    assert not blocks(found, HeatMap)
    assert not blocks(found, Diagram)
    assert fact(found, "arithmetic intensity") < 0.1 * fact(found, "ridge")
    assert any("depthwise" in line for line in found.summary)
    assert any(block.tone == "key" for block in blocks(found, Paragraph))


def test_the_explorer_starts_at_the_answer() -> None:
    found = conv(12, 48, 20, 20, 72, on="a100", dtype="fp16")
    explorer = blocks(found, Explorer)[0]
    at = 0
    for slider in explorer.sliders:
        at = at * len(slider.values) + slider.start
    assert explorer.outputs[0].values[at] == pytest.approx(fact(found, "time by itself"))


@pytest.mark.parametrize(
    ("sizes", "options", "error", "says"),
    [
        ((0, 3, 8, 8, 4), {}, InvalidValueError, "N = 0"),
        ((1, 3, 8, 8, 4), {"kernel": 0}, InvalidValueError, "kernel = 0"),
        ((1, 3, 8, 8, 4), {"stride": 0}, InvalidValueError, "stride = 0"),
        ((1, 3, 8, 8, 4), {"padding": -1}, InvalidValueError, "padding = -1"),
        ((1, 3, 8, 8, 4), {"kernel": 20}, InvalidValueError, "does not fit"),
        ((1, 3, 8, 8, 4), {"groups": 2}, InvalidValueError, "do not divide"),
        ((4096, 4096, 256, 256, 4), {}, InvalidValueError, "TiB"),
        ((1, 3, 8, 8, 4), {"dtype": "fp8"}, UnsupportedError, "fp8"),
        ((1, 3, 8, 8, 4), {"on": "v100", "dtype": "bf16"}, UnsupportedError, "bfloat16"),
        ((1, 3, 8, 8, 4), {"on": "x900"}, UnknownNameError, "x900"),
    ],
)
def test_what_cannot_be_is_refused(
    sizes: tuple[int, int, int, int, int],
    options: dict[str, object],
    error: type[GpuscopeError],
    says: str,
) -> None:
    with pytest.raises(error, match=says):
        conv(*sizes, **options)  # type: ignore[arg-type]


def test_the_padding_that_is_named_is_enough() -> None:
    for size, kernel, dilation in ((8, 3, 100), (2, 5, 1), (7, 11, 2)):
        with pytest.raises(InvalidValueError) as caught:
            conv(1, 3, size, size, 64, kernel=kernel, dilation=dilation, padding=0)
        padding = int(caught.value.next_step.split("--padding ")[1].split(",")[0])
        conv(1, 3, size, size, 64, kernel=kernel, dilation=dilation, padding=padding)
        with pytest.raises(InvalidValueError):
            conv(1, 3, size, size, 64, kernel=kernel, dilation=dilation, padding=padding - 1)


def test_a_tiny_share_is_told_as_below() -> None:
    assert percent(0.0) == "0 %"
    assert percent(8.7e-7) == "< 0.01 %"
    assert percent(0.0001) == "0.01 %"
    assert percent(0.004) == "0.4 %"
    assert percent(0.79) == "79 %"
