"""Programs of a third set that no constant was fitted to: text and sound."""

import math

import torch
from third_pictures import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class RMS(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (self.weight * h).to(x.dtype)


class Chunked(nn.Module):
    """A state space whose decay is one number a head: products in chunks, states between them."""

    def __init__(self, width, heads=16, state=64, chunk=128):
        super().__init__()
        self.heads, self.state, self.chunk = heads, state, chunk
        self.enter = nn.Linear(width, 4 * width + 2 * state + heads, bias=False)
        self.mix = nn.Conv1d(2 * width + 2 * state, 2 * width + 2 * state, 4, padding=3,
                             groups=2 * width + 2 * state)  # fmt: skip
        self.rate, self.skip = nn.Parameter(torch.zeros(heads)), nn.Parameter(torch.ones(heads))
        self.norm, self.leave = RMS(2 * width), nn.Linear(2 * width, width, bias=False)
        self.width = width

    def forward(self, x):
        n, t, _ = x.shape
        gate, h, step = self.enter(x).split(
            [2 * self.width, 2 * self.width + 2 * self.state, self.heads], -1
        )
        h = F.silu(self.mix(h.transpose(1, 2))[..., :t].transpose(1, 2))
        v, b, c = h.split([2 * self.width, self.state, self.state], -1)
        step = F.softplus(step.float())
        fall = (-self.rate.exp() * step).unflatten(1, (-1, self.chunk))
        v = (v.unflatten(-1, (self.heads, -1)) * step[..., None]).to(x.dtype)
        v, b, c = (u.unflatten(1, (-1, self.chunk)) for u in (v, b, c))
        total = fall.cumsum(2)
        apart = total[:, :, :, None] - total[:, :, None]
        seen = torch.ones(self.chunk, self.chunk, dtype=torch.bool, device=x.device).tril()
        decay = apart.masked_fill(~seen[:, :, None], -math.inf).exp()
        scores = torch.einsum("nzis,nzjs->nzij", c, b)[..., None] * decay
        y = torch.einsum("nzijh,nzjhd->nzihd", scores.to(v.dtype), v)
        left = (total[:, :, -1:] - total).exp()
        states = torch.einsum("nzjs,nzjh,nzjhd->nzhds", b, left.to(b.dtype), v)
        state, before = torch.zeros_like(states[:, 0]), []
        for z in range(states.shape[1]):
            before.append(state)
            state = state * total[:, z, -1].exp()[:, :, None, None] + states[:, z]
        carried = torch.einsum("nzis,nzhds->nzihd", c, torch.stack(before, 1).to(c.dtype))
        y = y + carried * total.exp()[..., None] + v * self.skip[:, None]
        return self.leave(self.norm(y.flatten(1, 2).flatten(2).to(x.dtype) * F.silu(gate)))


class Stack(nn.Module):
    """Blocks around a mixer of one's own, and a vocabulary."""

    def __init__(self, width, depth, mixer, vocabulary=32000, feed=True):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.mixers = nn.ModuleList(mixer() for _ in range(depth))
        self.norms = nn.ModuleList(RMS(width) for _ in range(2 * depth))
        self.feeds = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(depth if feed else 0)
        )
        self.norm, self.out = RMS(width), nn.Linear(width, vocabulary, bias=False)

    def hidden(self, tokens, *rest):
        x = self.words(tokens)
        for n, mixer in enumerate(self.mixers):
            x = x + mixer(self.norms[2 * n](x), *rest)
            if self.feeds:
                x = x + self.feeds[n](self.norms[2 * n + 1](x))
        return self.norm(x)

    def forward(self, tokens, *rest):
        return self.out(self.hidden(tokens, *rest))


class Heads(nn.Module):
    """Attention with rotated positions."""

    def __init__(self, width, heads, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        half = width // heads // 2
        self.register_buffer("rate", 10000.0 ** (-torch.arange(half) / half))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        angle = torch.arange(x.shape[1], device=x.device)[:, None] * self.rate
        cos, sin = angle.cos().to(q.dtype), angle.sin().to(q.dtype)

        def turned(h):
            a, b = h.chunk(2, -1)
            return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

        h = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=self.causal)
        return self.out(h.transpose(1, 2).flatten(2))


def states_in_chunks():
    """A language model of scalar-decay state spaces, 4 texts of 2,048, bfloat16."""
    model = Stack(1024, 12, lambda: Chunked(1024), feed=False).cuda()
    tokens = torch.randint(0, 32000, (4, 2049), device="cuda")

    def loss():
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())

    return fit(model, loss)


def hidden_words():
    """Words hidden at a random rate and guessed, weighted by the rate; 32 texts of 512, bfloat16."""
    model = Stack(768, 12, lambda: Heads(768, 12, False), 30528).cuda()
    tokens = torch.randint(0, 30000, (32, 512), device="cuda")

    def loss():
        rate = torch.rand(32, 1, device="cuda") * 0.98 + 0.01
        hide = torch.rand(32, 512, device="cuda") < rate
        logits = model(torch.where(hide, 30001, tokens))
        each = F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten(), reduction="none")
        return (each.view(32, 512) * hide / rate).sum() / tokens.numel()

    return fit(model, loss)


def preferred_answers():
    """Two answers compared with a frozen copy's view of them, 4 pairs of 1,024, bfloat16."""
    import copy

    model = Stack(1024, 12, lambda: Heads(1024, 16), 32000).cuda()
    kept = copy.deepcopy(model).requires_grad_(False).eval()
    tokens = torch.randint(0, 32000, (8, 1025), device="cuda")
    answer = torch.arange(1024, device="cuda") >= 300

    def told(network):
        logits = network(tokens[:, :-1]).float().log_softmax(-1)
        return (logits.gather(-1, tokens[:, 1:, None])[..., 0] * answer).sum(-1)

    def loss():
        with torch.no_grad():
            before = told(kept)
        better, worse = (told(model) - before).chunk(2)
        return -F.logsigmoid(0.1 * (better - worse)).mean()

    return fit(model, loss)


def pupil_of_a_teacher():
    """A small model follows a large one's words, 16 texts of 512, bfloat16."""
    teacher = (
        Stack(1536, 12, lambda: Heads(1536, 16), 32000).cuda().bfloat16().requires_grad_(False)
    )
    pupil = Stack(512, 6, lambda: Heads(512, 8), 32000).cuda()
    tokens = torch.randint(0, 32000, (16, 512), device="cuda")

    def loss():
        with torch.no_grad():
            wanted = (teacher(tokens) / 2).float().softmax(-1)
        found = (pupil(tokens) / 2).float().log_softmax(-1)
        return F.kl_div(found.flatten(0, 1), wanted.flatten(0, 1), reduction="batchmean") * 4

    return fit(pupil, loss)


def questions_and_answers():
    """An encoder in half precision reads padded pairs, inference: 64 of 384, float16."""
    layer = {"dim_feedforward": 4096, "activation": "gelu", "batch_first": True, "dropout": 0.1}
    words, places = nn.Embedding(30522, 1024), nn.Embedding(512, 1024)
    blocks = nn.ModuleList(nn.TransformerEncoderLayer(1024, 16, **layer) for _ in range(24))
    out, norm = nn.Linear(1024, 2), nn.LayerNorm(1024)
    model = nn.ModuleList([words, places, blocks, norm, out]).cuda().half().eval()
    tokens = torch.randint(0, 30522, (64, 384), device="cuda")
    lengths = torch.randint(100, 384, (64,), device="cuda")
    at = torch.arange(384, device="cuda")

    @torch.no_grad()
    def step():
        padded = at >= lengths[:, None]
        mask = torch.zeros(64, 1, 1, 384, device="cuda", dtype=torch.half)
        mask = mask.masked_fill(padded[:, None, None], float("-inf"))
        h = norm(words(tokens) + places(at))
        for block in blocks:
            a = block.self_attn
            q, k, v = (
                F.linear(h, a.in_proj_weight, a.in_proj_bias)
                .unflatten(-1, (3, 16, -1))
                .permute(2, 0, 3, 1, 4)
            )
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            h = block.norm1(h + a.out_proj(y.transpose(1, 2).flatten(2)))
            h = block.norm2(h + block.linear2(F.gelu(block.linear1(h))))
        return out(h).argmax(1)

    return step


def words_in_eight_bits():
    """Weights of 8 bits are widened before each product, 16 texts of 1,024 read, bfloat16."""

    class Narrow(nn.Module):
        def __init__(self, inside, outside):
            super().__init__()
            self.register_buffer("q", torch.randint(-127, 128, (outside, inside), dtype=torch.int8))
            self.register_buffer("scale", torch.rand(outside, 1, dtype=torch.bfloat16) * 0.001)

        def forward(self, x):
            return F.linear(x, self.q.to(x.dtype) * self.scale)

    model = Stack(2048, 12, lambda: Heads(2048, 16), 32000)
    for mixer, feed in zip(model.mixers, model.feeds, strict=True):
        mixer.qkv, mixer.out = Narrow(2048, 6144), Narrow(2048, 2048)
        feed[0], feed[2] = Narrow(2048, 8192), Narrow(8192, 2048)
    model = model.cuda().bfloat16().eval()
    tokens = torch.randint(0, 32000, (16, 1024), device="cuda")

    @torch.no_grad()
    def step():
        return model.out(model.hidden(tokens)[:, -1]).argmax(-1)

    return step


class Reads(nn.Module):
    """A decoder's block: itself, what was heard, a feed-forward part."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.q, self.kv, self.back = (
            nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width),
        )  # fmt: skip
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def split(self, h, parts):
        return h.unflatten(-1, (parts, self.heads, -1)).permute(2, 0, 3, 1, 4)

    def forward(self, x, heard, keys, values, at):
        q, k, v = self.split(self.qkv(self.norms[0](x)), 3)
        keys[:, :, at], values[:, :, at] = k[:, :, 0], v[:, :, 0]
        h = F.scaled_dot_product_attention(q, keys[:, :, : at + 1], values[:, :, : at + 1])
        x = x + self.out(h.transpose(1, 2).flatten(2))
        (q,) = self.split(self.q(self.norms[1](x)), 1)
        h = F.scaled_dot_product_attention(q, *heard)
        x = x + self.back(h.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[2](x))))


def speech_to_words():
    """Sound of half a minute encoded, then 8 words written greedily; 8 at a time, float16."""
    width, depth = 1024, 12
    ears = nn.Sequential(
        nn.Conv1d(80, width, 3, padding=1), nn.GELU(), nn.Conv1d(width, width, 3, 2, 1), nn.GELU()
    )
    encoder = nn.ModuleList(Heads(width, 16, False) for _ in range(depth))
    feeds = nn.ModuleList(
        nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4096), nn.GELU(), nn.Linear(4096, width)
        )
        for _ in range(depth)
    )
    norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
    decoder = nn.ModuleList(Reads(width, 16) for _ in range(depth))
    words = nn.Embedding(51865, width)
    model = nn.ModuleList([ears, encoder, feeds, norms, decoder, words]).cuda().half().eval()
    sound = torch.randn(8, 80, 3000, device="cuda", dtype=torch.half)

    @torch.no_grad()
    def step():
        h = ears(sound).transpose(1, 2)
        for attend, feed, norm in zip(encoder, feeds, norms, strict=True):
            h = h + attend(norm(h))
            h = h + feed(h)
        heard = [tuple(b.split(b.kv(h), 2)) for b in decoder]
        kept = torch.zeros(depth, 2, 8, 16, 16, 64, device="cuda", dtype=torch.half)
        token = torch.zeros(8, 1, dtype=torch.long, device="cuda")
        for at in range(8):
            x = words(token)
            for n, block in enumerate(decoder):
                x = block(x, heard[n], kept[n, 0], kept[n, 1], at)
            token = (x @ words.weight.T).argmax(-1)
        return token

    return step


def voices_apart():
    """Two voices told apart by dilated convolutions on a learned basis; 8 of 4 s, float32."""
    encode, decode = (
        nn.Conv1d(1, 512, 16, 8, bias=False),
        nn.ConvTranspose1d(512, 1, 16, 8, bias=False),
    )
    narrow, masks = nn.Conv1d(512, 128, 1), nn.Conv1d(128, 1024, 1)
    blocks = nn.ModuleList(
        nn.Sequential(
            nn.Conv1d(128, 512, 1), nn.PReLU(), nn.GroupNorm(1, 512),
            nn.Conv1d(512, 512, 3, padding=2**n, dilation=2**n, groups=512), nn.PReLU(),
            nn.GroupNorm(1, 512), nn.Conv1d(512, 128, 1),
        )
        for _ in range(3)
        for n in range(8)
    )  # fmt: skip
    model = nn.ModuleList([encode, decode, narrow, masks, blocks]).cuda()
    mixed, apart = torch.randn(8, 1, 32000, device="cuda"), torch.randn(8, 2, 32000, device="cuda")

    def ratio(found, truth):
        scaled = (
            (found * truth).sum(-1, keepdim=True) / truth.square().sum(-1, keepdim=True) * truth
        )
        return 10 * torch.log10(scaled.square().sum(-1) / (found - scaled).square().sum(-1))

    def loss():
        basis = F.relu(encode(mixed))
        h = narrow(basis)
        for block in blocks:
            h = h + block(h)
        m = masks(F.relu(h)).sigmoid().unflatten(1, (2, 512))
        made = decode((m * basis[:, None]).flatten(0, 1)).view(8, 2, -1)
        straight = ratio(made, apart).mean(1)
        crossed = ratio(made, apart.flip(1)).mean(1)
        return -torch.maximum(straight, crossed).mean()

    return fit(model, loss, None)


def sentences_apart():
    """Two encoders' means compared within a batch of 256 pairs of 128, bfloat16."""
    model = Stack(768, 6, lambda: Heads(768, 12, False), 30522).cuda()
    one, two = (torch.randint(0, 30522, (256, 128), device="cuda") for _ in range(2))
    lengths = torch.randint(20, 128, (2, 256), device="cuda")
    at = torch.arange(128, device="cuda")

    def mean(tokens, length):
        seen = (at < length[:, None])[..., None]
        h = model.hidden(tokens) * seen
        return F.normalize(h.float().sum(1) / seen.sum(1), dim=-1)

    def loss():
        near = mean(one, lengths[0]) @ mean(two, lengths[1]).T / 0.05
        wanted = torch.arange(256, device="cuda")
        return (F.cross_entropy(near, wanted) + F.cross_entropy(near.T, wanted)) / 2

    return fit(model, loss)
