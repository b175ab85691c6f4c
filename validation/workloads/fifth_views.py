"""Programs of a fifth set that no constant was fitted to: films, boxes, masks, events."""

import copy

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Block(nn.Module):
    """Attention of all to all and a feed-forward part, normed before."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


def waves(count, width):
    """Sines and cosines of places (1, count, width)."""
    rate = 1e4 ** (-torch.arange(0, width, 2, device="cuda") / width)
    angle = torch.arange(count, device="cuda")[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], -1)[None]


def masked_video(batch=48, frames=16, side=224, width=768, depth=12, narrow=384, shallow=4):
    """Nine tenths of a film's tubes hidden, the rest encoded and all painted again; bfloat16."""
    torch.manual_seed(0)
    across, times = side // 16, frames // 2
    places, pixels = across * across, 3 * 2 * 16 * 16
    kept = max(1, places // 10)
    cut = nn.Conv3d(3, width, (2, 16, 16), (2, 16, 16))
    encoder = nn.Sequential(*(Block(width, width // 64) for _ in range(depth)), nn.LayerNorm(width))
    narrower = nn.Linear(width, narrow, bias=False)
    decoder = nn.Sequential(
        *(Block(narrow, narrow // 64) for _ in range(shallow)), nn.LayerNorm(narrow)
    )
    paint = nn.Linear(narrow, pixels)
    hidden = nn.ParameterList([nn.Parameter(torch.zeros(1, 1, narrow))])
    model = nn.ModuleList([cut, encoder, narrower, decoder, paint, hidden]).cuda()
    where, where_narrow = waves(times * places, width), waves(times * places, narrow)
    film = torch.randint(0, 256, (batch, 3, frames, side, side), device="cuda", dtype=torch.uint8)
    mean = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(3, 1, 1, 1)
    spread = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(3, 1, 1, 1)
    moments = torch.arange(times, device="cuda")[:, None] * places

    def taken(x, index):
        return x.gather(1, index[..., None].expand(-1, -1, x.shape[-1]))

    def loss():
        x = (film.float() / 255 - mean) / spread
        order = torch.rand(batch, places, device="cuda").argsort(1)
        tubes = (order[:, None] + moments).view(batch, times, places)
        seen, lost = tubes[..., :kept].flatten(1), tubes[..., kept:].flatten(1)
        with torch.no_grad():
            parts = x.view(batch, 3, times, 2, across, 16, across, 16)
            parts = parts.permute(0, 2, 4, 6, 3, 5, 7, 1).reshape(batch, times * places, -1, 3)
            parts = (parts - parts.mean(2, keepdim=True)) / (
                parts.var(2, keepdim=True) + 1e-6
            ) ** 0.5
            truth = taken(parts.flatten(2), lost)
        tokens = cut(x).flatten(2).transpose(1, 2) + where
        h = narrower(encoder(taken(tokens, seen)))
        place = where_narrow.expand(batch, -1, -1)
        h = torch.cat([h + taken(place, seen), hidden[0] + taken(place, lost)], 1)
        return F.mse_loss(paint(decoder(h)[:, seen.shape[1] :]).float(), truth)

    return fit(model, loss)


class Lit(nn.Module):
    """Convolution, batch norm and a sigmoid-weighted unit."""

    def __init__(self, inside, outside, kernel=1, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outside, eps=1e-3, momentum=0.03)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)), inplace=True)


class Split(nn.Module):
    """Half of the channels pass through small blocks; all that came between is joined."""

    def __init__(self, inside, outside, count, adds=True):
        super().__init__()
        half = outside // 2
        self.enter, self.leave = Lit(inside, outside), Lit((2 + count) * half, outside)
        self.body = nn.ModuleList(
            nn.Sequential(Lit(half, half, 3), Lit(half, half, 3)) for _ in range(count)
        )
        self.adds = adds

    def forward(self, x):
        parts = list(self.enter(x).chunk(2, 1))
        for block in self.body:
            h = block(parts[-1])
            parts.append(parts[-1] + h if self.adds else h)
        return self.leave(torch.cat(parts, 1))


class Pooled(nn.Module):
    """Three maxima of five by five, one upon the other, joined."""

    def __init__(self, width):
        super().__init__()
        self.enter, self.leave = Lit(width, width // 2), Lit(2 * width, width)

    def forward(self, x):
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.leave(torch.cat(parts, 1))


class OneStage(nn.Module):
    """Features down and up and down again, boxes as distributions of distances at three scales."""

    def __init__(self, width, classes, bins):
        super().__init__()
        w = [width * 2**n for n in range(5)]
        self.stem = nn.Sequential(
            Lit(3, w[0], 3, 2), Lit(w[0], w[1], 3, 2), Split(w[1], w[1], 2),
            Lit(w[1], w[2], 3, 2), Split(w[2], w[2], 4),
        )  # fmt: skip
        self.middle = nn.Sequential(Lit(w[2], w[3], 3, 2), Split(w[3], w[3], 4))
        self.deep = nn.Sequential(Lit(w[3], w[4], 3, 2), Split(w[4], w[4], 2), Pooled(w[4]))
        self.up = nn.ModuleList(
            [Split(w[4] + w[3], w[3], 2, False), Split(w[3] + w[2], w[2], 2, False)]
        )
        self.down = nn.ModuleList([Lit(w[2], w[2], 3, 2), Lit(w[3], w[3], 3, 2)])
        self.join = nn.ModuleList(
            [Split(w[2] + w[3], w[3], 2, False), Split(w[3] + w[4], w[4], 2, False)]
        )

        def head(inside, inner, outside):
            return nn.Sequential(
                Lit(inside, inner, 3), Lit(inner, inner, 3), nn.Conv2d(inner, outside, 1)
            )

        self.boxes = nn.ModuleList(head(w[n], 64, 4 * bins) for n in (2, 3, 4))
        self.names = nn.ModuleList(head(w[n], w[2], classes) for n in (2, 3, 4))

    def forward(self, x):
        a = self.stem(x)
        b = self.middle(a)
        c = self.deep(b)
        b = self.up[0](torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.up[1](torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        b = self.join[0](torch.cat([self.down[0](a), b], 1))
        c = self.join[1](torch.cat([self.down[1](b), c], 1))
        return [
            (f(h).flatten(2), g(h).flatten(2))
            for f, g, h in zip(self.boxes, self.names, (a, b, c), strict=True)
        ]


def one_stage_detection(batch=32, side=640, width=48, classes=80, bins=16, truths=12, best=10):
    """A detector of split stages, places assigned by how well they do; bfloat16, channels last."""
    torch.manual_seed(0)
    model = OneStage(width, classes, bins).cuda().to(memory_format=torch.channels_last)
    slow = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=1e-3, momentum=0.937, weight_decay=5e-4, nesterov=True
    )
    images = torch.rand(batch, 3, side, side, device="cuda").to(memory_format=torch.channels_last)
    corner = torch.rand(batch, truths, 2, device="cuda") * side * 0.7
    boxes = torch.cat([corner, corner + side * 0.25], -1)
    kinds = torch.randint(0, classes, (batch, truths), device="cuda")
    centres, strides = [], []
    for stride in (8, 16, 32):
        at = (torch.arange(side // stride, device="cuda") + 0.5) * stride
        y, x = torch.meshgrid(at, at, indexing="ij")
        centres.append(torch.stack([x, y], -1).view(-1, 2))
        strides.append(torch.full((len(centres[-1]), 1), float(stride), device="cuda"))
    centre, stride = torch.cat(centres), torch.cat(strides)
    steps = torch.arange(bins, device="cuda", dtype=torch.float)

    def shared(a, b):
        low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
        both = (high - low).clamp(min=0).prod(-1)
        each = [(q[..., 2:] - q[..., :2]).clamp(min=0).prod(-1) for q in (a, b)]
        return both / (each[0] + each[1] - both + 1e-7)

    @torch.no_grad()
    def assigned(score, found):
        """For each place the truth it answers for, how well, and whether it answers for any."""
        overlap = shared(boxes[:, :, None], found[:, None])
        chance = score.sigmoid()
        chance = chance.gather(1, kinds[..., None].expand(-1, -1, chance.shape[-1]))
        inside = ((centre > boxes[:, :, None, :2]) & (centre < boxes[:, :, None, 2:])).all(-1)
        fit_of = chance.sqrt() * overlap.pow(6) * inside
        index = fit_of.topk(best, -1).indices
        chosen = torch.zeros_like(fit_of).scatter_(-1, index, 1.0) * inside
        rival = F.one_hot(overlap.argmax(1), truths).transpose(1, 2)
        chosen = torch.where(chosen.sum(1, keepdim=True) > 1, rival, chosen)
        most, top = fit_of.amax(-1, keepdim=True), (overlap * chosen).amax(-1, keepdim=True)
        weight = (fit_of * chosen / (most + 1e-9) * top).amax(1)
        return chosen.argmax(1), weight, chosen.sum(1).clamp(max=1)

    def loss():
        parts = model(images)
        distances, score = (torch.cat(p, 2).float() for p in zip(*parts, strict=True))
        logits = distances.unflatten(1, (4, bins)).permute(0, 3, 1, 2)
        reach = (logits.softmax(-1) @ steps) * stride
        found = torch.cat([centre - reach[..., :2], centre + reach[..., 2:]], -1)
        owner, weight, real = assigned(score, found)
        truth = boxes.gather(1, owner[..., None].expand(-1, -1, 4))
        kind = kinds.gather(1, owner)
        target = F.one_hot(kind, classes) * (weight * real)[..., None]
        total = target.sum().clamp(min=1)
        named = F.binary_cross_entropy_with_logits(score.transpose(1, 2), target, reduction="sum")
        share = weight * real
        boxed = ((1 - shared(found, truth)) * share).sum()
        far = torch.cat([centre - truth[..., :2], truth[..., 2:] - centre], -1) / stride
        far = far.clamp(0, bins - 1.01)
        low = far.long()
        left = F.cross_entropy(logits.flatten(0, 2), low.flatten(), reduction="none")
        right = F.cross_entropy(logits.flatten(0, 2), low.flatten() + 1, reduction="none")
        part = (far - low).flatten()
        edge = (left * (1 - part) + right * part).view_as(far).mean(-1)
        return (7.5 * boxed + 0.5 * named + 1.5 * (edge * share).sum()) / total

    def follow():
        for mine, theirs in zip(slow.parameters(), model.parameters(), strict=True):
            mine.mul_(0.9999).add_(theirs, alpha=1e-4)

    return fit(model, loss, optimizer=optimizer, clip=10.0, after=follow)


class Residual(nn.Module):
    """Two plain convolutions around which the input goes."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside),
            nn.ReLU(), nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside),
        )  # fmt: skip
        same = inside == outside and stride == 1
        self.skip = nn.Identity() if same else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class Asking(nn.Module):
    """Queries look where the last mask was, then at each other."""

    def __init__(self, width, heads):
        super().__init__()
        self.across = nn.MultiheadAttention(width, heads, batch_first=True)
        self.among = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2048), nn.ReLU(), nn.Linear(2048, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x, place, memory, where, hidden):
        seen = self.across(x + place, memory + where, memory, attn_mask=hidden, need_weights=False)[
            0
        ]
        x = self.norms[0](x + seen)
        q = x + place
        x = self.norms[1](x + self.among(q, q, x, need_weights=False)[0])
        return self.norms[2](x + self.mlp(x))


def mask_queries(
    batch=20, side=512, widths=(64, 128, 256, 512), width=256, queries=100, depth=6, classes=133,
    truths=16, points=12544,
):  # fmt: skip
    """Things and stuff as masks that queries ask for, losses at drawn points; float16, scaled."""
    torch.manual_seed(0)
    heads = 8
    stages = nn.ModuleList()
    inside = widths[0]
    for n, w in enumerate(widths):
        stages.append(nn.Sequential(Residual(inside, w, 1 if n == 0 else 2), Residual(w, w, 1)))
        inside = w
    stem = nn.Sequential(
        nn.Conv2d(3, widths[0], 7, 2, 3, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    )  # fmt: skip
    side_ways = nn.ModuleList(nn.Conv2d(w, width, 1) for w in widths)
    smooth = nn.ModuleList(
        nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.GroupNorm(32, width), nn.ReLU()
        )
        for _ in widths
    )
    pixels = nn.Conv2d(width, width, 1)
    asking = nn.ModuleList(Asking(width, heads) for _ in range(depth))
    start, place = nn.Embedding(queries, width), nn.Embedding(queries, width)
    level = nn.Embedding(3, width)
    norm, name = nn.LayerNorm(width), nn.Linear(width, classes + 1)
    mask_of = nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width),
    )  # fmt: skip
    model = nn.ModuleList(
        [stem, stages, side_ways, smooth, pixels, asking, start, place, level, norm, name, mask_of]
    ).cuda()
    image = torch.rand(batch, 3, side, side, device="cuda")
    truth = (torch.rand(batch, truths, side // 4, side // 4, device="cuda") > 0.8).float()
    kinds = torch.randint(0, classes, (batch, truths), device="cuda")
    weight = torch.ones(classes + 1, device="cuda")
    weight[-1] = 0.1

    def said(x, picture, size):
        """Classes, masks, and what the next layer must not look at."""
        x = norm(x)
        masks = torch.einsum("bqc,bchw->bqhw", mask_of(x), picture)
        small = F.interpolate(masks, size, mode="bilinear", align_corners=False)
        hidden = (small.sigmoid().flatten(2) < 0.5).detach()
        hidden = hidden & ~hidden.all(-1, keepdim=True)
        return name(x), masks, hidden[:, None].expand(-1, heads, -1, -1).flatten(0, 1)

    def at_points(masks, where):
        return F.grid_sample(masks, where, align_corners=False)[:, :, 0]

    def compared(classes_of, masks):
        where = 2 * torch.rand(batch, 1, points, 2, device="cuda") - 1
        found, wanted = at_points(masks.float(), where), at_points(truth, where)
        with torch.no_grad():
            chance = classes_of.float().softmax(-1)
            cost = -chance.gather(2, kinds[:, None].expand(-1, queries, -1))
            p = found.sigmoid()
            both = 2 * p @ wanted.mT + 1
            cost = cost + 1 - both / (p.sum(-1)[..., None] + wanted.sum(-1)[:, None] + 1)
            cost = cost + (F.softplus(found).sum(-1)[..., None] - found @ wanted.mT) / points
            owner = cost.argmin(1)
        goal = torch.full((batch, queries), classes, device="cuda").scatter(1, owner, kinds)
        named = F.cross_entropy(classes_of.float().transpose(1, 2), goal, weight)
        mine = found.gather(1, owner[..., None].expand(-1, -1, points))
        p = mine.sigmoid()
        dice = 1 - (2 * (p * wanted).sum(-1) + 1) / (p.sum(-1) + wanted.sum(-1) + 1)
        masked = F.binary_cross_entropy_with_logits(mine, wanted)
        return 2 * named + 5 * masked + 5 * dice.mean()

    def loss():
        h, kept = stem(image), []
        for stage in stages:
            h = stage(h)
            kept.append(h)
        levels, h = [], None
        for n in reversed(range(len(kept))):
            flat = side_ways[n](kept[n])
            h = flat if h is None else flat + F.interpolate(h, flat.shape[-2:], mode="nearest")
            h = smooth[n](h)
            levels.append(h)
        picture = pixels(levels.pop())
        x = start.weight.expand(batch, -1, -1)
        asked = place.weight.expand(batch, -1, -1)
        classes_of, masks, hidden = said(x, picture, levels[0].shape[-2:])
        total = compared(classes_of, masks)
        for n, layer in enumerate(asking):
            memory = levels[n % 3].flatten(2).transpose(1, 2)
            where = level.weight[n % 3] + waves(memory.shape[1], width)
            x = layer(x, asked, memory, where, hidden)
            classes_of, masks, hidden = said(x, picture, levels[(n + 1) % 3].shape[-2:])
            total = total + compared(classes_of, masks)
        return total

    return fit(model, loss, torch.float16, scaled=True, clip=0.01)
