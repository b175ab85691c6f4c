"""Hand-written attention as people write it: found, replaced, and the numbers stay."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
import torch

from gpuscope.advice.source.attention import attention_edits, functions_with_attention
from gpuscope.advice.source.edits import applied
from gpuscope.advice.source.patches import with_needs

HEAD = """\
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

"""

NANO_GPT = """\
class Net(nn.Module):
    def __init__(self, n_embd=32, n_head=4, block_size=16):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.attn_dropout = nn.Dropout(0.0)
        self.n_head = n_head
        self.register_buffer(
            "bias",
            torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size),
        )

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_dropout(att)
        y = att @ v
        return y.transpose(1, 2).contiguous().view(B, T, C)
"""

BERT = """\
class Net(nn.Module):
    def __init__(self, hidden=32, heads=4):
        super().__init__()
        self.heads = heads
        self.attention_head_size = int(hidden / heads)
        self.query, self.key = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(0.0)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, self.attention_head_size).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None):
        query_layer = self.split(self.query(hidden_states))
        key_layer = self.split(self.key(hidden_states))
        value_layer = self.split(self.value(hidden_states))
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            attention_scores = attention_scores + attention_mask
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)
        attention_probs = self.dropout(attention_probs)
        context = torch.matmul(attention_probs, value_layer)
        return context.permute(0, 2, 1, 3).flatten(2)
"""

VIT = """\
class Net(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        n, length, width = x.shape
        qkv = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        return (attn @ v).transpose(1, 2).reshape(n, length, width)
"""

ANNOTATED = """\
def attention(query, key, value, mask=None, dropout=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value)


class Net(nn.Module):
    def forward(self, x):
        x = x.view(*x.shape[:2], 4, -1).transpose(1, 2)
        n = x.shape[2]
        return attention(x, x + 1, x * x, torch.ones(1, 1, n, n).triu(-1).to(x.device))
"""

LOCAL_TRIANGLE = """\
class Net(nn.Module):
    def forward(self, x):
        n = x.size(1)
        mask = torch.triu(torch.ones(n, n, device=x.device), diagonal=1).bool()
        weights = torch.bmm(x, x.transpose(1, 2)) / 5.0
        weights = weights.masked_fill(mask, float("-inf"))
        weights = torch.softmax(weights, dim=-1)
        out = torch.bmm(weights, x)
        return out + x
"""

ADDED_TRIANGLE = """\
class Net(nn.Module):
    def forward(self, x):
        b, n, d = x.shape
        mask = torch.full((n, n), float("-inf"), device=x.device)
        mask = torch.triu(mask, diagonal=1)
        scores = x @ x.mT
        scores *= d ** -0.5
        scores = scores + mask
        return F.softmax(scores.float(), dim=-1).type_as(x) @ x
"""

LLAMA = """\
class Net(nn.Module):
    def forward(self, x):
        b, n, d = x.shape
        scaling = d ** -0.5
        keep = (torch.arange(n)[None, :] <= torch.arange(n)[:, None]) | (torch.arange(n) < 2)[None]
        causal = torch.zeros(n, n, dtype=x.dtype).masked_fill(~keep, torch.finfo(x.dtype).min)
        attn_weights = torch.matmul(x, x.transpose(1, 2)) * scaling
        attn_weights = attn_weights + causal
        attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(x.dtype)
        attn_weights = nn.functional.dropout(attn_weights, p=0.0, training=self.training)
        attn_output = torch.matmul(attn_weights, x)
        return attn_output
"""

T5 = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(32, 4)

    def forward(self, x):
        h = x.view(*x.shape[:2], 4, -1).transpose(1, 2)
        n = h.shape[2]
        where = (torch.arange(n)[None] - torch.arange(n)[:, None]).clamp(0, 31)
        position_bias = self.bias(where).permute(2, 0, 1)[None]
        scores = torch.matmul(h, h.transpose(3, 2))
        scores += position_bias
        attn_weights = nn.functional.softmax(scores, dim=-1).type_as(scores)
        return torch.matmul(attn_weights, h)
"""

EINSUM = """\
class Net(nn.Module):
    def forward(self, x):
        q = x.view(*x.shape[:2], 4, -1).transpose(1, 2)
        energy = torch.einsum("bhqd,bhkd->bhqk", q, q + 1)
        attention = torch.softmax(energy / (8 ** 0.5), dim=3)
        return torch.einsum("bhql, bhld -> bhqd", attention, q)
"""

MODULES = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x, mask=None):
        q = x / 3
        keep = (torch.arange(x.shape[1]) % 3 > 0)[None, None]
        scores = q.matmul(x.transpose(-2, -1))
        scores.masked_fill_(~keep, float("-inf"))
        return self.softmax(scores).matmul(x)
"""

WHERE = """\
class Net(nn.Module):
    def forward(self, x):
        for _ in range(2):
            keep = x[:, None, :, 0] > -1
            x = torch.where(keep, x @ x.mT, -1e9).softmax(-1) @ x
        return x
"""

SHADOWED = """\
class Net(nn.Module):
    def forward(self, x):
        y = x * 2
        o = x @ y.mT * 0.1
        o = o.softmax(-1)
        o = o @ y
        return o + y
"""

CAUSAL = ("nano_gpt", "local_triangle", "added_triangle_once")

FORMS = {
    "nano_gpt": NANO_GPT,
    "bert": BERT,
    "vit": VIT,
    "annotated": ANNOTATED,
    "local_triangle": LOCAL_TRIANGLE,
    "added_triangle": ADDED_TRIANGLE,
    "llama": LLAMA,
    "t5": T5,
    "einsum": EINSUM,
    "modules": MODULES,
    "where": WHERE,
    "shadowed": SHADOWED,
    "added_triangle_once": ADDED_TRIANGLE.replace(
        'mask = torch.full((n, n), float("-inf"), device=x.device)\n'
        "        mask = torch.triu(mask,",
        'mask = torch.triu(torch.full((n, n), float("-inf"), device=x.device),',
    ),
    "division_by_name": VIT.replace("* self.scale", "/ math.sqrt(width)"),
    "scaled_query": VIT.replace(
        "attn = (q @ k.transpose(-2, -1)) * self.scale",
        "q = q * self.scale\n        attn = q @ k.transpose(-2, -1)",
    ),
    "one_expression": VIT.replace("attn = attn.softmax(dim=-1)\n        ", "").replace(
        "(attn @ v)", "(attn.softmax(-1) @ v)"
    ),
}


def _replaced(text: str) -> str:
    for function in functions_with_attention(text):
        edits = attention_edits("f.py", text, function)
        text = with_needs("f.py", applied(text, edits), [n for e in edits for n in e.needs])
    return text


def _result(text: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and gradient of a file's `Net`."""
    space: dict[str, Any] = {}
    exec(compile(text, "f.py", "exec"), space)
    torch.manual_seed(0)
    net = space["Net"]().double()
    x = torch.randn(2, 12, 32, dtype=torch.float64, requires_grad=True)
    out = net(x)
    out.square().sum().backward()
    assert x.grad is not None
    return out.detach(), x.grad


def _in_double(text: str) -> str:
    """The same file with the softmax that it asks for in float32 in float64.

    A form that casts its scores rounds them to 24 bits whatever its inputs are; what replaces it
    stays in the inputs' dtype. Held against each other as they stand they differ by float32's
    rounding, amplified by the backward pass: 7e-6 here, and by how a processor adds it up. What is
    to be shown is that both compute the same, and that needs no such room.
    """
    return text.replace(".float()", ".double()").replace("torch.float32", "torch.float64")


TOLERANCE = 96 * torch.finfo(torch.float64).eps
"""Sums of at most 96 terms (the gradient through one projection to queries, keys and values of
32), each rounded once, relative to the largest of the tensor's values."""


@pytest.mark.parametrize("name", FORMS)
def test_replaced_and_equal(name: str) -> None:
    text = HEAD + FORMS[name]
    new = _replaced(text)
    assert new.count("scaled_dot_product_attention(") == 1
    assert "oftmax(" not in new.replace("nn.Softmax(", "")
    for one, other in zip(_result(_in_double(text)), _result(new), strict=True):
        assert one.dtype == other.dtype == torch.float64
        room = TOLERANCE * float(one.abs().max())
        torch.testing.assert_close(one, other, rtol=0.0, atol=room)
    assert ("is_causal=True" in new) == (name in CAUSAL or name == "one_causal")
    assert functions_with_attention(new) == []


def test_a_bert_mask_is_given_as_it_is() -> None:
    new = _replaced(HEAD + BERT)
    assert "attn_mask=attention_mask.to(query_layer.dtype) if attention_mask is not" in new
    spaces: list[dict[str, Any]] = [{}, {}]
    for text, space in zip((HEAD + BERT, new), spaces, strict=True):
        exec(compile(text, "f.py", "exec"), space)
    torch.manual_seed(0)
    net = spaces[0]["Net"]()
    other = spaces[1]["Net"]()
    other.load_state_dict(net.state_dict())
    x = torch.randn(2, 12, 32)
    mask = torch.zeros(2, 1, 1, 12).masked_fill(torch.arange(12) > 8, -1e9)
    torch.testing.assert_close(net(x, mask), other(x, mask))


def test_dropout_keeps_its_share() -> None:
    new = _replaced(HEAD + NANO_GPT)
    assert "dropout_p=self.attn_dropout.p if self.attn_dropout.training else 0.0" in new
    assert "mask" not in _replaced(HEAD + LOCAL_TRIANGLE)  # what only made the mask is gone


def test_a_file_without_the_functions_gets_them() -> None:
    text = "import torch\n\n" + dedent(VIT).replace("nn.", "torch.nn.")
    assert "torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=self.scale)" in (
        _replaced(text)
    )


REFUSED = {
    "scores_returned": VIT.replace("length, width)\n", "length, width), attn\n").replace(
        "return (attn", "return (attn"
    ),
    "probabilities_kept": VIT.replace("        return", "        self.last = attn\n        return"),
    "scores_used": VIT.replace(
        "attn = attn.softmax", "print(attn.max())\n        attn = attn.softmax"
    ),
    "other_dimension": VIT.replace("dim=-1", "dim=1"),
    "something_between": VIT.replace(
        "        return (attn", "        attn = attn * 0.5\n        return (attn"
    ),
    "head_mask": VIT.replace("(attn @ v)", "((attn * x[0, 0, 0]) @ v)"),
    "talking_heads": VIT.replace(
        "attn = attn.softmax(dim=-1)", "attn = self.mix(attn)\n        attn = attn.softmax(dim=-1)"
    ),
    "learned_temperature": VIT.replace("(width // heads) ** -0.5", "nn.Parameter(torch.ones(1))"),
    "scale_given": VIT.replace("def forward(self, x)", "def forward(self, x, scale=1)").replace(
        "* self.scale", "* scale"
    ),
    "two_masks": NANO_GPT.replace(
        "att = F.softmax(att, dim=-1)", "att = att + x.mean()\n        att = F.softmax(att, dim=-1)"
    ),
    "mask_scaled_too": VIT.replace("* self.scale", "+ x[:, None]").replace(
        "attn.softmax", "(attn / 3.0).softmax"
    ),
    "query_changed_between": VIT.replace(
        "attn = attn.softmax", "q = q + 1\n        attn = attn.softmax"
    ).replace("(attn @ v)", "(attn @ v + q)"),
    "softcap": VIT.replace("* self.scale", "* self.scale\n        attn = torch.tanh(attn)"),
    "conditional_softmax": VIT.replace(
        "attn = attn.softmax(dim=-1)", "if n > 1:\n            attn = attn.softmax(dim=-1)"
    ),
    "values_of_the_scores": VIT.replace("(attn @ v)", "(attn @ attn)"),
    "no_softmax": VIT.replace("attn.softmax(dim=-1)", "attn.relu()"),
    "two_dropouts": NANO_GPT.replace("y = att @ v", "y = self.attn_dropout(att) @ v"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_certain_is_left_alone(name: str) -> None:
    text = HEAD + REFUSED[name]
    assert text != HEAD + VIT
    assert _replaced(text) == text


def test_a_triangle_that_is_no_square_or_is_shifted_is_no_causal_mask() -> None:
    for old, new in (
        ("tril(torch.ones(block_size, block_size))", "tril(torch.ones(16, 16), -0)"),
        ("[:, :, :T, :T]", "[:, :, T - 1 : T, :T]"),
        (
            "torch.tril(torch.ones(block_size, block_size))",
            "torch.tril(torch.ones(block_size, block_size), diagonal=1)",
        ),
    ):
        assert old in NANO_GPT
        assert "is_causal" not in _replaced(HEAD + NANO_GPT.replace(old, new))


def test_a_function_inside_of_a_class_body_or_a_function(tmp_path: Path) -> None:
    text = HEAD + "def outer():\n" + indent(VIT, "    ") + "    return Net()\n"
    assert "scaled_dot_product_attention" in _replaced(text)
