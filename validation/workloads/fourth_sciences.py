"""Programs of a fourth set that no constant was fitted to: matter, weather, cells, proteins."""

from itertools import pairwise

import numpy
import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


def mlp(*widths, act=nn.SiLU):
    layers = []
    for i, o in pairwise(widths):
        layers += [nn.Linear(i, o), act()]
    return nn.Sequential(*layers[:-1])


class NearestNeighbours(nn.Module):
    """Each point weighs its nearest ones by a network of differences, channel by channel."""

    def __init__(self, width, near):
        super().__init__()
        self.near = near
        self.enter, self.leave = nn.Linear(width, width), nn.Linear(width, width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.place, self.weight = mlp(3, width, width, act=nn.ReLU), mlp(width, width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x, at):
        near = torch.cdist(at, at).topk(self.near, largest=False).indices

        def of(h):
            flat = near.flatten(1)[..., None].expand(-1, -1, h.shape[-1])
            return h.gather(1, flat).unflatten(1, near.shape[1:])

        q, k, v = self.qkv(F.relu(self.norms[0](self.enter(x)))).chunk(3, -1)
        place = self.place(at[:, :, None] - of(at))
        weight = self.weight(q[:, :, None] - of(k) + place).softmax(2)
        y = (weight * (of(v) + place)).sum(2)
        return x + self.leave(F.relu(self.norms[1](y)))


def point_transformer(batch=8, points=4096, near=16, widths=(64, 128, 256)):
    """Parts of solids by attention among nearest points, three scales and back; float32."""
    torch.manual_seed(0)
    enter = mlp(6, widths[0], widths[0])
    down = nn.ModuleList(
        nn.ModuleList([NearestNeighbours(w, near), NearestNeighbours(w, near)]) for w in widths
    )
    shrink = nn.ModuleList(nn.Linear(i + 3, o) for i, o in pairwise(widths))
    grow = nn.ModuleList(nn.Linear(o + i, i) for i, o in pairwise(widths))
    up = nn.ModuleList(NearestNeighbours(w, near) for w in widths[:-1])
    out = mlp(widths[0], widths[0], 50)
    model = nn.ModuleList([enter, down, shrink, grow, up, out]).cuda()
    place, colour = torch.rand(2, batch, points, 3, device="cuda")
    y = torch.randint(0, 50, (batch, points), device="cuda")

    def loss():
        x, at, kept = enter(torch.cat([place, colour], -1)), place, []
        for n, blocks in enumerate(down):
            for block in blocks:
                x = block(x, at)
            if n == len(widths) - 1:
                break
            kept.append((x, at))
            few = at[:, torch.randperm(at.shape[1], device="cuda")[: at.shape[1] // 4]]
            close = torch.cdist(few, at).topk(near, largest=False).indices
            flat = close.flatten(1)[..., None]
            around = x.gather(1, flat.expand(-1, -1, x.shape[-1])).unflatten(1, close.shape[1:])
            where = at.gather(1, flat.expand(-1, -1, 3)).unflatten(1, close.shape[1:])
            h = torch.cat([around, where - few[:, :, None]], -1)
            x, at = shrink[n](h).amax(2), few
        for n in reversed(range(len(kept))):
            finer, there = kept[n]
            far, close = torch.cdist(there, at).topk(3, largest=False)
            share = (1 / (far + 1e-8)) / (1 / (far + 1e-8)).sum(-1, keepdim=True)
            flat = close.flatten(1)[..., None].expand(-1, -1, x.shape[-1])
            spread = (x.gather(1, flat).unflatten(1, close.shape[1:]) * share[..., None]).sum(2)
            x, at = up[n](grow[n](torch.cat([spread, finer], -1)), there), there
        return F.cross_entropy(out(x).transpose(1, 2), y)

    return fit(model, loss, None)


def legendre(degrees, latitudes):
    """Associated Legendre functions (order, degree, latitude) of unit norm on a regular grid."""
    x = numpy.cos((numpy.arange(latitudes) + 0.5) / latitudes * numpy.pi)
    p = numpy.zeros((degrees, degrees, latitudes))
    p[0, 0] = (4 * numpy.pi) ** -0.5
    for m in range(1, degrees):
        p[m, m] = -(((2 * m + 1) / (2 * m)) ** 0.5) * (1 - x * x) ** 0.5 * p[m - 1, m - 1]
    for m in range(degrees - 1):
        p[m, m + 1] = (2 * m + 3) ** 0.5 * x * p[m, m]
        for n in range(m + 2, degrees):
            a = ((4 * n * n - 1) / (n * n - m * m)) ** 0.5
            b = (((n - 1) ** 2 - m * m) / (4 * (n - 1) ** 2 - 1)) ** 0.5
            p[m, n] = a * (x * p[m, n - 1] - b * p[m, n - 2])
    return torch.from_numpy(p).float()


class Spherical(nn.Module):
    """Channels mixed in spherical harmonics, one product a degree; then place by place."""

    def __init__(self, width, degrees, latitudes):
        super().__init__()
        self.degrees = degrees
        functions = legendre(degrees, latitudes)
        area = torch.sin((torch.arange(latitudes) + 0.5) / latitudes * torch.pi)
        self.register_buffer("back", functions)
        self.register_buffer("there", functions * area * (2 * torch.pi**2 / latitudes))
        self.mix = nn.Parameter(torch.randn(degrees, width, width, 2) * 0.02)
        self.norms = nn.ModuleList(nn.InstanceNorm2d(width, affine=True) for _ in range(2))
        self.skip = nn.Conv2d(width, width, 1)
        self.mlp = nn.Sequential(
            nn.Conv2d(width, 2 * width, 1), nn.GELU(), nn.Conv2d(2 * width, width, 1)
        )

    def forward(self, x):
        h = torch.fft.rfft(self.norms[0](x), dim=-1, norm="forward")[..., : self.degrees]
        h = torch.einsum("bchm,mlh->bclm", h, self.there.to(h.dtype))
        h = torch.einsum("bclm,lco->bolm", h, torch.view_as_complex(self.mix))
        h = torch.einsum("bolm,mlh->bohm", h, self.back.to(h.dtype))
        h = torch.fft.irfft(h, n=x.shape[-1], dim=-1, norm="forward")
        x = x + F.gelu(h + self.skip(x))
        return x + self.mlp(self.norms[1](x))


def spherical_weather(batch=2, width=192, depth=4, latitudes=180, longitudes=360, degrees=90):
    """The air six hours on, by spherical harmonics, 26 fields of one degree; float32."""
    torch.manual_seed(0)
    enter, leave = nn.Conv2d(26, width, 1), nn.Conv2d(width + 26, 26, 1)
    place = nn.Parameter(torch.randn(1, width, latitudes, longitudes) * 0.02)
    blocks = nn.ModuleList(Spherical(width, degrees, latitudes) for _ in range(depth))
    model = nn.ModuleList([enter, leave, blocks, nn.ParameterList([place])]).cuda()
    x, y = torch.randn(2, batch, 26, latitudes, longitudes, device="cuda")
    area = torch.sin((torch.arange(latitudes, device="cuda") + 0.5) / latitudes * torch.pi)

    def loss():
        h = enter(x) + model[3][0]
        for block in blocks:
            h = block(h)
        apart = (leave(torch.cat([h, x], 1)) - y).square() * area[:, None]
        return apart.mean((2, 3)).sqrt().mean()

    return fit(model, loss, None)


def cell_counts(batch=2048, genes=20000, hidden=256, latent=30, batches=8):
    """Counts of genes in cells, negative binomial with an excess of zeros, variational; float32."""
    torch.manual_seed(0)

    def layers(inside):
        return nn.Sequential(
            nn.Linear(inside, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.1),
        )  # fmt: skip

    encoder, decoder = layers(genes + batches), layers(latent + batches)
    heads = nn.ModuleList([nn.Linear(hidden, latent), nn.Linear(hidden, latent),
                           nn.Linear(hidden, genes), nn.Linear(hidden, genes)])  # fmt: skip
    spread = nn.Parameter(torch.randn(genes))
    model = nn.ModuleList([encoder, decoder, heads, nn.ParameterList([spread])]).cuda().train()
    counts = torch.poisson(torch.rand(batch, genes, device="cuda") * 3)
    origin = F.one_hot(torch.randint(0, batches, (batch,), device="cuda"), batches).float()
    total = counts.sum(1, keepdim=True)

    def loss():
        h = encoder(torch.cat([counts.log1p(), origin], 1))
        where = torch.distributions.Normal(heads[0](h), F.softplus(heads[1](h)) + 1e-4)
        z = where.rsample()
        h = decoder(torch.cat([z, origin], 1))
        mean, excess = heads[2](h).softmax(-1) * total, heads[3](h)
        r = model[3][0].exp()
        log_r, log_mean = (r + mean + 1e-8).log(), (mean + 1e-8).log()
        none = r * ((r + 1e-8).log() - log_r)
        some = (
            none + counts * (log_mean - log_r)
            + (counts + r).lgamma() - r.lgamma() - (counts + 1).lgamma()
        )  # fmt: skip
        zero = F.softplus(none - excess) - F.softplus(-excess)
        told = torch.where(counts < 1e-8, zero, some - excess - F.softplus(-excess))
        prior = torch.distributions.Normal(torch.zeros_like(z), torch.ones_like(z))
        kept = torch.distributions.kl_divergence(where, prior).sum(1)
        return (kept - told.sum(1)).mean()

    return fit(model, loss, None)


def harmonics(v):
    """Real spherical harmonics of degrees 0 to 2 of unit arrows, (..., 9)."""
    x, y, z = v.unbind(-1)
    one = torch.ones_like(x)
    return torch.stack(
        [
            0.28209479 * one, 0.48860251 * y, 0.48860251 * z, 0.48860251 * x,
            1.09254843 * x * y, 1.09254843 * y * z, 0.31539157 * (3 * z * z - 1),
            1.09254843 * x * z, 0.54627422 * (x * x - y * y),
        ],
        -1,
    )  # fmt: skip


def coupling():
    """Integrals of three harmonics over the sphere, (9, 9, 9)."""
    z, weight = numpy.polynomial.legendre.leggauss(8)
    turn = (numpy.arange(16) + 0.5) / 16 * 2 * numpy.pi
    side = (1 - z * z)[:, None] ** 0.5
    places = [side * numpy.cos(turn), side * numpy.sin(turn), z[:, None] + 0 * turn]
    y = harmonics(torch.from_numpy(numpy.stack(places, -1))).flatten(0, 1)
    share = torch.from_numpy(numpy.repeat(weight, 16) * (2 * numpy.pi / 16))
    return torch.einsum("n,na,nb,nc->abc", share, y, y, y).float()


class Products(nn.Module):
    """Messages of harmonics, summed at each atom, then products of two and three of the sums."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("couple", coupling())
        self.send, self.leave = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.by = mlp(8, 64, 64, 3 * width)
        self.share = nn.Parameter(torch.randn(3, width))
        self.register_buffer("degree", torch.tensor([0, 1, 1, 1, 2, 2, 2, 2, 2]))

    def forward(self, h, source, target, waves, arrows):
        by = self.by(waves).unflatten(-1, (3, -1))[:, self.degree]
        edges = torch.einsum("ecb,ea,abd->ecd", self.send(h.mT).mT[source], arrows, self.couple)
        edges = edges * by.transpose(1, 2)
        a = torch.zeros_like(h).index_add(0, target, edges) / 8
        two = torch.einsum("nca,ncb,abd->ncd", a, a, self.couple)
        three = torch.einsum("nca,ncb,abd->ncd", two, a, self.couple)
        made = sum(s[:, None] * m for s, m in zip(self.share, (a, two, three), strict=True))
        return h + self.leave(made.mT).mT


def equivariant_potential(atoms=2048, near=24, width=64, depth=2):
    """Energies and forces from products of spherical harmonics, two ways back; float32."""
    torch.manual_seed(0)
    kinds, layers = nn.Embedding(90, width), nn.ModuleList(Products(width) for _ in range(depth))
    out = nn.ModuleList(mlp(width, 16, 1) for _ in range(depth))
    model = nn.ModuleList([kinds, layers, out]).cuda()
    kind = torch.randint(0, 90, (atoms,), device="cuda")
    source = torch.randint(0, atoms, (atoms * near,), device="cuda")
    target = torch.arange(atoms, device="cuda").repeat_interleave(near)
    place, force = torch.randn(2, atoms, 3, device="cuda")
    energy = torch.randn((), device="cuda")
    rates = torch.arange(1, 9, device="cuda") * torch.pi / 6

    def loss():
        at = place.clone().requires_grad_(True)
        apart = at[source] - at[target] + 1e-3
        far = apart.norm(dim=-1, keepdim=True)
        waves = torch.sin(far * rates) / far * (1 - (far / 6).clamp(max=1)).square()
        arrows = harmonics(apart / far)
        h = F.pad(kinds(kind)[..., None], (0, 8))
        found = 0
        for layer, head in zip(layers, out, strict=True):
            h = layer(h, source, target, waves, arrows)
            found = found + head(h[..., 0]).sum()
        (slope,) = torch.autograd.grad(found, at, create_graph=True)
        return (found / atoms - energy).square() + 10 * F.huber_loss(-slope, force)

    return fit(model, loss, None, clip=10.0)


class ProteinBlock(nn.Module):
    """Attention whose weights are kept, as contacts are read off them."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, padded, cos, sin):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)

        def turned(h):
            a, b = h.chunk(2, -1)
            return h * cos + torch.cat([-b, a], -1) * sin

        scores = turned(q * q.shape[-1] ** -0.5) @ turned(k).mT
        weights = scores.masked_fill(padded[:, None, None], float("-inf")).softmax(-1)
        y = (weights.to(v.dtype) @ v).transpose(1, 2).flatten(2)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x)))), weights


def protein_tuning(batch=8, length=768, width=1280, depth=10, heads=20):
    """A protein language model learns hidden residues and contacts; float16 with a scaler."""
    torch.manual_seed(0)
    words, blocks = nn.Embedding(33, width), nn.ModuleList(
        ProteinBlock(width, heads) for _ in range(depth)
    )  # fmt: skip
    norm, out = nn.LayerNorm(width), nn.Linear(width, 33)
    contact = nn.Linear(2 * heads, 1)
    model = nn.ModuleList([words, blocks, norm, out, contact]).cuda()
    tokens = torch.randint(4, 24, (batch, length), device="cuda")
    lengths = torch.randint(length // 2, length + 1, (batch, 1), device="cuda")
    padded = torch.arange(length, device="cuda") >= lengths
    near = (torch.rand(batch, length, length, device="cuda") > 0.97).float()
    half = width // heads // 2
    rate = 1e4 ** (-torch.arange(half, device="cuda") / half)
    angle = (torch.arange(length, device="cuda")[:, None] * rate).repeat(1, 2)
    cos, sin = angle.cos(), angle.sin()
    groups = [
        {"params": block.parameters(), "lr": 1e-4 * 0.9 ** (depth - n)}
        for n, block in enumerate(blocks)
    ]
    rest = [p for m in (words, norm, out, contact) for p in m.parameters()]
    optimizer = torch.optim.AdamW([*groups, {"params": rest}], lr=1e-4, fused=True)

    def loss():
        hide = (torch.rand(batch, length, device="cuda") < 0.15) & ~padded
        share = hide.sum(1) / (~padded).sum(1)
        x = words(torch.where(hide, 32, tokens)).masked_fill((hide | padded)[..., None], 0.0)
        x, kept = x * ((1 - 0.12) / (1 - share))[:, None, None], []
        for block in blocks:
            x, weights = block(x, padded, cos, sin)
            kept.append(weights)
        h = torch.cat(kept[-2:], 1).float()
        h = h + h.mT
        h = h - h.sum(-1, keepdim=True) * h.sum(-2, keepdim=True) / h.sum((-1, -2), keepdim=True)
        pairs = contact(h.permute(0, 2, 3, 1))[..., 0].float()
        each = F.cross_entropy(
            out(norm(x)).float().flatten(0, 1), tokens.flatten(), reduction="none"
        )
        hidden = hide.flatten()
        return (each * hidden).sum() / hidden.sum() + F.binary_cross_entropy_with_logits(
            pairs, near
        )

    return fit(model, loss, torch.float16, optimizer, scaled=True, clip=1.0)
