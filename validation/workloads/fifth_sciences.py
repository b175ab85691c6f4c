"""Programs of a fifth set that no constant was fitted to: electrons, waves, densities, flames."""

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Orbitals(nn.Module):
    """The logarithm of a wave function: what electrons feel of each other, then determinants."""

    def __init__(self, electrons, nuclei, width, pair, depth, determinants):
        super().__init__()
        self.electrons, self.determinants = electrons, determinants
        self.ones, self.pairs = nn.ModuleList(), nn.ModuleList()
        one, two = 4 * len(nuclei), 4
        for n in range(depth):
            self.ones.append(nn.Linear(2 * one + two, width))
            if n < depth - 1:
                self.pairs.append(nn.Linear(two, pair))
            one, two = width, pair
        self.orbitals = nn.Linear(width, determinants * electrons)
        self.reach = nn.Parameter(torch.ones(len(nuclei), determinants * electrons))
        self.register_buffer("nuclei", nuclei)

    def forward(self, x):
        """(walkers, 3 x electrons) to (walkers,)."""
        r = x.unflatten(-1, (self.electrons, 3))
        away, apart = r[:, :, None] - self.nuclei, r[:, :, None] - r[:, None]
        far = away.norm(dim=-1, keepdim=True)
        near = (apart.square().sum(-1, keepdim=True) + 1e-12).sqrt()
        h, g = torch.cat([away, far], -1).flatten(2), torch.cat([apart, near], -1)
        for n, layer in enumerate(self.ones):
            mean = h.mean(1, keepdim=True).expand_as(h)
            new = torch.tanh(layer(torch.cat([h, mean, g.mean(2)], -1)))
            h = h + new if h.shape == new.shape else new
            if n < len(self.pairs):
                wider = torch.tanh(self.pairs[n](g))
                g = g + wider if g.shape == wider.shape else wider
        fall = torch.exp(-(far * self.reach.abs())).sum(2)
        matrix = (self.orbitals(h) * fall).unflatten(-1, (self.determinants, -1)).transpose(1, 2)
        sign, size = torch.linalg.slogdet(matrix)
        most = size.amax(-1, keepdim=True).detach()
        return (sign * (size - most).exp()).sum(-1).abs().log() + most[..., 0]


def electrons_apart(walkers=1024, electrons=4, width=128, pair=16, depth=2, determinants=8):
    """The ground state of a small molecule by sampling: curvature by slopes of slopes; float32."""
    torch.manual_seed(0)
    nuclei = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
    charges = torch.tensor([3.0, 1.0], device="cuda")
    model = Orbitals(electrons, nuclei, width, pair, depth, determinants).cuda()
    places = torch.randn(walkers, 3 * electrons, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def kinetic(x):
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        curve = 0.0
        for n in range(x.shape[1]):
            (row,) = torch.autograd.grad(slope[:, n].sum(), x, retain_graph=True)
            curve = curve + row[:, n]
        return -0.5 * (curve + slope.detach().square().sum(1))

    def potential(x):
        r = x.unflatten(-1, (electrons, 3))
        to_nuclei = (r[:, :, None] - model.nuclei).norm(dim=-1)
        among = torch.cdist(r, r) + torch.eye(electrons, device=x.device)
        upper = (1 / among).triu(1).sum((-2, -1))
        return upper - (charges / to_nuclei).sum((-2, -1)) + charges.prod() / 3.0

    @torch.no_grad()
    def moved(x, rounds=4):
        now = 2 * model(x)
        for _ in range(rounds):
            new = x + 0.2 * torch.randn_like(x)
            then = 2 * model(new)
            take = torch.rand_like(now).log() < then - now
            x, now = torch.where(take[:, None], new, x), torch.where(take, then, now)
        return x

    def step():
        places.copy_(moved(places))
        energy = kinetic(places) + potential(places)
        middle = energy.median()
        spread = (energy - middle).abs().mean()
        clipped = energy.clamp(middle - 5 * spread, middle + 5 * spread)
        loss = ((clipped - clipped.mean()) * 2 * model(places)).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return energy.mean()

    return step


class Spectral(nn.Module):
    """The lowest waves of a volume, each mixed by a matrix of its own."""

    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weights = nn.ParameterList(
            torch.randn(width, width, *modes, 2) / width for _ in range(4)
        )

    def forward(self, x):
        a, b, c = self.modes
        waves = torch.fft.rfftn(x, dim=(-3, -2, -1))
        mixed = torch.zeros_like(waves)
        corners = [(slice(i, j), slice(k, m)) for i, j in ((None, a), (-a, None))
                   for k, m in ((None, b), (-b, None))]  # fmt: skip
        for (u, v), weight in zip(corners, self.weights, strict=True):
            part = waves[:, :, u, v, :c]
            mixed[:, :, u, v, :c] = torch.einsum(
                "nixyz,ioxyz->noxyz", part, torch.view_as_complex(weight)
            )
        return torch.fft.irfftn(mixed, s=x.shape[-3:], dim=(-3, -2, -1))


def waves_in_volumes(batch=8, side=64, past=10, width=32, modes=12, depth=4):
    """A flow's next moments by waves of a volume, four layers; float32, TensorFloat-32 filters."""
    torch.manual_seed(0)
    enter, leave = nn.Conv3d(past + 3, width, 1), nn.Sequential(
        nn.Conv3d(width, 128, 1), nn.GELU(), nn.Conv3d(128, 1, 1)
    )  # fmt: skip
    spectral = nn.ModuleList(Spectral(width, (modes, modes, modes)) for _ in range(depth))
    beside = nn.ModuleList(nn.Conv3d(width, width, 1) for _ in range(depth))
    mixing = nn.ModuleList(
        nn.Sequential(nn.Conv3d(width, width, 1), nn.GELU(), nn.Conv3d(width, width, 1))
        for _ in range(depth)
    )
    model = nn.ModuleList([enter, leave, spectral, beside, mixing]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    field = torch.randn(batch, past, side, side, side, device="cuda")
    truth = torch.randn(batch, 1, side, side, side, device="cuda")
    at = torch.linspace(0, 1, side, device="cuda")

    def loss():
        grid = torch.stack(torch.meshgrid(at, at, at, indexing="ij"))
        x = enter(torch.cat([field, grid.expand(batch, -1, -1, -1, -1)], 1))
        x = F.pad(x, (0, 8, 0, 8, 0, 8))
        for n, (wave, skip, mix) in enumerate(zip(spectral, beside, mixing, strict=True)):
            x = mix(wave(x)) + skip(x)
            x = F.gelu(x) if n < depth - 1 else x
        found = leave(x[..., :-8, :-8, :-8])
        off = (found - truth).flatten(1).norm(dim=1)
        return (off / truth.flatten(1).norm(dim=1)).mean()

    return fit(model, loss, None, optimizer)


def bent(x, widths, heights, slopes, bound=5.0):
    """A monotone curve of rational quadratics (..., bins) at x, and the logarithm of its slope."""
    bins = widths.shape[-1]
    edges = []
    for raw in (widths, heights):
        part = 1e-3 + (1 - 1e-3 * bins) * raw.softmax(-1)
        edge = F.pad(part.cumsum(-1), (1, 0)) * 2 * bound - bound
        edges.append(edge)
    slopes = F.pad(1e-3 + F.softplus(slopes), (1, 1), value=1.0)
    inside = (x > -bound) & (x < bound)
    z = x.clamp(-bound + 1e-4, bound - 1e-4)
    index = torch.searchsorted(edges[0].detach().contiguous(), z[..., None].contiguous()) - 1
    index = index.clamp(0, bins - 1)
    left, wide, low, high = (
        part.gather(-1, index)[..., 0]
        for part in (edges[0], edges[0].diff(dim=-1), edges[1], edges[1].diff(dim=-1))
    )
    first, last = (slopes.gather(-1, index + n)[..., 0] for n in (0, 1))
    steep, t = high / wide, (z - left) / wide
    ramp = t * (1 - t)
    under = steep + (first + last - 2 * steep) * ramp
    y = low + high * (steep * t.square() + first * ramp) / under
    slope = steep.square() * (last * t.square() + 2 * steep * ramp + first * (1 - t).square())
    gain = slope.log() - 2 * under.log()
    return torch.where(inside, y, x), torch.where(inside, gain, torch.zeros_like(gain))


def spline_flows(batch=16384, columns=32, width=256, layers=8, bins=8):
    """A density by monotone splines of half the columns from the others; float32."""
    torch.manual_seed(0)
    half = columns // 2
    nets = nn.ModuleList(
        nn.Sequential(
            nn.Linear(half, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, half * (3 * bins - 1)),
        )
        for _ in range(layers)
    )  # fmt: skip
    mixes = nn.ParameterList(torch.linalg.qr(torch.randn(columns, columns))[0] for _ in nets)
    model = nn.ModuleList([nets, mixes]).cuda()
    data = torch.randn(batch, columns, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)

    def loss():
        x, gained = data + 0.05 * torch.randn_like(data), 0.0
        for net, mix in zip(nets, mixes, strict=True):
            gained = gained + torch.linalg.slogdet(mix)[1]
            still, moved = (x @ mix).chunk(2, -1)
            raw = net(still).unflatten(-1, (half, -1))
            moved, gain = bent(moved, *raw.split([bins, bins, bins - 1], -1))
            x, gained = torch.cat([moved, still], -1), gained + gain.sum(-1)
        return (0.5 * x.square().sum(-1) - gained).mean()

    return fit(model, loss, None, optimizer, clip=5.0)


def fourth_slopes(points=8192, width=128, depth=4):
    """A chaotic flame front (Kuramoto-Sivashinsky) by its equation: four slopes deep; float64."""
    torch.manual_seed(0)
    layers = [nn.Linear(2, width), nn.Tanh()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(width, 1)).double().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    start = torch.rand(points // 4, 1, device="cuda", dtype=torch.double)
    known = torch.cos(6.283 * start) * (1 + torch.sin(6.283 * start))

    def slope(of, by):
        return torch.autograd.grad(of.sum(), by, create_graph=True)[0]

    def loss():
        x, t = torch.rand(2, points, 1, device="cuda", dtype=torch.double).requires_grad_()
        u = model(torch.cat([x, t], 1))
        u_t, u_x = slope(u, t), slope(u, x)
        u_xx = slope(u_x, x)
        u_xxxx = slope(slope(u_xx, x), x)
        rest = u_t + 5 * u * u_x + 0.5 * u_xx + 0.005 * u_xxxx
        at_start = model(torch.cat([start, torch.zeros_like(start)], 1))
        wraps = model(torch.cat([torch.zeros_like(t), t], 1)) - model(
            torch.cat([torch.ones_like(t), t], 1)
        )
        return rest.square().mean() + 100 * F.mse_loss(at_start, known) + wraps.square().mean()

    return fit(model, loss, None, optimizer)
