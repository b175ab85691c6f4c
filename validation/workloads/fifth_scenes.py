"""Programs of a fifth set that no constant was fitted to: events, depth, light."""

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Spike(torch.autograd.Function):
    """A step forward; backward the slope of an arc tangent in its place."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x >= 0).to(x.dtype)

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        return slope / (1 + (torch.pi * x).square())


class Leaky(nn.Module):
    """Neurons that gather, leak, fire at one and start again; moments first."""

    def __init__(self, leak=0.5):
        super().__init__()
        self.leak = leak

    def forward(self, current):
        charge, fired = torch.zeros_like(current[0]), []
        for now in current:
            charge = charge + (now - charge) * self.leak
            spike = Spike.apply(charge - 1.0)
            charge = charge * (1 - spike.detach())
            fired.append(spike)
        return torch.stack(fired)


class Firing(nn.Module):
    """Convolution and batch norm of all moments at once, neurons moment by moment."""

    def __init__(self, inside, outside, stride=1, fires=True, kernel=3):
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outside)
        self.neurons = Leaky() if fires else nn.Identity()

    def forward(self, x):
        h = self.norm(self.conv(x.flatten(0, 1)))
        return self.neurons(h.unflatten(0, x.shape[:2]))


class FiringBlock(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.body = nn.Sequential(Firing(inside, outside, stride), Firing(outside, outside))
        same = inside == outside and stride == 1
        self.skip = nn.Identity() if same else Firing(inside, outside, stride, kernel=1)

    def forward(self, x):
        return self.body(x) + self.skip(x)


def spiking_events(batch=32, moments=10, side=128, width=64, blocks=(2, 2, 2), classes=11):
    """Gestures in an event camera's counts by neurons that spike; float32, TF32 filters."""
    torch.manual_seed(0)
    layers, inside = [Firing(2, width, 2)], width
    for n, count in enumerate(blocks):
        for m in range(count):
            layers.append(FiringBlock(inside, width * 2**n, 2 if m == 0 and n else 1))
            inside = width * 2**n
    body, out = nn.Sequential(*layers), nn.Linear(inside, classes * 10)
    model = nn.ModuleList([body, out]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    events = torch.rand(batch, moments, 2, side, side, device="cuda").mul_(3).floor_()
    y = torch.randint(0, classes, (batch,), device="cuda")

    def loss():
        fired = body(events.transpose(0, 1).contiguous())
        votes = out(fired.mean((-2, -1))).mean(0)
        rate = F.avg_pool1d(votes[:, None], 10)[:, 0]
        wanted = F.one_hot(y, classes).float()
        return F.mse_loss(rate, wanted) + 1e-3 * fired.mean()

    return fit(model, loss, None, optimizer)


def solid(inside, outside, stride=1):
    return nn.Sequential(
        nn.Conv3d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm3d(outside)
    )


class SolidHourglass(nn.Module):
    """Halved twice, widened twice, what was before added."""

    def __init__(self, width):
        super().__init__()
        self.one, self.two = solid(width, 2 * width, 2), solid(2 * width, 2 * width)
        self.three, self.four = solid(2 * width, 2 * width, 2), solid(2 * width, 2 * width)
        self.grow, self.grown = (
            nn.Sequential(
                nn.ConvTranspose3d(2 * width, w, 3, 2, 1, output_padding=1, bias=False),
                nn.BatchNorm3d(w),
            )
            for w in (2 * width, width)
        )

    def forward(self, x):
        a = F.relu(self.two(F.relu(self.one(x))))
        b = F.relu(self.four(F.relu(self.three(a))))
        return self.grown(F.relu(self.grow(b) + a)) + x


def stereo_volumes(batch=6, height=256, width=512, channels=32, depths=192, glasses=2):
    """Depth from two eyes: features paired at every shift, convolved as a volume; bfloat16."""
    torch.manual_seed(0)

    def flat(inside, outside, stride=1, spread=1):
        return nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, spread, spread, bias=False),
            nn.BatchNorm2d(outside), nn.ReLU(inplace=True),
        )  # fmt: skip

    eye = nn.Sequential(
        flat(3, 32, 2), flat(32, 32), flat(32, 32), flat(32, 64, 2),
        *(flat(64, 64) for _ in range(6)),
        flat(64, 128, 1, 2), flat(128, 128, 1, 2), flat(128, 128, 1, 4),
    )  # fmt: skip
    pools = nn.ModuleList(flat(128, 32) for _ in range(3))
    narrow = nn.Sequential(flat(128 + 96, 128), nn.Conv2d(128, channels, 1, bias=False))
    first = nn.Sequential(solid(2 * channels, channels), nn.ReLU(), solid(channels, channels))
    hourglasses = nn.ModuleList(SolidHourglass(channels) for _ in range(glasses))
    says = nn.ModuleList(
        nn.Sequential(solid(channels, channels), nn.ReLU(), nn.Conv3d(channels, 1, 3, padding=1))
        for _ in range(glasses)
    )
    model = nn.ModuleList([eye, pools, narrow, first, hourglasses, says]).cuda()
    left, right = torch.rand(2, batch, 3, height, width, device="cuda")
    truth = torch.rand(batch, height, width, device="cuda") * depths * 1.05
    shifts = torch.arange(depths, device="cuda", dtype=torch.float).view(-1, 1, 1)

    def features(x):
        h = eye(x)
        wide = [
            F.interpolate(f(F.avg_pool2d(h, s, s)), h.shape[-2:], mode="bilinear")
            for f, s in zip(pools, (32, 16, 8), strict=True)
        ]
        return narrow(torch.cat([h, *wide], 1))

    def loss():
        a, b = features(left), features(right)
        volume = a.new_zeros(batch, 2 * channels, depths // 4, *a.shape[-2:])
        for d in range(depths // 4):
            w = a.shape[-1] - d
            volume[:, :channels, d, :, d:] = a[..., d:]
            volume[:, channels:, d, :, d:] = b[..., :w]
        h, total = F.relu(first(volume)), 0.0
        known = (truth < depths).float()
        for glass, say in zip(hourglasses, says, strict=True):
            h = glass(h)
            cost = F.interpolate(say(h).float(), (depths, height, width), mode="trilinear")
            found = (cost[:, 0].softmax(1) * shifts).sum(1)
            off = F.smooth_l1_loss(found, truth, reduction="none")
            total = total + (off * known).sum() / known.sum()
        return total

    return fit(model, loss, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))


def field_planes(rays=8192, samples=192, grid=300, dense=16, shown=48, kept=48):
    """Light along rays from products of planes and lines, in place of a network; float32."""
    torch.manual_seed(0)

    def tables(parts, *size):
        return nn.Parameter(0.1 * torch.randn(3, parts, *size, device="cuda"))

    factors = nn.ParameterList(
        [tables(dense, grid, grid), tables(dense, grid, 1),
         tables(shown, grid, grid), tables(shown, grid, 1)]
    )  # fmt: skip
    basis = nn.Linear(3 * shown, 27, bias=False).cuda()
    colour = nn.Sequential(
        nn.Linear(27 + 3 + 4 * 27 + 4 * 3, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
        nn.Linear(128, 3),
    ).cuda()  # fmt: skip
    network = [*basis.parameters(), *colour.parameters()]
    optimizer = torch.optim.Adam(
        [{"params": list(factors), "lr": 0.02}, {"params": network, "lr": 1e-3}], betas=(0.9, 0.99)
    )
    start = torch.rand(rays, 1, 3, device="cuda") * 0.1
    toward = F.normalize(torch.randn(rays, 3, device="cuda"), dim=-1)
    truth = torch.rand(rays, 3, device="cuda")
    depth = torch.linspace(0, 0.9, samples, device="cuda")
    pairs, single = ((0, 1), (0, 2), (1, 2)), (2, 1, 0)

    def looked_up(plane, line, points):
        """(3, parts, points): what three planes and three lines hold there, multiplied."""
        over = torch.stack([points[:, list(p)] for p in pairs])[:, :, None]
        along = torch.stack([points[:, n] for n in single])
        along = torch.stack([torch.zeros_like(along), along], -1)[:, :, None]
        a = F.grid_sample(plane, over, align_corners=True)
        b = F.grid_sample(line, along, align_corners=True)
        return (a * b)[..., 0]

    def waved(x):
        angle = (x[..., None] * torch.tensor([1.0, 2.0], device=x.device)).flatten(-2)
        return [x, angle.sin(), angle.cos()]

    def rough(plane):
        down = (plane[:, :, 1:] - plane[:, :, :-1]).square().mean()
        return down + (plane[:, :, :, 1:] - plane[:, :, :, :-1]).square().mean()

    def loss():
        noise = torch.rand(rays, samples, device="cuda") / samples
        t = depth + noise
        points = start + toward[:, None] * t[..., None]
        found = looked_up(factors[0], factors[1], points.flatten(0, 1)).sum((0, 1))
        density = F.softplus(found - 10).view(rays, samples)
        opaque = 1 - torch.exp(-density * 25 / samples)
        clear = torch.cat([torch.ones_like(opaque[:, :1]), 1 - opaque + 1e-10], 1).cumprod(1)
        weight = opaque * clear[:, :-1]
        heavy, index = weight.topk(kept, 1)
        near = points.gather(1, index[..., None].expand(-1, -1, 3)).flatten(0, 1)
        look = basis(looked_up(factors[2], factors[3], near).flatten(0, 1).t())
        view = toward[:, None].expand(-1, kept, -1).reshape(-1, 3)
        rgb = colour(torch.cat([*waved(look), *waved(view)], -1)).sigmoid()
        picture = (heavy[..., None] * rgb.view(rays, kept, 3)).sum(1)
        picture = picture + 1 - heavy.sum(1, keepdim=True)
        thin = sum(p.abs().mean() for p in factors[:2])
        return (
            F.mse_loss(picture, truth)
            + 1e-4 * thin
            + 0.1 * (rough(factors[0]) + 0.1 * rough(factors[2]))
        )

    return fit(nn.ModuleList([factors, basis, colour]), loss, None, optimizer)
