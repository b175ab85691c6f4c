"""Programs of a fifth set that no constant was fitted to: long texts, pictures, other languages."""

import torch
from fourth_texts import RMS, Swiglu
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention.bias import causal_lower_right


class Cached(nn.Module):
    """A block that writes keys and values to a cache of all heads and reads what is known."""

    def __init__(self, width, heads, groups, wide):
        super().__init__()
        self.heads, self.groups, self.deep = heads, groups, width // heads
        self.qkv = nn.Linear(width, width + 2 * groups * self.deep, bias=False)
        self.out, self.feed = nn.Linear(width, width, bias=False), Swiglu(width, wide)
        self.norms = nn.ModuleList(RMS(width) for _ in range(2))

    def forward(self, x, cache, at, cos, sin):
        def turned(h):
            a, b = h.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        n, t, _ = x.shape
        h = self.qkv(self.norms[0](x)).view(n, t, -1, self.deep).transpose(1, 2)
        q, k, v = h.split([self.heads, self.groups, self.groups], 1)
        cache[0][:, :, at : at + t] = turned(k)
        cache[1][:, :, at : at + t] = v
        k, v = (s[:, :, : at + t].repeat_interleave(self.heads // self.groups, 1) for s in cache)
        if t == 1:
            y = F.scaled_dot_product_attention(turned(q), k, v)
        elif at == 0:
            y = F.scaled_dot_product_attention(turned(q), k, v, is_causal=True)
        else:
            bias = causal_lower_right(t, at + t)
            y = F.scaled_dot_product_attention(turned(q), k, v, attn_mask=bias)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


def turning(length, deep, kind):
    rate = 5e5 ** (-torch.arange(deep // 2, device="cuda") / (deep // 2))
    angle = torch.arange(length, device="cuda")[:, None] * rate
    return angle.cos().to(kind), angle.sin().to(kind)


def prefill_in_chunks(
    batch=1, length=16384, chunk=4096, width=3072, depth=6, heads=24, groups=8, words=128256
):
    """A long text read in four pieces, each seeing those before; bfloat16, inference."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        table, norm = nn.Embedding(words, width), RMS(width)
        blocks = nn.ModuleList(Cached(width, heads, groups, 8 * width // 3) for _ in range(depth))
        out = nn.Linear(width, words, bias=False)
        tokens = torch.randint(0, words, (batch, length))
    nn.ModuleList([table, norm, blocks, out]).bfloat16().eval()
    shape = depth, 2, batch, groups, length, width // heads
    caches = torch.zeros(shape, device="cuda", dtype=torch.bfloat16)
    cos, sin = turning(length, width // heads, torch.bfloat16)

    @torch.no_grad()
    def step():
        for at in range(0, length, chunk):
            x = table(tokens[:, at : at + chunk])
            for block, cache in zip(blocks, caches, strict=True):
                x = block(x, cache, at, cos[at : at + chunk], sin[at : at + chunk])
        return out(norm(x[:, -1])).float().argmax(-1)

    return step


def pictures_before_words(
    batch=1, pictures=2, side=384, seeing=768, looks=12, width=2048, depth=12, heads=16, groups=8,
    words=49152, asked=64, told=5,
):  # fmt: skip
    """Pictures as words before a question, then an answer written greedily; bfloat16, inference."""
    torch.manual_seed(0)
    across = side // 16
    with torch.device("cuda"):
        cut = nn.Conv2d(3, seeing, 16, 16)
        place = nn.Parameter(torch.randn(1, across * across, seeing) * 0.02)
        eye = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(
                seeing, seeing // 64, 4 * seeing, 0.0, F.gelu, batch_first=True, norm_first=True
            ),
            looks, nn.LayerNorm(seeing), enable_nested_tensor=False,
        )  # fmt: skip
        bridge = nn.Sequential(
            nn.LayerNorm(9 * seeing), nn.Linear(9 * seeing, width), nn.GELU(),
            nn.Linear(width, width),
        )  # fmt: skip
        table, norm = nn.Embedding(words, width), RMS(width)
        blocks = nn.ModuleList(Cached(width, heads, groups, 4 * width) for _ in range(depth))
        images = torch.rand(batch * pictures, 3, side, side, dtype=torch.bfloat16)
        question = torch.randint(0, words, (batch, asked))
    model = nn.ModuleList([cut, eye, bridge, table, norm, blocks]).bfloat16().eval()
    model.register_parameter("place", nn.Parameter(place.detach().bfloat16()))
    model.requires_grad_(False)
    first = pictures * (across // 3) ** 2 + asked
    deep = width // heads
    shape = depth, 2, batch, groups, first + told, deep
    caches = torch.zeros(shape, device="cuda", dtype=torch.bfloat16)
    cos, sin = turning(first + told, deep, torch.bfloat16)

    def read(x, at):
        part = slice(at, at + x.shape[1])
        for block, cache in zip(blocks, caches, strict=True):
            x = block(x, cache, at, cos[part], sin[part])
        return F.linear(norm(x[:, -1:]), table.weight).float().argmax(-1)

    @torch.no_grad()
    def step():
        seen = eye(cut(images).flatten(2).transpose(1, 2) + model.place)
        seen = seen.unflatten(1, (across // 3, 3, across // 3, 3))
        seen = bridge(seen.permute(0, 1, 3, 2, 4, 5).reshape(batch, first - asked, -1))
        token = read(torch.cat([seen, table(question)], 1), 0)
        said = [token]
        for n in range(told - 1):
            said.append(read(table(said[-1]), first + n))
        return torch.cat(said, 1)

    return step


def aligned_translation(batch=64, length=20, width=512, words=30000):
    """Two-way gated units read, one cell after the other writes and looks back; float32."""
    torch.manual_seed(0)
    source_table, target_table = nn.Embedding(words, width), nn.Embedding(words, width)
    reader = nn.GRU(width, width, bidirectional=True, batch_first=True)
    begin = nn.Linear(width, width)
    cell = nn.GRUCell(3 * width, width)
    ask, key, score = (
        nn.Linear(width, width, bias=False),
        nn.Linear(2 * width, width, bias=False),
        nn.Linear(width, 1, bias=False),
    )
    deepen, out = nn.Linear(4 * width, width), nn.Linear(width, words)
    model = nn.ModuleList(
        [source_table, target_table, reader, begin, cell, ask, key, score, deepen, out]
    ).cuda()
    source = torch.randint(1, words, (batch, length), device="cuda")
    lengths = torch.arange(length // 2, length // 2 + batch, device="cuda").clamp(max=length)
    target = torch.randint(1, words, (batch, length + 1), device="cuda")
    beyond = torch.arange(length, device="cuda") >= lengths[:, None]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)

    def loss():
        memory, last = reader(F.dropout(source_table(source), 0.2))
        keys, h = key(memory), torch.tanh(begin(last[1]))
        total = 0.0
        for n in range(length):
            word = F.dropout(target_table(target[:, n]), 0.2)
            scores = score(torch.tanh(ask(h)[:, None] + keys))[..., 0]
            weight = scores.masked_fill(beyond, -1e9).softmax(-1)
            seen = torch.bmm(weight[:, None], memory)[:, 0]
            h = cell(torch.cat([word, seen], -1), h)
            logits = out(torch.tanh(deepen(torch.cat([h, seen, word], -1))))
            total = total + F.cross_entropy(logits, target[:, n + 1])
        return total / length

    return fit(model, loss, None, optimizer, clip=1.0)
