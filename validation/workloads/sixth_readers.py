"""Programs of a sixth set that no constant was fitted to: language, read and answered."""

import torch
from fourth_texts import RMS, Swiglu
from torch import nn
from torch.nn import functional as F  # noqa: N812


def turned(x, angle):
    a, b = x.chunk(2, -1)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Paged(nn.Module):
    """Keys and values in pages of a pool, looked up by each sequence's list."""

    def __init__(self, width, heads, groups, wide):
        super().__init__()
        self.heads, self.groups, self.deep = heads, groups, width // heads
        self.qkv = nn.Linear(width, width + 2 * groups * self.deep, bias=False)
        self.out, self.feed = nn.Linear(width, width, bias=False), Swiglu(width, wide)
        self.norms = nn.ModuleList(RMS(width) for _ in range(2))

    def forward(self, x, pool, pages, place, angle, seen):
        n = len(x)
        h = self.qkv(self.norms[0](x)).view(n, -1, self.deep)
        q, k, v = h.split([self.heads, self.groups, self.groups], 1)
        q, k = turned(q, angle[:, None]), turned(k, angle[:, None])
        size = pool.shape[2]
        page = pages.gather(1, place[:, None] // size)[:, 0]
        pool[0, page, place % size] = k
        pool[1, page, place % size] = v
        k, v = (z[pages].flatten(1, 2).transpose(1, 2) for z in pool)
        y = F.scaled_dot_product_attention(
            q[:, :, None], k, v, attn_mask=seen[:, None, None], enable_gqa=True
        )
        x = x + self.out(y.flatten(1))
        return x + self.feed(self.norms[1](x))


def paged_decode(
    batch=48, past=1536, size=16, width=2048, depth=12, heads=16, groups=4, words=64000, steps=3
):
    """Three words each for 48 sequences whose keys lie in pages; bfloat16, inference."""
    torch.manual_seed(0)
    many = past // size + 2
    with torch.device("cuda"):
        table = nn.Embedding(words, width)
        blocks = nn.ModuleList(Paged(width, heads, groups, 8 * width // 3) for _ in range(depth))
        norm, out = RMS(width), nn.Linear(width, words, bias=False)
        pages = torch.randperm(batch * many).view(batch, many)
        count = torch.randint(past // 2, past, (batch,))
        token = torch.randint(0, words, (batch,))
        deep = width // heads
        rate = 5e5 ** (-torch.arange(deep // 2) / (deep // 2))
        pool = torch.randn(depth, 2, batch * many, size, groups, deep, dtype=torch.bfloat16)
    nn.ModuleList([table, blocks, norm, out]).bfloat16().eval()

    @torch.inference_mode()
    def step():
        last, said = token, []
        for n in range(steps):
            place = count + n
            seen = torch.arange(many * size, device=place.device) <= place[:, None]
            x = table(last)
            for block, kept in zip(blocks, pool, strict=True):
                x = block(x, kept, pages, place, place[:, None] * rate, seen)
            logits = out(norm(x)).float() / 0.7
            best, index = logits.topk(40)
            drawn = torch.multinomial(best.softmax(-1), 1)
            last = index.gather(1, drawn)[:, 0]
            said.append(last)
        return torch.stack(said, 1)

    return step


class Static(nn.Module):
    """A block whose cache has all places from the start."""

    def __init__(self, width, heads, groups, wide, batch, places):
        super().__init__()
        self.heads, self.groups, self.deep = heads, groups, width // heads
        self.qkv = nn.Linear(width, width + 2 * groups * self.deep, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 2 * wide, bias=False)
        self.down = nn.Linear(wide, width, bias=False)
        self.norms = nn.ModuleList(RMS(width) for _ in range(2))
        shape = batch, groups, places, self.deep
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))

    def forward(self, x, place, angle, seen):
        n, t, _ = x.shape
        h = self.qkv(self.norms[0](x)).view(n, t, -1, self.deep).transpose(1, 2)
        q, k, v = h.split([self.heads, self.groups, self.groups], 1)
        q, k = turned(q, angle), turned(k, angle)
        self.keys[:, :, place] = k
        self.values[:, :, place] = v
        k, v = (z.repeat_interleave(self.heads // self.groups, 1) for z in (self.keys, self.values))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        gate, h = self.up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * h)


def static_words_compiled(
    batch=8, places=2048, past=1000, width=3072, depth=16, heads=24, groups=8, words=128256, steps=4
):
    """Four words each from a cache of fixed size, in CUDA graphs; compiled, bfloat16, inference."""
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.norm = nn.Embedding(words, width), RMS(width)
            self.blocks = nn.ModuleList(
                Static(width, heads, groups, 8192 * width // 3072, batch, places)
                for _ in range(depth)
            )
            deep = width // heads
            rate = 5e5 ** (-torch.arange(deep // 2) / (deep // 2))
            self.register_buffer("angle", torch.arange(places)[:, None] * rate)

        def forward(self, tokens, place):
            at = torch.arange(places, device=place.device)
            seen, angle = at <= place[:, None], self.angle[place]
            x = self.table(tokens)
            for block in self.blocks:
                x = block(x, place, angle, seen)
            return F.linear(self.norm(x[:, -1]), self.table.weight)

    with torch.device("cuda"):
        model = Model().bfloat16().eval()
        token = torch.randint(0, words, (batch, 1))
        start = torch.tensor([past])
    run = torch.compile(model, mode="reduce-overhead")

    @torch.no_grad()
    def step():
        last, place, said = token, start.clone(), []
        for _ in range(steps):
            last = run(last, place).argmax(-1, keepdim=True).clone()
            said.append(last)
            place = place + 1
        return torch.cat(said, 1)

    return step


def encoded_with_padding(batch=64, length=512, width=1024, depth=12, heads=16, words=50000):
    """Passages of many lengths to unit vectors by PyTorch's own encoder; float16, inference."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        table, place = nn.Embedding(words, width, padding_idx=0), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, activation="gelu", batch_first=True
        )
        body, head = nn.TransformerEncoder(layer, depth), nn.Linear(width, width)
        tokens = torch.randint(1, words, (batch, length))
        count = torch.randint(length // 8, length + 1, (batch,))
        count[0] = length
    tokens[torch.arange(length, device=tokens.device) >= count[:, None]] = 0
    nn.ModuleList([table, place, body, head]).half().eval()

    @torch.inference_mode()
    def step():
        hidden = tokens == 0
        x = table(tokens) + place.weight
        h = body(x, src_key_padding_mask=hidden)
        real = (~hidden)[..., None].half()
        mean = (h * real).sum(1) / real.sum(1)
        return F.normalize(torch.tanh(head(mean)).float(), dim=-1)

    return step
