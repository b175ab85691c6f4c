"""Programs of a sixth set that no constant was fitted to: what makes pictures."""

import copy
import math

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


def narrow_block(inside, middle, outside, kernel=3):
    """One by one, two of `kernel`, one by one; a rounded rectifier before each."""
    layers = [nn.GELU(), nn.Conv2d(inside, middle, 1)]
    for _ in range(2):
        layers += [nn.GELU(), nn.Conv2d(middle, middle, kernel, padding=kernel // 2)]
    return nn.Sequential(*layers, nn.GELU(), nn.Conv2d(middle, outside, 1))


class Level(nn.Module):
    """A residual block whose latents are drawn from what it saw, against what it expected."""

    def __init__(self, width, latents, kernel):
        super().__init__()
        middle = width // 4
        self.guess = narrow_block(width, middle, 2 * latents + width, kernel)
        self.see = narrow_block(2 * width, middle, 2 * latents, kernel)
        self.enter = nn.Conv2d(latents, width, 1)
        self.body = narrow_block(width, middle, width, kernel)
        self.latents = latents

    def forward(self, x, seen):
        mean, spread, more = self.guess(x).split([self.latents, self.latents, x.shape[1]], 1)
        found, wide = self.see(torch.cat([x, seen], 1)).chunk(2, 1)
        z = found + wide.exp() * torch.randn_like(found)
        apart = (wide.exp().square() + (found - mean).square()) / (2 * spread.exp().square())
        loss = (spread - wide - 0.5 + apart).sum((1, 2, 3))
        x = x + more + self.enter(z)
        return x + self.body(x), loss


def deep_latents(
    batch=32,
    side=64,
    width=256,
    latents=16,
    levels=((64, 3), (32, 4), (16, 3), (8, 2), (4, 1), (1, 1)),
):
    """A deep hierarchy of latents down to one place and back up; float32, TF32 filters."""
    torch.manual_seed(0)
    enter = nn.Conv2d(3, width, 3, padding=1)
    up, down, places = nn.ModuleList(), nn.ModuleList(), nn.ParameterList()
    for size, depth in levels:
        kernel = 3 if size > 2 else 1
        up.append(
            nn.ModuleList(narrow_block(width, width // 4, width, kernel) for _ in range(depth))
        )
    for size, depth in reversed(levels):
        kernel = 3 if size > 2 else 1
        down.append(nn.ModuleList(Level(width, latents, kernel) for _ in range(depth)))
        places.append(nn.Parameter(torch.zeros(1, width, size, size)))
    leave = nn.Conv2d(width, 3 * 2, 1)
    model = nn.ModuleList([enter, up, down, places, leave]).cuda()
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.normal_(m.weight, std=0.3 / math.sqrt(m.weight[0].numel()))
    slow = copy.deepcopy(model).requires_grad_(False)
    image = torch.randint(0, 256, (batch, 3, side, side), device="cuda", dtype=torch.uint8)

    def loss():
        x = image.float() / 127.5 - 1
        h, seen = enter(x), []
        for n, (blocks, (size, _)) in enumerate(zip(up, levels, strict=True)):
            if n:
                h = F.adaptive_avg_pool2d(h, size)
            for block in blocks:
                h = h + block(h)
            seen.append(h)
        total, h = 0.0, 0.0
        for blocks, place, known in zip(down, places, reversed(seen), strict=True):
            grown = h if isinstance(h, float) else F.interpolate(h, size=place.shape[-2:])
            h = (place + grown).expand(batch, -1, -1, -1)
            for block in blocks:
                h, apart = block(h, known)
                total = total + apart
        mean, spread = leave(h).chunk(2, 1)
        spread = spread.clamp(min=-5)
        apart = (x - mean) * torch.exp(-spread)
        painted = (F.softplus(-apart) + F.softplus(apart) + spread).sum((1, 2, 3))
        return (painted + total).mean() / (3 * side * side)

    def follow():
        mine, theirs = list(slow.parameters()), list(model.parameters())
        torch._foreach_lerp_(mine, theirs, 1e-4)

    return fit(model, loss, None, clip=200.0, after=follow)


class Shifted(nn.Module):
    """A convolution that sees what is above, or above and to the left."""

    def __init__(self, inside, outside, down):
        super().__init__()
        self.pad = (1, 1, 1, 0) if down else (1, 0, 1, 0)
        self.conv = nn.utils.parametrizations.weight_norm(
            nn.Conv2d(inside, outside, (2, 3) if down else (2, 2))
        )

    def forward(self, x):
        return self.conv(F.pad(x, self.pad))


class Gate(nn.Module):
    """Doubled non-linear unit, what another stream knows added, dropped out, gated."""

    def __init__(self, width, down, other):
        super().__init__()
        self.one, self.two = Shifted(2 * width, width, down), Shifted(2 * width, 2 * width, down)
        self.skip = nn.Conv2d(2 * width, width, 1) if other else None

    def forward(self, x, other=None):
        def both(h):
            return F.elu(torch.cat([h, -h], 1))

        h = self.one(both(x))
        if other is not None:
            h = h + self.skip(both(other))
        a, b = self.two(F.dropout(both(h), 0.5)).chunk(2, 1)
        return x + a * torch.sigmoid(b)


def logistic_mixture(x, said, parts):
    """Minus the logarithm of how likely x (n, 3, h, w) is under mixtures of rounded logistics."""
    weight, rest = said[:, :parts], said[:, parts:].unflatten(1, (3, 3 * parts))
    mean, spread, mixed = rest.chunk(3, 2)
    spread, mixed = spread.clamp(min=-7.0), torch.tanh(mixed)
    x = x[:, :, None].expand(-1, -1, parts, -1, -1)
    green = mean[:, 1] + mixed[:, 0] * x[:, 0]
    blue = mean[:, 2] + mixed[:, 1] * x[:, 0] + mixed[:, 2] * x[:, 1]
    away = x - torch.stack([mean[:, 0], green, blue], 1)
    narrow = torch.exp(-spread)
    above, below = narrow * (away + 1 / 255), narrow * (away - 1 / 255)
    chance = torch.sigmoid(above) - torch.sigmoid(below)
    middle = narrow * away
    flat = middle - spread - 2 * F.softplus(middle) - math.log(127.5)
    inner = torch.where(chance > 1e-5, chance.clamp(min=1e-12).log(), flat)
    last = torch.where(x > 0.999, -F.softplus(below), inner)
    all_ = torch.where(x < -0.999, above - F.softplus(above), last)
    return -torch.logsumexp(all_.sum(1) + F.log_softmax(weight, 1), 1).sum()


def pixel_by_pixel(batch=32, side=32, width=128, depth=4, parts=10):
    """Each pixel's colour from those above and left of it, weights normed; float32, TF32 filters."""
    torch.manual_seed(0)
    ups, lefts = nn.ModuleList(), nn.ModuleList()
    for _ in range(2 * depth):
        ups.append(Gate(width, True, False))
        lefts.append(Gate(width, False, True))
    enter = nn.ModuleList([Shifted(4, width, True), Shifted(4, width, False)])
    leave = nn.Conv2d(width, 10 * parts, 1)
    model = nn.ModuleList([ups, lefts, enter, leave]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-4, betas=(0.95, 0.9995))
    image = torch.randint(0, 256, (batch, 3, side, side), device="cuda").float() / 127.5 - 1

    def loss():
        x = F.pad(image, (0, 0, 0, 0, 0, 1), value=1.0)
        up = F.pad(enter[0](x), (0, 0, 1, 0))[:, :, :-1]
        left = F.pad(enter[1](x), (1, 0))[..., :-1] + up
        kept = []
        for n, (a, b) in enumerate(zip(ups, lefts, strict=True)):
            if n >= depth:
                one, two = kept.pop()
                up, left = up + one, left + two
            up = a(up)
            left = b(left, up)
            if n < depth:
                kept.append((up, left))
        return logistic_mixture(image, leave(F.elu(left)), parts) / image.numel()

    return fit(model, loss, None, optimizer)


def parallel_painting(batch=32, side=16, width=768, depth=16, heads=12, codes=1024, rounds=6):
    """All of a picture's codes guessed at once, the surest kept, again; bfloat16, inference."""
    torch.manual_seed(0)
    count = side * side
    with torch.device("cuda"):
        table, name = nn.Embedding(codes + 1, width), nn.Embedding(1001, width)
        place = nn.Parameter(0.02 * torch.randn(count + 1, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True
        )
        body = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
        leave = nn.Linear(width, codes)
        book = nn.Embedding(codes, 256)
        paint = [nn.Conv2d(256, 512, 3, padding=1)]
        for inside, outside in ((512, 256), (256, 256), (256, 128), (128, 128)):
            paint += [
                nn.GroupNorm(32, inside), nn.SiLU(), nn.Conv2d(inside, outside, 3, padding=1),
                nn.Upsample(scale_factor=2, mode="nearest"),
            ]  # fmt: skip
        paint = nn.Sequential(*paint, nn.GroupNorm(32, 128), nn.SiLU(), nn.Conv2d(128, 3, 3, 1, 1))
        wanted = torch.randint(0, 1000, (batch,))
    nn.ModuleList([table, name, body, leave, book, paint]).bfloat16().eval()
    place = place.detach().bfloat16()

    @torch.inference_mode()
    def step():
        x = torch.full((batch, count), codes, device=place.device)
        none = torch.full_like(wanted, 1000)
        label = name(torch.cat([wanted, none]))[:, None]
        for n in range(rounds):
            h = torch.cat([label, table(x).repeat(2, 1, 1)], 1) + place
            with_name, without = leave(body(h)[:, 1:]).float().chunk(2)
            logits = without + 3.0 * (n + 1) / rounds * (with_name - without)
            drawn = torch.distributions.Categorical(logits=logits).sample()
            hidden = x == codes
            drawn = torch.where(hidden, drawn, x)
            sure = logits.log_softmax(-1).gather(-1, drawn[..., None])[..., 0]
            noise = -torch.log(-torch.log(torch.rand_like(sure).clamp(1e-9, 1 - 1e-7)))
            sure = torch.where(hidden, sure + 4.5 * (1 - n / rounds) * noise, torch.inf)
            lost = int(count * math.cos(math.pi / 2 * (n + 1) / rounds))
            if lost:
                edge = sure.sort(-1).values[:, lost : lost + 1]
                drawn = torch.where(sure < edge, codes, drawn)
            x = drawn
        h = book(x.clamp(max=codes - 1)).transpose(1, 2).unflatten(2, (side, side))
        return paint(h).float().clamp(-1, 1)

    return step


class Attended(nn.Module):
    """Two convolutions moved by the moment, and attention of the places where it is asked for."""

    def __init__(self, inside, outside, told, attends, change=None):
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(32, inside), nn.GroupNorm(32, outside)])
        self.one = nn.Conv2d(inside, outside, 3, padding=1)
        self.two = nn.Conv2d(outside, outside, 3, padding=1)
        self.told = nn.Linear(told, 2 * outside)
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()
        self.change = change
        if attends:
            self.norm, self.qkv = nn.GroupNorm(32, outside), nn.Conv2d(outside, 3 * outside, 1)
            self.out = nn.Conv2d(outside, outside, 1)
        self.attends = attends

    def changed(self, x):
        if self.change == "down":
            return F.avg_pool2d(x, 2)
        return F.interpolate(x, scale_factor=2, mode="nearest") if self.change == "up" else x

    def forward(self, x, told):
        h = self.one(self.changed(F.silu(self.norms[0](x))))
        scale, shift = self.told(told)[:, :, None, None].chunk(2, 1)
        h = self.two(F.dropout(F.silu(self.norms[1](h) * (scale + 1) + shift), 0.1))
        x = self.skip(self.changed(x)) + h
        if not self.attends:
            return x
        n, c, high, wide = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, 3, c // 64, 64, -1).transpose(3, 4).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(n, c, high, wide)
        return x + self.out(y)


class Denoiser(nn.Module):
    """A U-Net of residual blocks, skips from each."""

    def __init__(self, width, many, depth, attend):
        super().__init__()
        told, sizes = 4 * width, [width * m for m in many]
        self.learn = nn.Sequential(nn.Linear(width, told), nn.SiLU(), nn.Linear(told, told))
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.up, kept, inside = nn.ModuleList(), nn.ModuleList(), [width], width
        for n, size in enumerate(sizes):
            if n:
                self.down.append(Attended(inside, inside, told, False, "down"))
                kept.append(inside)
            for _ in range(depth):
                self.down.append(Attended(inside, size, told, attend[n]))
                inside = size
                kept.append(inside)
        self.middle = Attended(inside, inside, told, True)
        for n in reversed(range(len(sizes))):
            for _ in range(depth + 1):
                self.up.append(Attended(inside + kept.pop(), sizes[n], told, attend[n]))
                inside = sizes[n]
            if n:
                self.up.append(Attended(inside, inside, told, False, "up"))
        self.leave = nn.Sequential(
            nn.GroupNorm(32, inside), nn.SiLU(), nn.Conv2d(inside, 3, 3, padding=1)
        )
        self.width = width

    def forward(self, x, noise):
        rate = 1e4 ** (-torch.arange(self.width // 2, device=x.device) / (self.width // 2))
        angle = (250 * noise.log())[:, None] * rate
        told = self.learn(torch.cat([angle.cos(), angle.sin()], 1))
        h = self.enter(x)
        kept = [h]
        for block in self.down:
            h = block(h, told)
            kept.append(h)
        h = self.middle(h, told)
        for block in self.up:
            h = block(h if block.change else torch.cat([h, kept.pop()], 1), told)
        return self.leave(h)


def consistent_denoiser(
    batch=160, side=32, width=128, many=(1, 2, 2), depth=2, attend=(False, True, False), steps=40
):
    """From any noise to the picture at once: two near noises are to end alike; float16, scaled."""
    torch.manual_seed(0)
    model = Denoiser(width, many, depth, attend).cuda()
    target, slow = (copy.deepcopy(model).requires_grad_(False) for _ in range(2))
    optimizer = torch.optim.RAdam(model.parameters(), lr=1e-4)
    image = torch.rand(batch, 3, side, side, device="cuda") * 2 - 1
    line = torch.linspace(0, 1, steps, device="cuda")
    levels = (0.002 ** (1 / 7) + line * (80 ** (1 / 7) - 0.002 ** (1 / 7))) ** 7

    def ended(net, x, noise):
        s = noise[:, None, None, None]
        least, data = 0.002, 0.5
        keep = data**2 / ((s - least) ** 2 + data**2)
        add = (s - least) * data / (s**2 + data**2).sqrt()
        return keep * x + add * net(x / (s**2 + data**2).sqrt(), noise).float()

    def loss():
        at = torch.randint(0, steps - 1, (batch,), device="cuda")
        noise, low, high = torch.randn_like(image), levels[at], levels[at + 1]
        far = ended(model, image + high[:, None, None, None] * noise, high)
        with torch.no_grad():
            near = ended(target, image + low[:, None, None, None] * noise, low)
        c = 0.00054 * math.sqrt(image[0].numel())
        apart = ((far - near).square().flatten(1).sum(1) + c**2).sqrt() - c
        return (apart / (high - low)).mean()

    def follow():
        for p, q, r in zip(model.parameters(), target.parameters(), slow.parameters(), strict=True):
            q.copy_(p)
            r.mul_(0.9999).add_(p, alpha=1e-4)

    return fit(model, loss, torch.float16, optimizer, scaled=True, after=follow)


def proposals_along_rays(rays=4096, sizes=(64, 64, 32), width=256, deep=8, small=(128, 4)):
    """Two small networks say where along a ray to ask a large one about colour; float32, TF32."""
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    degrees, inside = 12, 12 * 2 * 3

    def tower(width, depth, outside):
        layers, last = [], inside
        for _ in range(depth):
            layers += [nn.Linear(last, width), nn.ReLU(inplace=True)]
            last = width
        return nn.Sequential(*layers, nn.Linear(last, outside))

    guess = nn.ModuleList(tower(*small, 1) for _ in sizes[:-1])
    field = tower(width, deep, width + 1)
    colour = nn.Sequential(nn.Linear(width + 27, 128), nn.ReLU(), nn.Linear(128, 3))
    model = nn.ModuleList([guess, field, colour]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-6)
    start = torch.randn(rays, 3, device="cuda")
    ahead = F.normalize(torch.randn(rays, 3, device="cuda"), dim=-1)
    truth = torch.rand(rays, 3, device="cuda")
    scale = 2.0 ** torch.arange(degrees, device="cuda")

    def encoded(edges):
        """Sines and cosines of places, faint where a piece of the ray is wide."""
        low, high = edges[:, :-1], edges[:, 1:]
        middle, half = (low + high) / 2, (high - low) / 2
        at = start[:, None] + middle[..., None] * ahead[:, None]
        length = at.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        near = torch.where(length > 1, (2 - 1 / length) * (at / length), at)
        spread = (half.square() / 3)[..., None] * ahead[:, None].square() + 1e-4
        angle = near[..., None, :] * scale[:, None]
        fade = torch.exp(-0.5 * spread[..., None, :] * scale[:, None].square())
        return torch.cat([fade * angle.sin(), fade * angle.cos()], -1).flatten(-2)

    def weights(density, edges):
        light = F.softplus(density - 1) * (edges[:, 1:] - edges[:, :-1])
        passed = torch.exp(-(light.cumsum(-1) - light))
        return passed * (1 - torch.exp(-light))

    def drawn(edges, weight, count):
        """New edges where the old pieces weigh most."""
        share = (weight + 0.01) / (weight + 0.01).sum(-1, keepdim=True)
        above = F.pad(share.cumsum(-1).clamp(max=1), (1, 0))
        u = torch.linspace(0, 1 - 1e-4, count + 1, device="cuda")
        u = (u + torch.rand(rays, 1, device="cuda") / (count + 2)).contiguous()
        index = torch.searchsorted(above, u, right=True)
        low, high = (index - 1).clamp(min=0), index.clamp(max=above.shape[1] - 1)
        a, b = above.gather(1, low), above.gather(1, high)
        part = ((u - a) / (b - a).clamp(min=1e-6)).clamp(0, 1)
        p, q = edges.gather(1, low), edges.gather(1, high)
        return p + part * (q - p)

    def bounded(edges, weight, wide_edges, wide):
        """How much the last pieces hold that the proposal's pieces around them do not."""
        total = F.pad(wide.cumsum(-1), (1, 0))
        first = torch.searchsorted(wide_edges, edges[:, :-1].contiguous(), right=True) - 1
        last = torch.searchsorted(wide_edges, edges[:, 1:].contiguous())
        top = wide.shape[1]
        outer = total.gather(1, last.clamp(0, top)) - total.gather(1, first.clamp(0, top))
        return ((weight - outer).clamp(min=0).square() / (weight + 1e-5)).sum(-1).mean()

    def loss():
        edges = torch.linspace(0, 1, sizes[0] + 1, device="cuda").expand(rays, -1)
        edges, before = edges + torch.rand(rays, 1, device="cuda") / sizes[0], []
        for n, net in enumerate(guess):
            weight = weights(net(encoded(0.2 + 6 * edges))[..., 0], edges)
            before.append((edges, weight))
            with torch.no_grad():
                edges = drawn(edges, weight.detach() ** (0.5 + 0.5 * n), sizes[n + 1])
        h = field(encoded(0.2 + 6 * edges))
        weight = weights(h[..., 0], edges)
        angle = ahead[:, None] * scale[:4, None]
        seen = torch.cat([ahead, angle.sin().flatten(1), angle.cos().flatten(1)], 1)
        seen = seen[:, None].expand(-1, sizes[-1], -1)
        found = torch.sigmoid(colour(torch.cat([F.relu(h[..., 1:]), seen], -1)))
        found = (weight[..., None] * found).sum(1) + 1 - weight.sum(1, keepdim=True)
        total = ((found - truth).square() + 1e-6).sqrt().mean()
        for wide_edges, wide in before:
            total = total + bounded(edges, weight.detach(), wide_edges, wide)
        middle = (edges[:, 1:] + edges[:, :-1]) / 2
        apart = (middle[:, :, None] - middle[:, None]).abs()
        both = (weight * (apart @ weight[..., None])[..., 0]).sum(-1).mean()
        return total + 0.01 * (both + (weight.square() * edges.diff()).sum(-1).mean() / 3)

    return fit(model, loss, None, optimizer, clip=1e-1)
