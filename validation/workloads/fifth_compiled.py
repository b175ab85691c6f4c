"""Programs of a fifth set that no constant was fitted to: compiled ones."""

import torch
from fourth_texts import RMS, rotated
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Wide(nn.Module):
    """Normed before, two convolutions, wide."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm2d(inside), nn.BatchNorm2d(outside)])
        self.one = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        same = inside == outside
        self.skip = None if same else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.norms[0](x))
        y = self.two(F.relu(self.norms[1](self.one(h))))
        return y + (x if self.skip is None else self.skip(h))


def sharpness_aware_compiled(batch=512, side=32, width=128, depth=2, classes=100, reach=0.05):
    """Each batch learnt at the worst place nearby, two passes a step; compiled, channels last,
    bfloat16."""
    torch.manual_seed(0)
    layers, inside = [nn.Conv2d(3, 16, 3, padding=1, bias=False)], 16
    for n in range(3):
        for m in range(depth):
            layers.append(Wide(inside, width * 2**n, 2 if n and m == 0 else 1))
            inside = width * 2**n
    model = nn.Sequential(
        *layers, nn.BatchNorm2d(inside), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(inside, classes),
    ).cuda()  # fmt: skip
    model = model.to(memory_format=torch.channels_last)
    run = torch.compile(model)
    learnt = list(model.parameters())
    optimizer = torch.optim.SGD(learnt, lr=1e-2, momentum=0.9, weight_decay=5e-4)
    x = torch.randn(batch, 3, side, side, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, classes, (batch,), device="cuda")

    def slopes():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(run(x).float(), y, label_smoothing=0.1)
        loss.backward()
        return loss.detach()

    def step():
        loss = slopes()
        with torch.no_grad():
            slope = [p.grad for p in learnt]
            norms = torch._foreach_norm(slope)
            scale = reach / (torch.stack(norms).norm() + 1e-12)
            away = torch._foreach_mul(slope, scale)
            torch._foreach_add_(learnt, away)
        optimizer.zero_grad(set_to_none=True)
        slopes()
        with torch.no_grad():
            torch._foreach_sub_(learnt, away)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


class Capped(nn.Module):
    """Scores held between two bounds by a hyperbolic tangent, norms before and after; every other
    layer sees a window."""

    def __init__(self, width, heads, window):
        super().__init__()
        self.heads, self.window, self.deep = heads, window, width // heads
        self.norms = nn.ModuleList(RMS(width) for _ in range(4))
        self.q, self.kv = (nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False))
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x):
        h, t = self.norms[0](x), x.shape[1]
        q = self.q(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(h).unflatten(-1, (2, self.heads // 2, -1)).permute(2, 0, 3, 1, 4)
        k, v = (z.repeat_interleave(2, 1) for z in (rotated(k), v))
        scores = rotated(q) @ k.mT * self.deep**-0.5
        scores = 50.0 * torch.tanh(scores / 50.0)
        at = torch.arange(t, device=x.device)
        away = at[:, None] - at
        seen = away >= 0
        if self.window:
            seen = seen & (away < self.window)
        scores = scores.masked_fill(~seen, -torch.inf)
        y = scores.float().softmax(-1).to(v.dtype) @ v
        x = x + self.norms[1](self.out(y.transpose(1, 2).flatten(2)))
        h = self.norms[2](x)
        h = self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h))
        return x + self.norms[3](h)


class Lion(torch.optim.Optimizer):
    """The sign of a mixture of slope and momentum, and nothing else kept."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            (one, two), lr = group["betas"], group["lr"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                kept = state["momentum"]
                p.mul_(1 - lr * group["weight_decay"])
                p.add_(kept.mul(one).add(p.grad, alpha=1 - one).sign_(), alpha=-lr)
                kept.lerp_(p.grad, 1 - two)


def capped_language_compiled(batch=8, length=1024, width=1024, depth=4, heads=8, words=65536):
    """A language model with capped scores and words, steps by sign (Lion); compiled, bfloat16."""
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(words, width)
            nn.init.normal_(self.table.weight, std=0.02)
            self.blocks = nn.ModuleList(
                Capped(width, heads, 0 if n % 2 else length // 2) for n in range(depth)
            )
            self.norm = RMS(width)

        def forward(self, tokens):
            x = self.table(tokens) * width**0.5
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.norm(x), self.table.weight)
            return 30.0 * torch.tanh(logits.float() / 30.0)

    model = Model().cuda()
    run = torch.compile(model)
    tokens = torch.randint(0, words, (batch, length + 1), device="cuda")

    def loss():
        return F.cross_entropy(run(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return fit(model, loss, optimizer=Lion(model.parameters()), clip=1.0)


class GraphLayer(nn.Module):
    """Points attend, each pair's bond scaling and shifting its score; bonds and whole follow."""

    def __init__(self, points, bonds, whole, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(points, points) for _ in range(3))
        self.of_bond = nn.Linear(bonds, 2 * points)
        self.film = nn.ModuleList(nn.Linear(whole, 2 * w) for w in (points, points))
        self.outs = nn.ModuleList(
            nn.Linear(i, o)
            for i, o in ((points, points), (points, bonds), (4 * (points + bonds), whole))
        )
        self.norms = nn.ModuleList(nn.LayerNorm(w) for w in (points, bonds, whole) * 2)
        self.feeds = nn.ModuleList(
            nn.Sequential(nn.Linear(w, m * w), nn.ReLU(), nn.Linear(m * w, w))
            for w, m in ((points, 4), (bonds, 2), (whole, 4))
        )

    def forward(self, x, e, y, real):
        both = real[:, :, None] * real[:, None]
        q, k, v = self.q(x) * real, self.k(x) * real, self.v(x) * real
        pairs = q[:, :, None] * k[:, None] * (q.shape[-1] / self.heads) ** -0.5
        scale, shift = (self.of_bond(e) * both).chunk(2, -1)
        pairs = pairs * (scale + 1) + shift
        (a, b), (c, d) = (f(y)[:, None].chunk(2, -1) for f in self.film)
        new_e = self.outs[1](pairs * (a[:, None] + 1) + b[:, None]) * both
        weight = pairs.masked_fill(both == 0, -1e4).softmax(2)
        new_x = self.outs[0]((weight * v[:, None]).sum(2) * (c + 1) + d) * real

        def summed(h, over):
            return [h.mean(over), h.amin(over), h.amax(over), h.std(over)]

        new_y = self.outs[2](torch.cat([*summed(x, 1), *summed(e, (1, 2))], -1))
        made = []
        for n, (old, new) in enumerate(((x, new_x), (e, new_e), (y, new_y))):
            h = self.norms[n](old + F.dropout(new, 0.1, self.training))
            made.append(self.norms[n + 3](h + F.dropout(self.feeds[n](h), 0.1, self.training)))
        return made


def graphs_denoised_compiled(
    batch=288, points=48, sorts=10, kinds=5, width=256, bonds=64, whole=64, depth=4, heads=8
):
    """Molecules' atoms and bonds told from random ones; compiled, bfloat16."""
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter = nn.ModuleList(
                nn.Sequential(nn.Linear(i, o), nn.ReLU(), nn.Linear(o, o), nn.ReLU())
                for i, o in ((sorts, width), (kinds, bonds), (1, whole))
            )
            self.layers = nn.ModuleList(
                GraphLayer(width, bonds, whole, heads) for _ in range(depth)
            )
            self.leave = nn.ModuleList(
                nn.Sequential(nn.Linear(i, i), nn.ReLU(), nn.Linear(i, o))
                for i, o in ((width, sorts), (bonds, kinds))
            )

        def forward(self, x, e, t, real):
            x, e, y = (f(h) for f, h in zip(self.enter, (x, e, t), strict=True))
            e = (e + e.transpose(1, 2)) / 2
            for layer in self.layers:
                x, e, y = layer(x, e, y, real)
            e = self.leave[1](e)
            return self.leave[0](x), (e + e.transpose(1, 2)) / 2

    model = Model().cuda()
    run = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, amsgrad=True)
    atoms = torch.randint(0, sorts, (batch, points), device="cuda")
    links = torch.randint(0, kinds, (batch, points, points), device="cuda")
    count = torch.randint(points // 2, points + 1, (batch, 1), device="cuda")
    real = (torch.arange(points, device="cuda") < count).float()[..., None]
    both = (real[:, :, None] * real[:, None])[..., 0]

    def spoiled(clear, kept, many):
        """Each sort kept by a chance, else drawn anew; as one of many."""
        shape = (-1,) + (1,) * (clear.dim() - 1)
        stays = torch.rand(clear.shape, device="cuda") < kept.view(shape)
        drawn = torch.where(stays, clear, torch.randint_like(clear, many))
        return (drawn[..., None] == torch.arange(many, device="cuda")).float()

    def loss():
        t = torch.rand(batch, 1, device="cuda")
        kept = torch.cos(1.57 * t).square()
        x, e = run(spoiled(atoms, kept, sorts), spoiled(links, kept, kinds), t, real)
        of_atoms = F.cross_entropy(x.float().transpose(1, 2), atoms, reduction="none")
        of_links = F.cross_entropy(e.float().permute(0, 3, 1, 2), links, reduction="none")
        return (of_atoms * real[..., 0]).sum() / real.sum() + 5 * (
            (of_links * both).sum() / both.sum()
        )

    return fit(model, loss, optimizer=optimizer)
