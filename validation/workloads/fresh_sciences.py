"""Programs of a second set that no constant was fitted to: molecules, fields, worlds, shops."""

import torch
from fresh_images import _fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Triangle(nn.Module):
    """Pairs of residues updated through every third: products along an axis, then attention."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.a, self.b, self.gate = (
            nn.Linear(width, 2 * width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )
        self.back, self.qkv = nn.Linear(width, width), nn.Linear(width, 3 * width)
        self.bias, self.out = nn.Linear(width, heads, bias=False), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, z):
        h = self.norm[0](z)
        a, b = (F.glu(part(h), -1) for part in (self.a, self.b))
        mixed = torch.einsum("bikc,bjkc->bijc", a, b)
        z = z + self.gate(h).sigmoid() * self.back(self.norm[1](mixed))
        h = self.norm[2](z)
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).permute(3, 0, 1, 4, 2, 5)
        scores = (
            q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + self.bias(h).permute(0, 3, 1, 2)[:, None]
        )
        h = (scores.softmax(-1).to(v.dtype) @ v).transpose(2, 3).flatten(3)
        z = z + self.out(h)
        return z + self.down(F.relu(self.up(self.norm[3](z))))


def pairs_of_residues():
    """Four blocks over pairs of 160 residues, bfloat16."""
    model = nn.Sequential(*[Triangle(128, 4) for _ in range(4)], nn.Linear(128, 64)).cuda()
    z = torch.randn(1, 160, 160, 128, device="cuda")
    y = torch.randint(0, 64, (1, 160, 160), device="cuda")
    return _fit(model, lambda: F.cross_entropy(model(z).flatten(0, 2).float(), y.flatten()))


def _mlp(*widths, act=nn.SiLU):
    layers = []
    for a, b in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


def forces_of_molecules():
    """Energies by filters of distances, forces as their slope: two passes backward; float32."""
    atoms, edges, width = 8192, 131072, 128
    kinds, out = nn.Embedding(20, width), _mlp(width, 64, 1)
    filters = nn.ModuleList(_mlp(50, width, width) for _ in range(3))
    mixes = nn.ModuleList(_mlp(width, width, width) for _ in range(3))
    model = nn.ModuleList([kinds, out, filters, mixes]).cuda()
    kind = torch.randint(0, 20, (atoms,), device="cuda")
    place = torch.rand(atoms, 3, device="cuda") * 20
    source, target = (torch.randint(0, atoms, (edges,), device="cuda") for _ in range(2))
    centres, wanted = torch.linspace(0, 20, 50, device="cuda"), torch.randn(atoms, 3, device="cuda")

    def loss():
        r = place.detach().requires_grad_(True)
        d = (r[source] - r[target]).pow(2).sum(-1).add(1e-6).sqrt()
        waves = torch.exp(-10 * (d[:, None] - centres) ** 2)
        h = kinds(kind)
        for near, mix in zip(filters, mixes, strict=True):
            message = h[source] * near(waves)
            h = h + mix(torch.zeros_like(h).index_add_(0, target, message))
        energy = out(h).sum()
        (slope,) = torch.autograd.grad(energy, r, create_graph=True)
        return energy.pow(2) * 1e-9 + F.mse_loss(-slope, wanted)

    return _fit(model, loss, dtype=None)


def turning_with_the_molecule():
    """Messages that move places along their differences, 50,000 edges a layer, float32."""
    nodes, edges, width = 4096, 50000, 128
    layers = nn.ModuleList(
        nn.ModuleList(
            [
                _mlp(2 * width + 1, width, width),
                _mlp(width, width, 1),
                _mlp(2 * width, width, width),
            ]
        )
        for _ in range(5)
    ).cuda()
    start, place = torch.randn(nodes, width, device="cuda"), torch.randn(nodes, 3, device="cuda")
    source, target = (torch.randint(0, nodes, (edges,), device="cuda") for _ in range(2))
    wanted = torch.randn(nodes, 3, device="cuda")

    def loss():
        h, x = start, place
        for message, move, change in layers:
            d = x[source] - x[target]
            m = message(torch.cat([h[source], h[target], d.pow(2).sum(-1, keepdim=True)], 1))
            x = x.index_add(0, target, d * move(m).clamp(-10, 10) / 12)
            whole = torch.zeros_like(h).index_add(0, target, m)
            h = h + change(torch.cat([h, whole], 1))
        return F.mse_loss(x, wanted)

    return _fit(layers, loss, dtype=None)


class Weather(nn.Module):
    """Attention in windows of heights, latitudes and longitudes, with a bias of its own."""

    def __init__(self, width, heads, shift):
        super().__init__()
        self.heads, self.shift = heads, shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(heads, 144, 144))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, z, h, w, c = x.shape
        t = torch.roll(self.norm1(x), (-1, -3, -6), (1, 2, 3)) if self.shift else self.norm1(x)
        t = t.view(n, z // 2, 2, h // 6, 6, w // 12, 12, c).permute(0, 1, 3, 5, 2, 4, 6, 7)
        q, k, v = (
            self.qkv(t.reshape(-1, 144, c))
            .unflatten(-1, (3, self.heads, -1))
            .permute(2, 0, 3, 1, 4)
        )
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + self.bias
        t = (scores.softmax(-1).to(v.dtype) @ v).transpose(1, 2).flatten(2)
        t = (
            self.out(t)
            .view(n, z // 2, h // 6, w // 12, 2, 6, 12, c)
            .permute(0, 1, 4, 2, 5, 3, 6, 7)
        )
        t = t.reshape(n, z, h, w, c)
        x = x + (torch.roll(t, (1, 3, 6), (1, 2, 3)) if self.shift else t)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def weather():
    """Six layers of windows over 8 x 96 x 192 places, bfloat16."""
    first, last = nn.Linear(40, 192), nn.Linear(192, 40)
    blocks = nn.Sequential(*[Weather(192, 6, bool(n % 2)) for n in range(6)])
    model = nn.ModuleList([first, blocks, last]).cuda()
    x, y = (torch.randn(1, 8, 96, 192, 40, device="cuda") for _ in range(2))
    return _fit(model, lambda: F.l1_loss(last(blocks(first(x))), y))


def branch_and_trunk():
    """An operator as a product of two networks, 4,096 functions at 4,096 points, float32."""
    branch, trunk = _mlp(256, 1024, 1024, 512, act=nn.Tanh), _mlp(2, 1024, 1024, 512, act=nn.Tanh)
    model = nn.ModuleList([branch, trunk]).cuda()
    u, at = torch.randn(4096, 256, device="cuda"), torch.rand(4096, 2, device="cuda")
    y = torch.randn(4096, 4096, device="cuda")
    return _fit(
        model,
        lambda: F.mse_loss(branch(u) @ trunk(at).T, y),
        torch.optim.Adam(model.parameters()),
        None,
    )


class Sine(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.linear = nn.Linear(inside, outside)

    def forward(self, x):
        return torch.sin(30 * self.linear(x))


def slopes_of_a_picture():
    """A network of sines fitted to the slopes of a picture, 131,072 points, float32."""
    model = nn.Sequential(Sine(2, 256), Sine(256, 256), Sine(256, 256), nn.Linear(256, 1)).cuda()
    places, wanted = torch.rand(131072, 2, device="cuda"), torch.randn(131072, 2, device="cuda")

    def loss():
        x = places.detach().requires_grad_(True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return F.mse_loss(slope, wanted)

    return _fit(model, loss, dtype=None)


def hashed_field():
    """Sixteen tables looked up at hashed corners, 262,144 points, float32."""
    size, levels = 2**19, 16
    tables = nn.Parameter(torch.randn(levels, size, 2, device="cuda") * 1e-4)
    net = _mlp(2 * levels, 64, 64, 4, act=nn.ReLU).cuda()
    corners = torch.tensor(
        [[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)], device="cuda"
    )
    primes = torch.tensor([1, 2654435761, 805459861], device="cuda")
    points, y = torch.rand(262144, 3, device="cuda"), torch.rand(262144, 4, device="cuda")

    def loss():
        found = []
        for level in range(levels):
            at = points * int(16 * 1.4**level)
            low = at.floor()
            part = at - low
            key = (low.long()[:, None] + corners) * primes
            slot = (key[..., 0] ^ key[..., 1] ^ key[..., 2]) % size
            weight = torch.where(corners.bool(), part[:, None], 1 - part[:, None]).prod(-1)
            found.append((tables[level][slot] * weight[..., None]).sum(1))
        return F.mse_loss(net(torch.cat(found, 1)), y)

    return _fit(net, loss, torch.optim.Adam([tables, *net.parameters()], lr=1e-2), None)


def learning_to_learn():
    """Three inner steps of a small network for 16 tasks, and the slope through them; float32."""
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 441, 5),
    ).cuda()  # fmt: skip
    x, later = (torch.randn(16, 25, 3, 84, 84, device="cuda") for _ in range(2))
    y = torch.randint(0, 5, (16, 25), device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        for task in range(16):
            weights = dict(model.named_parameters())
            for _ in range(3):
                out = torch.func.functional_call(model, weights, (x[task],))
                slopes = torch.autograd.grad(
                    F.cross_entropy(out, y[task]), list(weights.values()), create_graph=True
                )
                weights = {
                    n: w - 0.01 * g for (n, w), g in zip(weights.items(), slopes, strict=True)
                }
            out = torch.func.functional_call(model, weights, (later[task],))
            (F.cross_entropy(out, y[task]) / 16).backward()
        optimizer.step()

    return step


def dreams():
    """A model of a world unrolled over 48 moments, 32 episodes of pictures, float32."""
    see = nn.Sequential(
        nn.Conv2d(3, 32, 4, 2), nn.ELU(), nn.Conv2d(32, 64, 4, 2), nn.ELU(), nn.Conv2d(64, 128, 4, 2),
        nn.ELU(), nn.Conv2d(128, 256, 4, 2), nn.ELU(), nn.Flatten(),
    )  # fmt: skip
    cell, enter = nn.GRUCell(400, 400), nn.Linear(60 + 6, 400)
    before, after = nn.Linear(400, 120), nn.Linear(400 + 1024, 120)
    paint = nn.Sequential(
        nn.Linear(460, 1024), nn.Unflatten(1, (1024, 1, 1)), nn.ConvTranspose2d(1024, 128, 5, 2), nn.ELU(),
        nn.ConvTranspose2d(128, 64, 5, 2), nn.ELU(), nn.ConvTranspose2d(64, 32, 6, 2), nn.ELU(),
        nn.ConvTranspose2d(32, 3, 6, 2),
    )  # fmt: skip
    model = nn.ModuleList([see, cell, enter, before, after, paint]).cuda()
    pictures, moves = (
        torch.rand(48, 32, 3, 64, 64, device="cuda"),
        torch.randn(48, 32, 6, device="cuda"),
    )

    def loss():
        seen = see(pictures.flatten(0, 1)).unflatten(0, (48, 32))
        h, s = torch.zeros(32, 400, device="cuda"), torch.zeros(32, 60, device="cuda")
        kept, apart = [], 0.0
        for t in range(48):
            h = cell(F.elu(enter(torch.cat([s, moves[t]], 1))), h)
            m0, d0 = before(h).chunk(2, 1)
            m1, d1 = after(torch.cat([h, seen[t]], 1)).chunk(2, 1)
            d0, d1 = F.softplus(d0) + 0.1, F.softplus(d1) + 0.1
            s = m1 + d1 * torch.randn_like(m1)
            apart = (
                apart
                + (torch.log(d0 / d1) + (d1**2 + (m1 - m0) ** 2) / (2 * d0**2) - 0.5).sum(1).mean()
            )
            kept.append(torch.cat([h, s], 1))
        return F.mse_loss(paint(torch.cat(kept)), pictures.flatten(0, 1)) + apart / 48

    return _fit(model, loss, torch.optim.Adam(model.parameters(), lr=1e-4), None)


def interest_of_a_shopper():
    """What was bought weighs by what is offered, 8,192 shoppers of 50 purchases, float32."""
    goods, width = nn.Embedding(500_000, 32), 32
    weigh, judge = (
        _mlp(4 * width, 80, 40, 1, act=nn.PReLU),
        _mlp(3 * width, 200, 80, 1, act=nn.PReLU),
    )
    model = nn.ModuleList([goods, weigh, judge]).cuda()
    bought = torch.randint(0, 500_000, (8192, 50), device="cuda")
    offered, y = (
        torch.randint(0, 500_000, (8192,), device="cuda"),
        torch.rand(8192, device="cuda").round(),
    )

    def loss():
        past, now = goods(bought), goods(offered)
        wide = now[:, None].expand_as(past)
        weight = weigh(torch.cat([wide, past, wide - past, wide * past], -1))
        taste = (weight * past).sum(1)
        score = judge(torch.cat([taste, now, taste * now], -1))[:, 0]
        return F.binary_cross_entropy_with_logits(score, y)

    return _fit(model, loss, torch.optim.Adagrad(model.parameters(), lr=0.01), None)


class Pointwise(nn.Module):
    """Scores through SiLU instead of a softmax, with a bias of time."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.wide, self.out = nn.Linear(width, 4 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(length, length))
        self.register_buffer("seen", torch.ones(length, length).tril())

    def forward(self, x):
        u, v, q, k = F.silu(self.wide(self.norm(x))).chunk(4, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        scores = F.silu(q @ k.transpose(-1, -2) + self.bias) / x.shape[1] * self.seen
        h = (scores.to(v.dtype) @ v).transpose(1, 2).flatten(2)
        return x + self.out(F.layer_norm(h, h.shape[-1:]) * u)


def actions_as_a_language():
    """Six layers over 64 histories of 512 actions, 1,024 goods drawn as wrong answers; bfloat16."""
    goods = nn.Embedding(100_000, 256)
    blocks = nn.Sequential(*[Pointwise(256, 8, 512) for _ in range(6)])
    model = nn.ModuleList([goods, blocks]).cuda()
    actions = torch.randint(0, 100_000, (64, 513), device="cuda")

    def loss():
        h = F.normalize(blocks(goods(actions[:, :-1])), dim=-1).flatten(0, 1)
        right = F.normalize(goods(actions[:, 1:]), dim=-1).flatten(0, 1)
        wrong = F.normalize(goods(torch.randint(0, 100_000, (1024,), device="cuda")), dim=-1)
        scores = torch.cat([(h * right).sum(-1, keepdim=True), h @ wrong.T], 1) / 0.05
        return F.cross_entropy(
            scores.float(), torch.zeros(len(scores), dtype=torch.long, device="cuda")
        )

    return _fit(model, loss)


def products_of_fields():
    """Every field of a row times every other, layer on layer, 4,096 rows of 39 fields, float32."""
    fields, width = 39, 16
    table, wide = nn.Embedding(1_000_000, width), nn.Embedding(1_000_000, 1)
    mixes = nn.ModuleList(nn.Conv1d(fields * n, 128, 1) for n in (fields, 128, 128))
    deep, last = _mlp(fields * width, 400, 400, 1, act=nn.ReLU), nn.Linear(3 * 128, 1)
    model = nn.ModuleList([table, wide, mixes, deep, last]).cuda()
    x = torch.randint(0, 1_000_000, (4096, fields), device="cuda")
    y = torch.rand(4096, device="cuda").round()

    def loss():
        first = table(x)
        h, found = first, []
        for mix in mixes:
            h = F.relu(mix(torch.einsum("bmd,bnd->bmnd", h, first).flatten(1, 2)))
            found.append(h.sum(-1))
        score = last(torch.cat(found, 1)) + deep(first.flatten(1)) + wide(x).sum(1)
        return F.binary_cross_entropy_with_logits(score[:, 0], y)

    return _fit(model, loss, torch.optim.Adam(model.parameters(), lr=1e-3), None)


def transport():
    """Two clouds of 4,096 points matched by 30 rounds of soft sums in logarithms, float32."""
    lift = _mlp(64, 256, 64).cuda()
    one, two = (torch.randn(4096, 64, device="cuda") for _ in range(2))

    def loss():
        cost = torch.cdist(lift(one), two).pow(2)
        with torch.no_grad():
            scaled = -cost / 0.5
            f = g = torch.zeros(4096, device="cuda")
            for _ in range(30):
                f = -torch.logsumexp(scaled + g, 1)
                g = -torch.logsumexp(scaled + f[:, None], 0)
            plan = torch.exp(scaled + f[:, None] + g)
        return (plan * cost).sum() / 4096

    return _fit(lift, loss, dtype=None)


def growing_cells():
    """A picture grown from one cell by 32 rounds of one small rule, 16 pictures of 72, float32."""
    rule = nn.Sequential(nn.Conv2d(48, 128, 1), nn.ReLU(), nn.Conv2d(128, 16, 1, bias=False)).cuda()
    side = torch.tensor([-1.0, 0, 1]) / 8
    slope = torch.outer(torch.tensor([1.0, 2, 1]), side)
    itself = torch.zeros(3, 3)
    itself[1, 1] = 1
    sense = torch.stack([itself, slope, slope.T]).repeat(16, 1, 1)[:, None].cuda()
    wanted = torch.rand(16, 4, 72, 72, device="cuda")
    seed = torch.zeros(16, 16, 72, 72, device="cuda")
    seed[:, 3:, 36, 36] = 1

    def loss():
        x = seed
        for _ in range(32):
            alive = F.max_pool2d(x[:, 3:4], 3, 1, 1) > 0.1
            change = rule(F.conv2d(x, sense, padding=1, groups=16))
            x = x + change * (torch.rand(16, 1, 72, 72, device="cuda") < 0.5)
            x = x * (alive & (F.max_pool2d(x[:, 3:4], 3, 1, 1) > 0.1))
        return F.mse_loss(x[:, :4], wanted)

    return _fit(rule, loss, torch.optim.Adam(rule.parameters(), lr=2e-3), None)


def conserved_energy():
    """Motion as the slope of a learnt energy, followed over eight moments, float32."""
    energy = _mlp(12, 512, 512, 1, act=nn.Tanh).cuda()
    start, wanted = torch.randn(8192, 12, device="cuda"), torch.randn(8192, 12, device="cuda")

    def loss():
        x = start.detach().requires_grad_(True)
        for _ in range(8):
            (slope,) = torch.autograd.grad(energy(x).sum(), x, create_graph=True)
            q, p = slope.chunk(2, 1)
            x = x + 0.05 * torch.cat([p, -q], 1)
        return F.mse_loss(x, wanted)

    return _fit(energy, loss, torch.optim.Adam(energy.parameters()), None)


def crowd_of_networks():
    """64 small networks trained at once by vectorised calls, float32."""
    nets = [_mlp(128, 256, 256, 10, act=nn.ReLU).cuda() for _ in range(64)]
    weights, buffers = torch.func.stack_module_state(nets)
    weights = {n: w.detach().requires_grad_(True) for n, w in weights.items()}
    x, y = (
        torch.randn(64, 1024, 128, device="cuda"),
        torch.randint(0, 10, (64, 1024), device="cuda"),
    )
    optimizer = torch.optim.Adam(list(weights.values()), lr=1e-3)

    def call(w, b, rows):
        return torch.func.functional_call(nets[0], (w, b), (rows,))

    def step():
        optimizer.zero_grad()
        out = torch.vmap(call)(weights, buffers, x)
        F.cross_entropy(out.flatten(0, 1), y.flatten()).backward()
        optimizer.step()

    return step
