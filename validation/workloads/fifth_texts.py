"""Programs of a fifth set that no constant was fitted to: language, trained."""

import torch
from fourth_texts import RMS, Swiglu, rotated
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint


class Headwise(nn.Module):
    """A small product for every few channels: a block-diagonal matrix."""

    def __init__(self, width, blocks):
        super().__init__()
        deep = width // blocks
        self.weight = nn.Parameter(torch.randn(blocks, deep, deep) * deep**-0.5)

    def forward(self, x):
        h = x.unflatten(-1, (self.weight.shape[0], -1))
        return torch.einsum("...hd,hod->...ho", h, self.weight).flatten(-2)


class MatrixMemory(nn.Module):
    """A matrix as memory, exponential gates, all moments at once and kept from overflow."""

    def __init__(self, width, heads, blocks):
        super().__init__()
        wide = 2 * width
        self.heads, self.norm, self.up = heads, nn.LayerNorm(width, bias=False), None
        self.up = nn.Linear(width, 2 * wide, bias=False)
        self.conv = nn.Conv1d(wide, wide, 4, padding=3, groups=wide)
        self.q, self.k, self.v = (Headwise(wide, blocks) for _ in range(3))
        self.gates = nn.Linear(3 * wide, 2 * heads)
        self.group, self.skip = nn.GroupNorm(heads, wide), nn.Parameter(torch.ones(wide))
        self.down = nn.Linear(wide, width, bias=False)

    def forward(self, x):
        t = x.shape[1]
        h, gate = self.up(self.norm(x)).chunk(2, -1)
        seen = F.silu(self.conv(h.transpose(1, 2))[..., :t].transpose(1, 2))
        q, k, v = self.q(seen), self.k(seen), self.v(h)
        enter, forget = self.gates(torch.cat([q, k, v], -1)).float().transpose(1, 2).chunk(2, 1)
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in (q, k, v))
        fall = F.logsigmoid(forget).cumsum(-1)
        apart = fall[..., :, None] - fall[..., None, :] + enter[..., None, :]
        later = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        apart = apart.masked_fill(later, -torch.inf)
        most = apart.amax(-1, keepdim=True)
        weight = (q @ k.mT * q.shape[-1] ** -0.5) * (apart - most).exp()
        size = torch.maximum(weight.sum(-1, keepdim=True).abs(), (-most).exp())
        y = (weight / (size + 1e-6)).to(v.dtype) @ v
        y = self.group(y.transpose(1, 2).flatten(0, 1).flatten(1)).view_as(seen)
        return x + self.down((y + self.skip * seen) * F.silu(gate))


def matrix_memory(batch=4, length=2048, width=1024, depth=4, heads=4, words=50304):
    """A language model whose layers remember in matrices, gates exponential; bfloat16."""
    torch.manual_seed(0)
    body = nn.Sequential(*(MatrixMemory(width, heads, width // 2) for _ in range(depth)))
    table, norm = nn.Embedding(words, width), nn.LayerNorm(width, bias=False)
    out = nn.Linear(width, words, bias=False)
    model = nn.ModuleList([table, body, norm, out]).cuda()
    tokens = torch.randint(0, words, (batch, length + 1), device="cuda")

    def loss():
        logits = out(norm(body(table(tokens[:, :-1]))))
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    return fit(model, loss, clip=1.0)


class Causal(nn.Module):
    """A block that looks back, places turned, learnt norms."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList(RMS(width) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.feed = Swiglu(width, 8 * width // 3 // 64 * 64 or 64)

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k, v = (z.transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


def bytes_in_patches(batch=4, length=8192, patch=8, width=1024, narrow=512, depth=8, shallow=4,
                     parts=2):  # fmt: skip
    """Bytes: a large model over patches, a small one inside each, convolutions before; two
    batches gathered before a step, float16 with a scaler."""
    torch.manual_seed(0)
    table = nn.Embedding(257, narrow)
    stem = nn.Sequential(
        *(m for _ in range(2) for m in (nn.ConstantPad1d((4, 0), 0.0), nn.Conv1d(narrow, narrow, 5),
                                        nn.GELU()))
    )  # fmt: skip
    large = nn.Sequential(
        nn.Linear(patch * narrow, width), *(Causal(width, width // 64) for _ in range(depth)),
        RMS(width),
    )  # fmt: skip
    spread = nn.Linear(width, patch * narrow)
    small = nn.Sequential(*(Causal(narrow, narrow // 64) for _ in range(shallow)), RMS(narrow))
    out = nn.Linear(narrow, 256, bias=False)
    model = nn.ModuleList([table, stem, large, spread, small, out]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    scaler = torch.amp.GradScaler("cuda")
    data = torch.randint(0, 256, (parts, batch, length), device="cuda")

    def loss_of(tokens):
        shifted = F.pad(tokens[:, :-patch], (patch, 0), value=256)
        x = stem(table(shifted).transpose(1, 2)).transpose(1, 2)
        h = spread(large(x.unflatten(1, (-1, patch)).flatten(2))).unflatten(-1, (patch, narrow))
        inner = F.pad(tokens.unflatten(1, (-1, patch))[..., :-1], (1, 0), value=256)
        y = small((h + table(inner)).flatten(0, 1))
        return F.cross_entropy(out(y).flatten(0, 1).float(), tokens.flatten())

    def step():
        total = 0.0
        for tokens in data:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = loss_of(tokens) / parts
            scaler.scale(loss).backward()
            total = total + loss.detach()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return total

    return step


class SharedExperts(nn.Module):
    """Experts for all words and experts that words choose, kept even by a bias on the choice."""

    def __init__(self, width, wide, experts, chosen, shared, room=1.25):
        super().__init__()
        self.chosen, self.room = chosen, room
        self.router = nn.Parameter(torch.randn(experts, width) * width**-0.5)
        self.register_buffer("bias", torch.zeros(experts))
        self.up = nn.Parameter(torch.randn(experts, width, 2 * wide) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, wide, width) * wide**-0.5)
        self.shared = Swiglu(width, shared * wide)

    def forward(self, x):
        flat = x.flatten(0, 1)
        (count, width), experts = flat.shape, self.up.shape[0]
        score = F.linear(flat.float(), self.router.float()).sigmoid()
        index = (score + self.bias).topk(self.chosen, -1).indices
        share = score.gather(1, index)
        share = share / share.sum(-1, keepdim=True)
        expert, order = index.flatten().sort(stable=True)
        load = self.load = torch.bincount(index.flatten(), minlength=experts)
        rank = torch.arange(len(expert), device=x.device) - (load.cumsum(0) - load)[expert]
        room = int(count * self.chosen / experts * self.room)
        slot = torch.where(rank < room, expert * room + rank, experts * room)
        word = order // self.chosen
        inside = flat.new_zeros(experts * room + 1, width).index_copy(0, slot, flat[word])
        gate, h = torch.bmm(inside[:-1].view(experts, room, width), self.up).chunk(2, -1)
        made = torch.bmm(F.silu(gate) * h, self.down).flatten(0, 1)
        made = torch.cat([made, made.new_zeros(1, width)])[slot]
        made = made * share.flatten()[order, None].to(made.dtype)
        return (self.shared(flat).index_add(0, word, made)).view_as(x)


class ExpertBlock(Causal):
    def __init__(self, width, heads, feed):
        super().__init__(width, heads)
        self.feed = feed


def shared_experts(batch=4, length=2048, width=1536, depth=4, experts=32, chosen=4, wide=768,
                   words=65536):  # fmt: skip
    """Words choose 4 of 32 experts beside two for all, blocks computed again; bfloat16 weights."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        blocks = nn.ModuleList(
            ExpertBlock(width, width // 128, SharedExperts(width, wide, experts, chosen, 2))
            for _ in range(depth)
        )
        table, norm = nn.Embedding(words, width), RMS(width)
        out = nn.Linear(width, words, bias=False)
        tokens = torch.randint(0, words, (batch, length + 1))
    model = nn.ModuleList([blocks, table, norm, out]).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss():
        x = table(tokens[:, :-1])
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return F.cross_entropy(out(norm(x)).flatten(0, 1).float(), tokens[:, 1:].flatten())

    def evened():
        for block in blocks:
            load = block.feed.load.float()
            block.feed.bias.add_(torch.sign(load.mean() - load), alpha=1e-3)

    return fit(model, loss, None, optimizer, clip=1.0, after=evened)


class Biased(nn.Module):
    """Attention with a learnt bias of distances in buckets, or none; no scale, no place else."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x, memory, bias):
        q, k, v = (
            f(z).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for f, z in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        bias = None if bias is None else bias.to(q.dtype)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)
        return self.out(y.transpose(1, 2).flatten(2))


class GatedGelu(nn.Module):
    def __init__(self, width, wide):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, wide, bias=False) for _ in range(2))
        self.down = nn.Linear(wide, width, bias=False)

    def forward(self, x):
        return self.down(F.dropout(F.gelu(self.gate(x), approximate="tanh") * self.up(x), 0.1))


def buckets(length, count, both):
    """Which of `count` buckets each distance falls into: exact when near, logarithmic when far."""
    at = torch.arange(length, device="cuda")
    apart = at[None] - at[:, None]
    base = 0
    if both:
        count //= 2
        base, apart = (apart > 0) * count, apart.abs()
    else:
        apart = (-apart).clamp(min=0)
    near = count // 2
    far = near + ((apart.float() / near).clamp(min=1).log() / 2.08 * (count - near)).long()
    return base + torch.where(apart < near, apart, far.clamp(max=count - 1))


def distant_buckets(batch=32, asked=512, told=256, width=1024, depth=4, heads=16, words=32128):
    """Spans put back by an encoder and a decoder with biases of distances, second moments in
    factors (Adafactor); bfloat16."""
    torch.manual_seed(0)

    def layers(kinds):
        return nn.ModuleList(
            nn.ModuleList(
                [*(Biased(width, heads) for _ in range(kinds)), GatedGelu(width, 11 * width // 4),
                 *(RMS(width) for _ in range(kinds + 1))]
            )
            for _ in range(depth)
        )  # fmt: skip

    table, encoder, decoder = nn.Embedding(words, width), layers(1), layers(2)
    nn.init.normal_(table.weight, std=0.02)
    biases, norms = (
        nn.ModuleList(nn.Embedding(32, heads) for _ in range(2)),
        [RMS(width), RMS(width)],
    )
    out = nn.Linear(width, words, bias=False)
    model = nn.ModuleList([table, encoder, decoder, biases, *norms, out]).cuda()
    optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-3)
    source = torch.randint(0, words, (batch, asked), device="cuda")
    target = torch.randint(0, words, (batch, told + 1), device="cuda")
    later = torch.full((told, told), -torch.inf, device="cuda").triu(1)

    def loss():
        near = biases[0](buckets(asked, 32, True)).permute(2, 0, 1)[None]
        past = biases[1](buckets(told, 32, False)).permute(2, 0, 1)[None] + later
        x = F.dropout(table(source), 0.1)
        for attend, feed, one, two in encoder:
            h = one(x)
            x = x + F.dropout(attend(h, h, near), 0.1)
            x = x + F.dropout(feed(two(x)), 0.1)
        memory, y = norms[0](x), F.dropout(table(target[:, :-1]), 0.1)
        for attend, across, feed, one, two, three in decoder:
            h = one(y)
            y = y + F.dropout(attend(h, h, past), 0.1)
            y = y + F.dropout(across(two(y), memory, None), 0.1)
            y = y + F.dropout(feed(three(y)), 0.1)
        return F.cross_entropy(out(norms[1](y)).flatten(0, 1).float(), target[:, 1:].flatten())

    return fit(model, loss, optimizer=optimizer)
