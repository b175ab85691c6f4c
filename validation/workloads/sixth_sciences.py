"""Programs of a sixth set that no constant was fitted to: graphs, flows, light, clouds, series."""

from itertools import pairwise

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Aggregates(nn.Module):
    """Mean, least, greatest and spread of a node's messages, scaled by how many there are."""

    def __init__(self, width, edges):
        super().__init__()
        self.of_edge = nn.Linear(edges, width)
        self.before = nn.Linear(3 * width, width)
        self.after, self.out = nn.Linear(13 * width, width), nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x, e, source, target, degree, usual):
        m = self.before(torch.cat([x[target], x[source], self.of_edge(e)], 1))
        n, index = len(x), target[:, None].expand_as(m)

        def gathered(h, how):
            out = torch.zeros(n, h.shape[1], device=h.device)
            return out.scatter_reduce(0, index, h, how, include_self=False)

        mean, square = gathered(m, "mean"), gathered(m * m, "mean")
        spread = (F.relu(square - mean * mean) + 1e-5).sqrt()
        parts = torch.cat([mean, gathered(m, "amin"), gathered(m, "amax"), spread], 1)
        more = (degree + 1).log()[:, None] / usual
        h = torch.cat([x, parts, parts * more, parts / more], 1)
        return x + F.relu(self.norm(self.out(self.after(h))))


def many_aggregates(
    nodes=48000, edges=200000, graphs=2048, width=192, depth=5, sorts=28, bonds=4, learnt=64
):
    """A property of molecules from four aggregates of neighbours in three scales; float32, TF32."""
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    table, of_bond = nn.Embedding(sorts, width), nn.Embedding(bonds, learnt)
    layers = nn.ModuleList(Aggregates(width, learnt) for _ in range(depth))
    leave = nn.Sequential(
        nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)
    )
    model = nn.ModuleList([table, of_bond, layers, leave]).cuda()
    kind = torch.randint(0, sorts, (nodes,), device="cuda")
    bond = torch.randint(0, bonds, (edges,), device="cuda")
    owner = torch.arange(nodes, device="cuda") * graphs // nodes
    target = torch.randint(0, nodes, (edges,), device="cuda").sort().values
    source = (target + torch.randint(-12, 13, (edges,), device="cuda")) % nodes
    truth = torch.randn(graphs, 1, device="cuda")

    def loss():
        degree = torch.zeros(nodes, device="cuda").index_add(
            0, target, torch.ones(edges, device="cuda")
        ).clamp(min=1)  # fmt: skip
        usual = (degree + 1).log().mean()
        x, e = table(kind), of_bond(bond)
        for layer in layers:
            x = layer(x, e, source, target, degree, usual)
        whole = torch.zeros(graphs, width, device="cuda").index_add(0, owner, x)
        return F.l1_loss(leave(whole), truth)

    return fit(model, loss, None, torch.optim.Adam(model.parameters(), lr=1e-3))


def lattice_flow_compiled(high=2048, wide=4096, rounds=20, speed=0.08, thick=0.02):
    """Air past a cylinder by shares that stream and collide on nine ways; compiled, float32."""
    torch.manual_seed(0)
    ways = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
    back = [0, 3, 4, 1, 2, 7, 8, 5, 6]
    weights = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
    with torch.device("cuda"):
        y, x = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
        solid = (y - high / 2).square() + (x - wide / 4).square() < (high / 9) ** 2
        shares = torch.tensor(weights)[:, None, None] * (1 + 0.01 * torch.rand(9, high, wide))
    often = 1 / (3 * thick + 0.5)

    def even(dense, u, v):
        square, found = 1.5 * (u * u + v * v), []
        for (cx, cy), w in zip(ways, weights, strict=True):
            along = 3 * (cx * u + cy * v)
            found.append(w * dense * (1 + along + 0.5 * along * along - square))
        return torch.stack(found)

    def moment(f):
        f = torch.stack([torch.roll(f[n], (cy, cx), (0, 1)) for n, (cx, cy) in enumerate(ways)])
        dense = f.sum(0)
        u = sum(cx * f[n] for n, (cx, _) in enumerate(ways) if cx) / dense
        v = sum(cy * f[n] for n, (_, cy) in enumerate(ways) if cy) / dense
        u = torch.where(x == 0, speed, u)
        v = torch.where(x == 0, 0.0, v)
        new = f + often * (even(dense, u, v) - f)
        return torch.where(solid, f[back], new)

    run = torch.compile(moment)

    @torch.no_grad()
    def step():
        f = shares
        for _ in range(rounds):
            f = run(f)
        shares.copy_(f)
        return f[:, ::64, ::64].mean((1, 2))

    return step


def phases_from_intensities(shots=800, size=256, across=1024, modes=2):
    """An object and a beam from overlapping diffraction pictures alone; complex64."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        thing = torch.view_as_complex(torch.rand(across, across, 2)).requires_grad_()
        line = torch.linspace(-2, 2, size)
        spot = torch.exp(-(line[:, None].square() + line.square()) * 2)
        beam = (spot * torch.tensor([1.0, 0.3])[:modes, None, None]).to(torch.complex64)
        beam.requires_grad_()
        corner = torch.randint(0, across - size, (shots, 2))
        counts = torch.poisson(torch.rand(shots, size, size) * 20)
        at = torch.arange(size)
    optimizer = torch.optim.Adam([{"params": [thing]}, {"params": [beam], "lr": 1e-3}], lr=1e-2)
    rows, columns = corner[:, :1] + at, corner[:, 1:] + at

    def step():
        seen = thing[rows[:, :, None], columns[:, None, :]]
        wave = torch.fft.fft2(seen[:, None] * beam, norm="ortho")
        light = wave.abs().square().sum(1)
        loss = ((light + 1e-6).sqrt() - counts.sqrt()).square().mean()
        flat = thing.diff(dim=0).abs().mean() + thing.diff(dim=1).abs().mean()
        optimizer.zero_grad()
        (loss + 1e-3 * flat).backward()
        optimizer.step()
        with torch.no_grad():
            thing.div_(thing.abs().clamp(min=1.0))
        return loss.detach()

    return step


def centres_of_clouds(points=1000000, width=128, centres=1024, chunk=125000, rounds=2):
    """Two rounds of k-means over a million vectors, piece by piece; float32, TF32 products."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    with torch.device("cuda"):
        x = torch.randn(points, width)
        middle = x[torch.randperm(points)[:centres]].clone()

    @torch.no_grad()
    def step():
        apart = x.new_zeros(())
        for _ in range(rounds):
            total, count = torch.zeros_like(middle), x.new_zeros(centres)
            length, apart = middle.square().sum(1), x.new_zeros(())
            for part in x.split(chunk):
                away = length - 2 * part @ middle.T
                best, name = away.min(1)
                apart += (best + part.square().sum(1)).clamp(min=0).sum()
                total.index_add_(0, name, part)
                count += torch.bincount(name, minlength=centres)
            new = total / count.clamp(min=1)[:, None]
            middle.copy_(torch.where(count[:, None] > 0, new, middle))
        return apart / points

    return step


class Basis(nn.Module):
    """Four layers, then how much of each wave or power there is, backward and ahead."""

    def __init__(self, past, ahead, width, kind):
        super().__init__()
        sizes = [past] + [width] * 4
        layers = []
        for i, o in pairwise(sizes):
            layers += [nn.Linear(i, o), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        if kind == "any":
            self.leave = nn.Linear(width, past + ahead)
            self.basis = None
        else:
            back, on = (torch.arange(n) / n for n in (past, ahead))
            if kind == "trend":
                made = [torch.stack([t**p for p in range(4)]) for t in (back, on)]
            else:
                angle = [2 * torch.pi * torch.arange(ahead // 2)[:, None] * t for t in (back, on)]
                made = [torch.cat([a.cos(), a.sin()]) for a in angle]
            self.leave = nn.Linear(width, 2 * len(made[0]), bias=False)
            self.basis = nn.ParameterList(nn.Parameter(m, requires_grad=False) for m in made)
        self.past = past

    def forward(self, x):
        h = self.leave(self.body(x))
        if self.basis is None:
            return h.split([self.past, h.shape[1] - self.past], 1)
        a, b = h.chunk(2, 1)
        return a @ self.basis[0], b @ self.basis[1]


def stacked_forecasts(batch=8192, past=168, ahead=24, width=1024, each=6):
    """A series forecast by stacks of trends, seasons and anything, each on what is left; float32."""
    torch.manual_seed(0)
    blocks = nn.ModuleList(
        Basis(past, ahead, width, kind) for kind in ("trend", "season", "any") for _ in range(each)
    ).cuda()
    optimizer = torch.optim.Adam((p for p in blocks.parameters() if p.requires_grad), lr=1e-3)
    series = torch.rand(20000, past + 4 * ahead, device="cuda") + 0.1

    def loss():
        row = torch.randint(0, len(series), (batch,), device="cuda")
        first = torch.randint(0, 3 * ahead, (batch,), device="cuda")
        at = first[:, None] + torch.arange(past + ahead, device="cuda")
        window = series[row[:, None], at]
        left, truth = window.split([past, ahead], 1)
        level = left.abs().amax(1, keepdim=True)
        left, said = left / level, 0.0
        for block in blocks:
            back, on = block(left)
            left, said = left - back, said + on
        said = said * level
        return 2 * ((said - truth).abs() / (said.abs() + truth.abs() + 1e-6).detach()).mean()

    return fit(blocks, loss, None, optimizer, clip=1.0)


def words_from_neighbours(batch=65536, wrong=10, width=300, words=400000):
    """Word vectors from what stands near, sparse gradients, SparseAdam; float32."""
    torch.manual_seed(0)
    inner = nn.Embedding(words, width, sparse=True).cuda()
    outer = nn.Embedding(words, width, sparse=True).cuda()
    nn.init.uniform_(inner.weight, -0.5 / width, 0.5 / width)
    nn.init.uniform_(outer.weight, -0.5 / width, 0.5 / width)
    optimizer = torch.optim.SparseAdam([*inner.parameters(), *outer.parameters()], lr=1e-3)
    often = (torch.arange(words, device="cuda") + 10.0).pow(-0.75)
    text = torch.multinomial(often, batch, True)
    near = torch.multinomial(often, batch, True)

    def step():
        drawn = torch.multinomial(often, batch * wrong, True).view(batch, wrong)
        x, y, z = inner(text), outer(near), outer(drawn)
        good = F.logsigmoid((x * y).sum(1))
        bad = F.logsigmoid(-torch.bmm(z, x[:, :, None])[..., 0]).sum(1)
        loss = -(good + bad).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
