"""Ten graphs exported from PyTorch: what `predict model.onnx` finds in each beside the capture.

    python validation/onnx_graphs.py [RESULT.json]

Needs torch, transformers, onnx and onnxscript; no GPU, no weights from anywhere. Each model is
small and has random weights. Products and convolutions are compared call by call: FLOPs, and bytes
of operands and results. Attention is unfused on both sides, as exporters write it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import nn

from gpuscope import WorkloadOptions
from gpuscope.capturing import capture
from gpuscope.cost.engine import cost_program
from gpuscope.hardware import parse_target
from gpuscope.program.types import Op, Program

RESULT = Path(__file__).parent / "results" / "onnx_graphs.json"

_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution")


class Results(nn.Module):
    """A model whose tensors are all that is exported."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x: torch.Tensor) -> Any:
        """The model's results."""
        given: dict[str, Any] = {self.name: x}
        if "use_cache" in getattr(self.model.config, "__dict__", {}):
            given["use_cache"] = False
        found = self.model(**given).to_tuple()
        return tuple(each for each in found if isinstance(each, torch.Tensor))


def _small(**more: Any) -> dict[str, Any]:
    return {
        "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 256, "attn_implementation": "eager", **more,
    }  # fmt: skip


def _tokens() -> torch.Tensor:
    return torch.zeros(2, 48, dtype=torch.long)


def _image(side: int = 64) -> torch.Tensor:
    return torch.zeros(2, 3, side, side)


MODELS: dict[str, Callable[[], tuple[nn.Module, str, torch.Tensor]]] = {
    "resnet (vision)": lambda: (
        hf.ResNetModel(hf.ResNetConfig(hidden_sizes=[64, 128], depths=[2, 2])),
        "pixel_values",
        _image(),
    ),
    "convnext (vision)": lambda: (
        hf.ConvNextModel(hf.ConvNextConfig(hidden_sizes=[32, 64], depths=[2, 2], num_stages=2)),
        "pixel_values",
        _image(),
    ),
    "vit (vision)": lambda: (
        hf.ViTModel(hf.ViTConfig(image_size=64, **_small()), add_pooling_layer=False),
        "pixel_values",
        _image(),
    ),
    "mobilenet v2 (vision)": lambda: (
        hf.MobileNetV2Model(hf.MobileNetV2Config(image_size=64)),
        "pixel_values",
        _image(),
    ),
    "gpt2 (language)": lambda: (
        hf.GPT2LMHeadModel(
            hf.GPT2Config(
                n_embd=128, n_layer=2, n_head=4, vocab_size=999, attn_implementation="eager"
            )
        ),
        "input_ids",
        _tokens(),
    ),
    "bert (language)": lambda: (
        hf.BertModel(hf.BertConfig(vocab_size=999, **_small()), add_pooling_layer=False),
        "input_ids",
        _tokens(),
    ),
    "llama (language)": lambda: (
        hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=999, num_key_value_heads=2, **_small())),
        "input_ids",
        _tokens(),
    ),
    "yolos (detection)": lambda: (
        hf.YolosForObjectDetection(
            hf.YolosConfig(image_size=[64, 64], num_detection_tokens=10, **_small())
        ),
        "pixel_values",
        _image(),
    ),
    "whisper encoder (speech)": lambda: (
        hf.WhisperModel(
            hf.WhisperConfig(
                d_model=128, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256,
                vocab_size=999, max_source_positions=100, pad_token_id=0,
                attn_implementation="eager",
            )
        ).encoder,
        "input_features",
        torch.zeros(2, 80, 200),
    ),
    "wav2vec2 (speech)": lambda: (
        hf.Wav2Vec2Model(
            hf.Wav2Vec2Config(
                conv_dim=[64] * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
                apply_spec_augment=False, **_small()
            )
        ),
        "input_values",
        torch.zeros(2, 8000),
    ),
}  # fmt: skip


def _products(program: Program) -> Counter[tuple[float, int]]:
    """FLOPs and bytes of every product and convolution, how often each."""
    found: Counter[tuple[float, int]] = Counter()
    for op in program.ops:
        if op.name in _PRODUCTS:
            found[_flops(op), _bytes(op)] += op.repeat
    return found


def _flops(op: Op) -> float:
    out = op.outputs[0].numel
    if op.name == "aten::convolution":
        return 2.0 * out * prod(op.inputs[1].shape[1:])
    factors = op.inputs[1:] if op.name in ("aten::addmm", "aten::baddbmm") else op.inputs
    return 2.0 * out * factors[0].shape[-1]


def _bytes(op: Op) -> int:
    """Of the two operands and the result; a bias may be a kernel of its own."""
    biased = op.name in ("aten::addmm", "aten::baddbmm")
    operands = op.inputs[1:3] if biased else op.inputs[:2]
    return sum(spec.touched_bytes for spec in (*operands, op.outputs[0]))


def row(name: str) -> dict[str, Any]:
    """Both captures of one model, and where they differ."""
    model, argument, x = MODELS[name]()
    wrapped = Results(model.eval(), argument)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        torch.onnx.export(wrapped, (x,), str(path), dynamo=True, verbose=False, optimize=True)
        graph = capture(str(path), options=WorkloadOptions(engine="pytorch"))

    def build() -> Callable[[], object]:
        there, given = Results(MODELS[name]()[0].eval(), argument).cuda(), x.cuda()

        def step() -> object:
            with torch.no_grad():
                return there(given)

        return step

    code = capture(build)
    own, other = _products(code), _products(graph)
    device = parse_target("h200").device
    busy = [
        sum(k.duration_s for op in cost_program(p, device).ops for k in op.kernels)
        for p in (code, graph)
    ]

    def total(found: Counter[tuple[float, int]], place: int) -> float:
        return sum(key[place] * count for key, count in found.items())

    return {
        "model": name,
        "products": sum(own.values()),
        "gflop_pytorch": total(own, 0) / 1e9,
        "gflop_onnx": total(other, 0) / 1e9,
        "product_bytes_pytorch": total(own, 1),
        "product_bytes_onnx": total(other, 1),
        "only_pytorch": sum((own - other).values()),
        "only_onnx": sum((other - own).values()),
        "device_s_pytorch": busy[0],
        "device_s_onnx": busy[1],
        "parameters_pytorch": code.parameters,
        "parameters_onnx": graph.parameters,
        "unknown": list(graph.unsupported),
    }


def main() -> None:
    """Compare all, print a table, write the rows."""
    rows = []
    for name in MODELS:
        try:
            rows.append(row(name))
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        print({k: (round(v, 7) if isinstance(v, float) else v) for k, v in rows[-1].items()})
    Path(sys.argv[1] if len(sys.argv) > 1 else RESULT).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
