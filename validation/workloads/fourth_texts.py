"""Programs of a fourth set that no constant was fitted to: language."""

import copy

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint


class RMS(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), 1e-6)


def rotated(x, base=1e6):
    """(batch, heads, places, width) turned by its place."""
    half = x.shape[-1] // 2
    rate = base ** (-torch.arange(half, device=x.device) / half)
    angle = torch.arange(x.shape[-2], device=x.device)[:, None] * rate
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Grouped(nn.Module):
    """Attention of many queries to few keys, both of unit mean square, behind a gate."""

    def __init__(self, width, heads, groups, gated=False, linear=nn.Linear):
        super().__init__()
        self.heads, self.groups, self.deep = heads, groups, width // heads
        self.q = linear(width, width * (1 + gated))
        self.kv, self.out = linear(width, 2 * groups * self.deep), linear(width, width)
        self.norms = nn.ModuleList(RMS(self.deep) for _ in range(2))

    def forward(self, x):
        q, *gate = self.q(x).split(self.heads * self.deep, -1)
        q = self.norms[0](q.unflatten(-1, (self.heads, -1))).transpose(1, 2)
        k, v = self.kv(x).unflatten(-1, (2, self.groups, -1)).permute(2, 0, 3, 1, 4)
        k, copies = rotated(self.norms[1](k)), self.heads // self.groups
        k, v = (h[:, :, None].expand(-1, -1, copies, -1, -1).flatten(1, 2) for h in (k, v))
        y = F.scaled_dot_product_attention(rotated(q), k, v, is_causal=True)
        y = y.transpose(1, 2).flatten(2)
        return self.out(y * gate[0].sigmoid() if gate else y)


class Swiglu(nn.Module):
    def __init__(self, width, wide, linear=nn.Linear):
        super().__init__()
        self.up, self.down = linear(width, 2 * wide), linear(wide, width)

    def forward(self, x):
        gate, h = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * h)


class Decoder(nn.Module):
    """Blocks around mixers given, words tied to what is said."""

    def __init__(self, words, width, mixers, wide, linear=nn.Linear):
        super().__init__()
        self.words = nn.Embedding(words, width)
        nn.init.normal_(self.words.weight, std=0.02)
        self.mixers = nn.ModuleList(mixers)
        self.feeds = nn.ModuleList(Swiglu(width, wide, linear) for _ in mixers)
        self.norms = nn.ModuleList(RMS(width) for _ in range(2 * len(mixers) + 1))

    def block(self, n, x):
        x = x + self.mixers[n](self.norms[2 * n](x))
        return x + self.feeds[n](self.norms[2 * n + 1](x))

    def hidden(self, tokens, again=False):
        """`again`: what is inside a block is computed again on the way back."""
        x = self.words(tokens)
        for n in range(len(self.mixers)):
            x = checkpoint(self.block, n, x, use_reentrant=False) if again else self.block(n, x)
        return self.norms[-1](x)


class GatedDelta(nn.Module):
    """Linear attention whose state forgets and is corrected: chunks, a triangle solved in each."""

    def __init__(self, width, heads, chunk=128):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.qkv, self.gate = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.conv = nn.Conv1d(3 * width, 3 * width, 4, padding=3, groups=3 * width, bias=False)
        self.rates = nn.Linear(width, 2 * heads)
        self.speed = nn.Parameter(torch.zeros(heads))
        self.norm, self.out = RMS(width // heads), nn.Linear(width, width)

    def forward(self, x):
        t = x.shape[1]
        h = F.silu(self.conv(self.qkv(x).transpose(1, 2))[..., :t].transpose(1, 2))
        parts = h.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).float()
        q, k, v = parts.unflatten(3, (-1, self.chunk))
        q, k = F.normalize(q, dim=-1) * q.shape[-1] ** -0.5, F.normalize(k, dim=-1)
        learn, forget = self.rates(x).float().transpose(1, 2).chunk(2, 1)
        learn = learn.sigmoid().unflatten(2, (-1, self.chunk))[..., None]
        fall = -self.speed.exp()[:, None] * F.softplus(forget)
        fall = fall.unflatten(2, (-1, self.chunk)).cumsum(-1)
        apart = (fall[..., :, None] - fall[..., None, :]).tril().exp().tril()
        triangle = (k * learn) @ k.mT * apart
        right = torch.cat([v * learn, k * learn * fall[..., None].exp()], -1)
        new, seen = torch.linalg.solve_triangular(
            triangle.tril(-1), right, upper=False, unitriangular=True
        ).chunk(2, -1)
        inner = (q @ k.mT) * apart
        last = fall[..., -1:]
        onward, entering = k * (last - fall)[..., None].exp(), q * fall[..., None].exp()
        state, made = torch.zeros_like(k[:, :, 0].mT @ v[:, :, 0]), []
        for z in range(new.shape[2]):
            fresh = new[:, :, z] - seen[:, :, z] @ state
            made.append(entering[:, :, z] @ state + inner[:, :, z] @ fresh)
            state = state * last[:, :, z, :, None].exp() + onward[:, :, z].mT @ fresh
        y = self.norm(torch.stack(made, 2).flatten(2, 3).transpose(1, 2)).flatten(2)
        return self.out(y.to(x.dtype) * F.silu(self.gate(x)))


def gated_delta_hybrid(batch=8, length=2048, width=1024, depth=4, heads=8, words=50304, chunk=128):
    """Three layers of a gated delta rule to one of attention, a language model; bfloat16."""
    torch.manual_seed(0)
    mixers = [
        Grouped(width, 2 * heads, heads // 2, gated=True)
        if n % 4 == 3
        else GatedDelta(width, heads, chunk)
        for n in range(depth)
    ]
    model = Decoder(words, width, mixers, 3 * width).cuda()
    tokens = torch.randint(0, words, (batch, length + 1), device="cuda")

    def loss():
        logits = F.linear(model.hidden(tokens[:, :-1]), model.words.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    return fit(model, loss, clip=1.0)


class LatentAttention(nn.Module):
    """Attention to a narrow latent; what widens it is folded into queries and into what is read."""

    def __init__(self, width, heads, latent=512, turned=64, deep=128):
        super().__init__()
        self.heads, self.latent, self.turned, self.deep = heads, latent, turned, deep
        self.q = nn.Linear(width, heads * (deep + turned), bias=False)
        self.down, self.norm = nn.Linear(width, latent + turned, bias=False), RMS(latent)
        self.up_k = nn.Parameter(torch.randn(heads, deep, latent) * 0.02)
        self.up_v = nn.Parameter(torch.randn(heads, latent, deep) * 0.02)
        self.out = nn.Linear(heads * deep, width, bias=False)

    def forward(self, x, cache, at, cos, sin):
        def turn(h):
            a, b = h.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

        q, turned = self.q(x).unflatten(-1, (self.heads, -1)).split([self.deep, self.turned], -1)
        latent, key = self.down(x).split([self.latent, self.turned], -1)
        cache[:, at] = torch.cat([self.norm(latent), turn(key)], -1)
        known = cache[:, : at + 1]
        asked = torch.cat([torch.einsum("nhd,hdl->nhl", q, self.up_k), turn(turned)], -1)
        scores = asked @ known.mT * (self.deep + self.turned) ** -0.5
        read = scores.float().softmax(-1).to(x.dtype) @ known[..., : self.latent]
        return self.out(torch.einsum("nhl,hld->nhd", read, self.up_v).flatten(1))


def latent_attention_decode(
    batch=64, length=8192, width=2048, depth=12, heads=16, words=102400, steps=4
):
    """Nucleus sampling with latent attention to 8,192 places; bfloat16, inference."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        layers = nn.ModuleList(
            nn.ModuleList([RMS(width), LatentAttention(width, heads), RMS(width),
                           Swiglu(width, 5 * width)])
            for _ in range(depth)
        )  # fmt: skip
        table, out = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        nn.ModuleList([layers, table, out]).bfloat16().eval()
        caches = torch.zeros(depth, batch, length, 576, dtype=torch.bfloat16)
        first = torch.randint(0, words, (batch,))
        rate = 1e4 ** (-torch.arange(32) / 32)

    @torch.no_grad()
    def step():
        token = first
        for at in range(length - steps, length):
            x = table(token)
            cos, sin = (at * rate).cos().bfloat16(), (at * rate).sin().bfloat16()
            for n, (norm, attend, norm2, feed) in enumerate(layers):
                h = norm(x)
                x = x + attend(h, caches[n], at, cos, sin)
                x = x + feed(norm2(x))
            chance, order = (out(x).float() / 0.7).softmax(-1).sort(-1, descending=True)
            chance = chance.masked_fill(chance.cumsum(-1) - chance > 0.9, 0.0)
            token = order.gather(1, torch.multinomial(chance, 1))[:, 0]
        return token

    return step


class Cached(nn.Module):
    """A block that reads a cache and writes what it sees of a few new words into it."""

    def __init__(self, width, heads, groups, wide):
        super().__init__()
        self.heads, self.groups, self.deep = heads, groups, width // heads
        self.qkv = nn.Linear(width, width + 2 * groups * self.deep, bias=False)
        self.out, self.feed = nn.Linear(width, width, bias=False), Swiglu(width, wide)
        self.norms = nn.ModuleList(RMS(width) for _ in range(2))

    def forward(self, x, cache, at, mask):
        n, t, _ = x.shape
        kept = self.groups * self.deep
        q, k, v = self.qkv(self.norms[0](x)).split([self.heads * self.deep, kept, kept], -1)
        for store, new in zip(cache, (k, v), strict=True):
            store[:, :, at : at + t] = new.view(n, t, self.groups, self.deep).transpose(1, 2)
        copies = self.heads // self.groups
        k, v = (s[:, :, None, : at + t].expand(-1, -1, copies, -1, -1).flatten(1, 2) for s in cache)
        q = q.view(n, t, self.heads, self.deep).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


def speculative_verification(
    batch=16, length=4096, drafted=6, width=4096, depth=12, wide=14336, words=128256, small=1024
):
    """A small model drafts six words, a large one judges them at once; float16, inference."""
    torch.manual_seed(0)

    def network(wide_x, layers, heads, groups, feed):
        with torch.device("cuda"):
            return nn.ModuleDict({
                "words": nn.Embedding(words, wide_x),
                "blocks": nn.ModuleList(Cached(wide_x, heads, groups, feed) for _ in range(layers)),
                "norm": RMS(wide_x),
            }).half().eval()  # fmt: skip

    heads = width // 128
    large, draft = (
        network(width, depth, heads, heads // 4, wide),
        network(small, 4, small // 64, small // 128, 4 * small),
    )
    total = length + drafted + 1
    caches = [
        torch.zeros(n, 2, batch, g, total, d, device="cuda", dtype=torch.half)
        for n, g, d in ((depth, heads // 4, 128), (4, small // 128, 64))
    ]
    start = torch.randint(0, words, (batch, 1), device="cuda")

    def chances(net, cache, tokens, at):
        x, t = net["words"](tokens), tokens.shape[1]
        mask = None
        if t > 1:
            seen = torch.arange(at + t, device="cuda")
            mask = seen <= at + torch.arange(t, device="cuda")[:, None]
        for block, kept in zip(net["blocks"], cache, strict=True):
            x = block(x, kept, at, mask)
        return F.linear(net["norm"](x), net["words"].weight).float().softmax(-1)

    @torch.no_grad()
    def step():
        tokens, said = start, []
        for n in range(drafted):
            p = chances(draft, caches[1], tokens[:, -1:], length + n)[:, 0]
            said.append(p)
            tokens = torch.cat([tokens, torch.multinomial(p, 1)], 1)
        p, q = torch.stack(said, 1), chances(large, caches[0], tokens, length)
        new = tokens[:, 1:, None]
        ratio = (q[:, :-1].gather(2, new) / p.gather(2, new))[..., 0]
        kept = (torch.rand_like(ratio) < ratio).long().cumprod(1).sum(1)
        p = torch.cat([p, torch.zeros_like(p[:, :1])], 1)
        at = kept[:, None, None].expand(-1, 1, words)
        rest = (q.gather(1, at) - p.gather(1, at)).clamp(min=0)[:, 0]
        return kept, torch.multinomial(rest + 1e-9, 1)

    return step


def group_relative_policy(groups=2, answers=4, length=1024, width=1536, depth=6, words=65536):
    """Answers of a group weighed by each other's rewards, a frozen copy kept near; bfloat16."""
    torch.manual_seed(0)
    heads = width // 128
    mixers = [Grouped(width, heads, heads // 3) for _ in range(depth)]
    model = Decoder(words, width, mixers, 4 * width).cuda()
    frozen = copy.deepcopy(model).requires_grad_(False).bfloat16()
    count, parts = groups * answers, 8
    tokens = torch.randint(0, words, (count, length + 1), device="cuda")
    answer = (torch.arange(length, device="cuda") >= length // 4).float()
    answer = answer * (
        torch.arange(length, device="cuda") < torch.randint(length // 2, length, (count, 1)).cuda()
    )
    reward = torch.randn(groups, answers, device="cuda")

    def part(hidden, weight, target):
        logits = F.linear(hidden, weight).float()
        return logits.gather(-1, target[..., None])[..., 0] - logits.logsumexp(-1)

    def told(net, again):
        """Log chances of the words, the vocabulary's products a piece of the text at a time."""
        h, found = net.hidden(tokens[:, :-1], again), []
        for piece, target in zip(h.chunk(parts, 1), tokens[:, 1:].chunk(parts, 1), strict=True):
            if again:
                found.append(checkpoint(part, piece, net.words.weight, target, use_reentrant=False))
            else:
                found.append(part(piece, net.words.weight, target))
        return torch.cat(found, 1)

    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        before = told(model, False)

    def loss():
        with torch.no_grad():
            near = told(frozen, False)
            gain = (reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-4)
            gain = gain.view(-1, 1)
        now = told(model, True)
        ratio = (now - before).exp()
        won = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.28) * gain)
        away = (near - now).exp() - (near - now) - 1
        return ((-won + 0.04 * away) * answer).sum() / answer.sum()

    return fit(model, loss, clip=1.0)


NF4 = (
    -1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0,
    0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0,
)  # fmt: skip


class FourBits(nn.Module):
    """Weights of four bits looked up in a table, blocks of 64 scaled; two narrow layers beside."""

    def __init__(self, inside, outside, rank=32):
        super().__init__()
        count = inside * outside
        self.shape = outside, inside
        self.register_buffer("packed", torch.randint(0, 256, (count // 2,), dtype=torch.uint8))
        self.register_buffer("scale", torch.randint(0, 256, (count // 64,), dtype=torch.uint8))
        self.register_buffer("steps", torch.rand(max(1, count // 64 // 256)) * 2e-4)
        self.register_buffer("table", torch.tensor(NF4))
        self.a, self.b = nn.Linear(inside, rank, bias=False), nn.Linear(rank, outside, bias=False)
        nn.init.zeros_(self.b.weight)

    def widened(self, dtype):
        four = torch.stack([self.packed >> 4, self.packed & 15], -1).flatten().int()
        scale = (self.scale.view(len(self.steps), -1) * self.steps[:, None]).view(-1, 1)
        return (self.table[four].view(-1, 64) * scale).to(dtype).view(self.shape)

    def forward(self, x):
        return F.linear(x, self.widened(x.dtype)) + 0.5 * self.b(self.a(x))


def four_bit_low_rank(batch=4, length=1024, width=2048, depth=8, words=32000):
    """A frozen model of four bits tuned by low-rank layers, blocks computed again; bfloat16."""
    torch.manual_seed(0)
    heads = width // 128
    with torch.device("cuda"):
        mixers = [Grouped(width, heads, heads // 4, linear=FourBits) for _ in range(depth)]
        model = Decoder(words, width, mixers, 3 * width, FourBits)
    model.words.requires_grad_(False)
    for norm in model.modules():
        if isinstance(norm, RMS):
            norm.requires_grad_(False)
    model = model.bfloat16()
    tokens = torch.randint(0, words, (batch, length + 1), device="cuda")

    def loss():
        logits = F.linear(model.hidden(tokens[:, :-1], True), model.words.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    return fit(model, loss, None, clip=0.3)


class Shampoo(torch.optim.Optimizer):
    """Gradients between inverse fourth roots of their sums of products, found by Newton's way."""

    def __init__(self, params, lr=1e-3, size=512):
        super().__init__(params, {"lr": lr})
        self.size = size

    def blocks(self, tensor):
        """A matrix in squares of `size`."""
        s = self.size
        return tensor.unflatten(1, (-1, s)).unflatten(0, (-1, s)).transpose(1, 2).flatten(0, 1)

    def whole(self, blocks, shape):
        rows, columns = shape[0] // self.size, shape[1] // self.size
        return blocks.unflatten(0, (rows, columns)).transpose(1, 2).reshape(shape)

    def root(self, a, rounds=8):
        """The inverse fourth root of each of a stack of positive matrices."""
        one = torch.eye(a.shape[-1], device=a.device)
        a = a + 1e-4 * one
        z = 5 / (2 * a.flatten(1).norm(dim=1))[:, None, None]
        m, x = a * z, one * z**0.25
        for _ in range(rounds):
            t = (5 * one - m) / 4
            x = x @ t
            t = t @ t
            m = t @ t @ m
        return x

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            square = [p for p in params if p.ndim == 2 and not any(s % self.size for s in p.shape)]
            grads = torch.cat([self.blocks(p.grad) for p in square])
            state = self.state[group["params"][0]]
            if not state:
                state["left"] = torch.zeros_like(grads)
                state["right"] = torch.zeros_like(grads)
            state["left"].lerp_(grads @ grads.mT, 0.05)
            state["right"].lerp_(grads.mT @ grads, 0.05)
            update = self.root(state["left"]) @ grads @ self.root(state["right"])
            update = update * (grads.norm() / (update.norm() + 1e-12))
            begin = 0
            for p in square:
                count = p.numel() // self.size**2
                p.sub_(self.whole(update[begin : begin + count], p.shape), alpha=group["lr"])
                begin += count
            rest = {id(p) for p in square}
            others = [p for p in params if id(p) not in rest]
            torch._foreach_sub_(others, [p.grad.sign() * group["lr"] * 0.1 for p in others])


def shampoo_language(batch=16, length=512, width=512, depth=6, words=32000, size=512):
    """A small language model whose gradients are whitened on both sides each step; TF32."""
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    layer = nn.TransformerEncoderLayer(
        width, 8, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True
    )
    body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    table, places = nn.Embedding(words, width), nn.Embedding(length, width)
    model = nn.ModuleList([body, table, places, nn.Linear(width, words)]).cuda().train()
    tokens = torch.randint(0, words, (batch, length + 1), device="cuda")
    mask = nn.Transformer.generate_square_subsequent_mask(length, device="cuda")

    def loss():
        h = body(table(tokens[:, :-1]) + places.weight, mask=mask, is_causal=True)
        return F.cross_entropy(model[3](h).flatten(0, 1), tokens[:, 1:].flatten())

    return fit(model, loss, None, Shampoo(model.parameters(), size=size))


class OnSphere(nn.Module):
    """A block whose states and weights have unit length; steps along the sphere are learnt."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = (nn.Linear(width, w, bias=False) for w in (3 * width, width))
        self.up, self.down = (
            nn.Linear(width, 8 * width, bias=False),
            nn.Linear(4 * width, width, bias=False),
        )
        self.reach = nn.Parameter(torch.full((2, width), 0.05))
        self.scale = nn.Parameter(torch.ones(2, width // heads))
        self.feed = nn.Parameter(torch.ones(8 * width))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = (
            (F.normalize(rotated(h).float(), dim=-1) * s).to(v.dtype)
            for h, s in zip((q, k), self.scale, strict=True)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=q.shape[-1] ** 0.5)
        y = F.normalize(self.out(y.transpose(1, 2).flatten(2)).float(), dim=-1)
        x = F.normalize(x + self.reach[0] * (y - x), dim=-1)
        gate, h = (self.up(x) * self.feed).chunk(2, -1)
        y = F.normalize(self.down(F.silu(gate * x.shape[-1] ** 0.5) * h).float(), dim=-1)
        return F.normalize(x + self.reach[1] * (y - x), dim=-1)


def normalised_language_compiled(batch=8, length=1024, width=1024, depth=8, words=32000):
    """A language model on the sphere: states and weights of unit length; compiled, bfloat16."""
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.blocks = nn.ModuleList(OnSphere(width, width // 64) for _ in range(depth))
            self.out, self.loud = nn.Linear(width, words, bias=False), nn.Parameter(torch.ones(1))

        def forward(self, tokens, target):
            x = F.normalize(self.words(tokens), dim=-1)
            for block in self.blocks:
                x = block(x)
            logits = self.out(x) * (self.loud * 30)
            return F.cross_entropy(logits.flatten(0, 1).float(), target.flatten())

    model = Model().cuda()
    run = torch.compile(model)
    tokens = torch.randint(0, words, (batch, length + 1), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
    matrices = [p for p in model.parameters() if p.ndim == 2 and p.shape[0] > 2]

    def back_to_sphere():
        for p in matrices:
            p.copy_(F.normalize(p, dim=-1))

    return fit(
        model, lambda: run(tokens[:, :-1], tokens[:, 1:]), optimizer=optimizer, after=back_to_sphere
    )
