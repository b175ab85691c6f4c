"""Programs of a fourth set that no constant was fitted to: boxes, regions, driving."""

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


def convolved(inside, outside, kernel=3, stride=1, act=nn.ReLU):
    return nn.Sequential(
        nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outside),
        act(),
    )


class Bottleneck(nn.Module):
    def __init__(self, inside, outside, stride=1):
        super().__init__()
        self.body = nn.Sequential(
            convolved(inside, outside // 4, 1),
            convolved(outside // 4, outside // 4, 3, stride),
            convolved(outside // 4, outside, 1, act=nn.Identity),
        )
        same = inside == outside and stride == 1
        self.skip = nn.Identity() if same else convolved(inside, outside, 1, stride, nn.Identity)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class Deformable(nn.Module):
    """Each query looks at a few places of every level, found by itself."""

    def __init__(self, width, heads=8, levels=3, points=4):
        super().__init__()
        self.shape = heads, levels, points
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.where = nn.Linear(width, heads * levels * points * 2)
        self.weight = nn.Linear(width, heads * levels * points)

    def forward(self, query, places, memory, sizes):
        (n, q, _), (heads, levels, points) = query.shape, self.shape
        value = self.value(memory).unflatten(-1, (heads, -1)).split([h * w for h, w in sizes], 1)
        offset = self.where(query).view(n, q, heads, levels, points, 2)
        weight = self.weight(query).view(n, q, heads, -1).softmax(-1)
        weight = weight.view(n, q, heads, levels, points)
        total = 0
        for at, (h, w) in enumerate(sizes):
            plane = value[at].permute(0, 2, 3, 1).reshape(n * heads, -1, h, w)
            scale = torch.tensor([w, h], device=query.device, dtype=query.dtype)
            grid = 2 * (places[:, :, None, None] + offset[:, :, :, at] / scale) - 1
            grid = grid.transpose(1, 2).flatten(0, 1)
            seen = F.grid_sample(plane, grid, padding_mode="zeros", align_corners=False)
            share = weight[:, :, :, at].transpose(1, 2).reshape(n * heads, 1, q, points)
            total = total + (seen * share).sum(-1)
        return self.out(total.view(n, -1, q).transpose(1, 2))


class DeformableLayer(nn.Module):
    """Deformable attention and a feed-forward part; of a decoder with attention among queries."""

    def __init__(self, width, decodes):
        super().__init__()
        self.among = nn.MultiheadAttention(width, 8, batch_first=True) if decodes else None
        self.look = Deformable(width)
        self.mlp = nn.Sequential(nn.Linear(width, 1024), nn.ReLU(), nn.Linear(1024, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x, place, places, memory, sizes):
        if self.among is not None:
            q = x + place
            x = self.norms[0](x + self.among(q, q, x, need_weights=False)[0])
        x = self.norms[1](x + self.look(x + place, places, memory, sizes))
        return self.norms[2](x + self.mlp(x))


def deformable_detection(batch=4, side=640, width=256, depth=4, queries=300, truths=20):
    """Boxes from queries that sample three levels of features; float32, TensorFloat-32 filters."""
    torch.manual_seed(0)
    stem = nn.Sequential(convolved(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
    stages, inside = nn.ModuleList(), 64
    for n, outside in enumerate((256, 512, 1024, 2048)):
        rest = [Bottleneck(outside, outside) for _ in range(2)]
        stages.append(nn.Sequential(Bottleneck(inside, outside, 1 if n == 0 else 2), *rest))
        inside = outside
    project = nn.ModuleList(
        nn.Sequential(nn.Conv2d(c, width, 1), nn.GroupNorm(32, width)) for c in (512, 1024, 2048)
    )
    encoder = nn.ModuleList(DeformableLayer(width, False) for _ in range(depth))
    decoder = nn.ModuleList(DeformableLayer(width, True) for _ in range(depth))
    asked, first = nn.Embedding(queries, 2 * width), nn.Linear(width, 2)
    classes, boxes = nn.Linear(width, 91), nn.Linear(width, 4)
    model = nn.ModuleList(
        [stem, stages, project, encoder, decoder, asked, first, classes, boxes]
    ).cuda()
    images = torch.randn(batch, 3, side, side, device="cuda")
    truth, kind = (
        torch.rand(batch, truths, 4, device="cuda"),
        torch.randint(0, 91, (batch, truths), device="cuda"),
    )

    def matched(scores, found):
        """The four best queries of each truth learn it."""
        with torch.no_grad():
            cost = torch.cdist(found, truth, p=1) - scores.sigmoid().gather(
                2, kind[:, None].expand(-1, queries, -1)
            )
            best = cost.topk(4, 1, largest=False).indices.flatten(1)
            target = torch.zeros_like(scores)
            at = torch.arange(batch, device="cuda")[:, None].expand_as(best)
            target[at, best, kind.repeat(1, 4)] = 1.0
        chosen = found.gather(1, best[..., None].expand(-1, -1, 4))
        return F.binary_cross_entropy_with_logits(scores, target) + 5 * F.l1_loss(
            chosen, truth.repeat(1, 4, 1)
        )

    def loss():
        x, maps = stem(images), []
        for stage in stages:
            x = stage(x)
            maps.append(x)
        maps = [p(m) for p, m in zip(project, maps[1:], strict=True)]
        sizes = [tuple(m.shape[-2:]) for m in maps]
        memory = torch.cat([m.flatten(2).transpose(1, 2) for m in maps], 1)
        grids = [
            torch.stack(
                torch.meshgrid(
                    (torch.arange(w, device="cuda") + 0.5) / w,
                    (torch.arange(h, device="cuda") + 0.5) / h,
                    indexing="xy",
                ),
                -1,
            ).flatten(0, 1)
            for h, w in sizes
        ]
        places = torch.cat(grids)[None].expand(batch, -1, -1)
        for layer in encoder:
            memory = layer(memory, 0, places, memory, sizes)
        place, x = asked.weight[None].expand(batch, -1, -1).chunk(2, -1)
        looked, total = first(place).sigmoid(), 0
        for layer in decoder:
            x = layer(x, place, looked, memory, sizes)
            total = total + matched(classes(x), boxes(x).sigmoid())
        return total

    return fit(model, loss, None, clip=0.1)


class FakeQuantized(nn.Conv2d):
    """Filters rounded to 8 bits a channel, what comes in to 8 bits by a moving range."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_buffer("low", torch.zeros(()))
        self.register_buffer("high", torch.ones(()))
        self.register_buffer("zeros", torch.zeros(self.out_channels, dtype=torch.int32))

    def forward(self, x):
        with torch.no_grad():
            low, high = torch.aminmax(x)
            self.low.lerp_(low.clamp(max=0), 0.01)
            self.high.lerp_(high, 0.01)
            scale = ((self.high - self.low) / 255).clamp(min=1e-8)
            zero = (-128 - (self.low / scale).round()).clamp(-128, 127).int()
            steps = self.weight.abs().amax((1, 2, 3)) / 127
        x = torch.fake_quantize_per_tensor_affine(x, scale, zero, -128, 127)
        w = torch.fake_quantize_per_channel_affine(self.weight, steps, self.zeros, 0, -128, 127)
        return F.conv2d(x, w, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Squeezed(nn.Module):
    """Widened, filtered a channel at a time, weighed by its means, narrowed; in 8 bits."""

    def __init__(self, inside, outside, kernel, stride, wider=4):
        super().__init__()
        wide = inside * wider

        def conv(i, o, k=1, s=1, groups=1):
            return FakeQuantized(i, o, k, s, k // 2, groups=groups, bias=False)

        self.body = nn.Sequential(
            conv(inside, wide), nn.BatchNorm2d(wide), nn.Hardswish(),
            conv(wide, wide, kernel, stride, wide), nn.BatchNorm2d(wide), nn.Hardswish(),
        )  # fmt: skip
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, inside // 2, 1), nn.ReLU(),
            nn.Conv2d(inside // 2, wide, 1), nn.Hardsigmoid(),
        )  # fmt: skip
        self.leave = nn.Sequential(conv(wide, outside), nn.BatchNorm2d(outside))
        self.same = inside == outside and stride == 1

    def forward(self, x):
        h = self.body(x)
        h = self.leave(h * self.weigh(h))
        return x + h if self.same else h


def quantisation_aware(batch=96, side=224):
    """A mobile network trained with 8-bit rounding imitated, channels last, float32."""
    torch.manual_seed(0)
    layers, inside = [convolved(3, 24, 3, 2, nn.Hardswish)], 24
    for width, kernel, stride, blocks in (
        (24, 3, 1, 1), (40, 5, 2, 2), (80, 3, 2, 3), (112, 5, 1, 3), (192, 5, 2, 3),
    ):  # fmt: skip
        for n in range(blocks):
            layers.append(Squeezed(inside, width, kernel, stride if n == 0 else 1))
            inside = width
    model = nn.Sequential(
        *layers, convolved(inside, 960, 1, act=nn.Hardswish), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(960, 1000),
    )  # fmt: skip
    model = model.cuda().to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, side, side, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (batch,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=4e-5)
    return fit(model, lambda: F.cross_entropy(model(x), y), None, optimizer)


class Strips(nn.Module):
    """Attention by filters: square, then long and narrow ones in both directions, added up."""

    def __init__(self, width, feed=4):
        super().__init__()

        def strip(*kernel):
            return nn.Conv2d(width, width, kernel, padding="same", groups=width)

        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))
        self.enter, self.leave = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.square = strip(5, 5)
        self.strips = nn.ModuleList(nn.Sequential(strip(1, k), strip(k, 1)) for k in (7, 11, 21))
        self.mix = nn.Conv2d(width, width, 1)
        self.feed = nn.Sequential(
            nn.Conv2d(width, feed * width, 1),
            nn.Conv2d(feed * width, feed * width, 3, padding=1, groups=feed * width),
            nn.GELU(),
            nn.Conv2d(feed * width, width, 1),
        )
        self.scales = nn.Parameter(torch.full((2, width, 1, 1), 0.01))

    def forward(self, x):
        h = F.gelu(self.enter(self.norms[0](x)))
        a = self.square(h)
        a = a + sum(strip(a) for strip in self.strips)
        x = x + self.scales[0] * self.leave(self.mix(a) * h)
        return x + self.scales[1] * self.feed(self.norms[1](x))


def factors(x, count=64, rounds=6):
    """What a product of two non-negative factors keeps of x (n, places, channels)."""
    n, _, c = x.shape
    bases = F.normalize(torch.rand(n, c, count, device=x.device, dtype=x.dtype), dim=1)
    codes = (x @ bases).softmax(-1)
    for _ in range(rounds):
        codes = codes * (x @ bases) / (codes @ (bases.mT @ bases) + 1e-4)
        bases = bases * (x.mT @ codes) / (bases @ (codes.mT @ codes) + 1e-4)
    return codes @ bases.mT


def strip_segmentation(batch=8, side=512, widths=(64, 128, 320, 512), depths=(3, 3, 5, 2)):
    """Labels of pixels by strip filters and a factorising head, channels last, bfloat16."""
    torch.manual_seed(0)
    stages, inside = nn.ModuleList(), 3
    for n, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        enter = [convolved(inside, width, 3, 2)]
        if n == 0:
            enter = [convolved(3, width // 2, 3, 2, nn.GELU), convolved(width // 2, width, 3, 2)]
        stages.append(nn.Sequential(*enter, *[Strips(width, 8 if n < 2 else 4)
                                              for _ in range(depth)]))  # fmt: skip
        inside = width
    squeeze = nn.Sequential(nn.Conv2d(sum(widths[1:]), 256, 1), nn.GroupNorm(32, 256), nn.ReLU())
    back, head = nn.Conv2d(256, 256, 1), nn.Conv2d(256, 150, 1)
    model = nn.ModuleList([stages, squeeze, back, head]).cuda()
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, side, side, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 150, (batch, side, side), device="cuda")

    def loss():
        h, maps = x, []
        for stage in stages:
            h = stage(h)
            maps.append(h)
        size = maps[1].shape[-2:]
        h = squeeze(torch.cat([F.interpolate(m, size, mode="bilinear") for m in maps[1:]], 1))
        flat = F.relu(h).flatten(2).transpose(1, 2).float()
        kept = factors(flat).transpose(1, 2).unflatten(2, size)
        logits = head(F.relu(h + back(kept)))
        return F.cross_entropy(F.interpolate(logits.float(), (side, side), mode="bilinear"), y)

    return fit(model, loss)


class Lifted(nn.Module):
    """Features of six cameras spread over depths and summed into a map of the ground."""

    def __init__(self, width=64, depths=59, ground=200):
        super().__init__()
        self.depths, self.ground, self.width = depths, ground, width
        self.trunk = nn.Sequential(
            convolved(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), Bottleneck(64, 256),
            Bottleneck(256, 512, 2), Bottleneck(512, 512), Bottleneck(512, 512),
            Bottleneck(512, 1024, 2), Bottleneck(1024, 1024), Bottleneck(1024, 1024),
        )  # fmt: skip
        self.spread = nn.Conv2d(1024, depths + width, 1)
        self.enter = nn.Sequential(convolved(width, 128, 7, 2), Bottleneck(128, 128))
        self.deep = nn.Sequential(Bottleneck(128, 256, 2), Bottleneck(256, 256))
        self.leave = nn.Sequential(
            convolved(384, 128),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            convolved(128, 64),
            nn.Conv2d(64, 4, 1),
        )

    def forward(self, images, inverse, shift):
        n = images.shape[0]
        depth, context = self.spread(self.trunk(images.flatten(0, 1))).split(
            [self.depths, self.width], 1
        )
        h, w = depth.shape[-2:]
        points = depth.softmax(1)[:, :, None] * context[:, None]  # camera, depth, feature, h, w
        line = torch.stack(
            torch.meshgrid(
                torch.linspace(4, 63, self.depths, device=images.device),
                torch.linspace(0, 1, h, device=images.device),
                torch.linspace(0, 1, w, device=images.device),
                indexing="ij",
            ),
            -1,
        )
        ray = torch.stack([line[..., 2], line[..., 1], torch.ones_like(line[..., 0])], -1)
        ray = ray * line[..., :1]
        place = torch.einsum("ncij,dhwj->ncdhwi", inverse, ray) + shift[:, :, None, None, None]
        cell = ((place[..., :2] + 50) / 100 * self.ground).long()
        kept = ((cell >= 0) & (cell < self.ground)).all(-1)
        cell = cell.clamp(0, self.ground - 1)
        at = cell[..., 0] * self.ground + cell[..., 1]
        at = at + torch.arange(n, device=at.device)[:, None, None, None, None] * self.ground**2
        points = points.permute(0, 1, 3, 4, 2).flatten(0, 3) * kept.flatten()[:, None]
        flat = points.new_zeros(n * self.ground**2, self.width).index_add(0, at.flatten(), points)
        x = flat.view(n, self.ground, self.ground, -1).permute(0, 3, 1, 2)
        x = self.enter(x)
        deep = F.interpolate(self.deep(x), size=x.shape[-2:], mode="bilinear")
        return self.leave(torch.cat([deep, x], 1))


def cameras_to_ground(batch=4, cameras=6, height=256, width=704, ground=200):
    """Vehicles on a map from six cameras lifted and splatted; float16 with a scaler."""
    torch.manual_seed(0)
    model = Lifted(ground=ground).cuda()
    images = torch.randn(batch, cameras, 3, height, width, device="cuda")
    inside = torch.eye(3, device="cuda") + 0.1 * torch.randn(batch, cameras, 3, 3, device="cuda")
    shift = torch.randn(batch, cameras, 3, device="cuda")
    truth = (torch.rand(batch, 4, ground, ground, device="cuda") > 0.9).float()

    def loss():
        made = model(images, torch.linalg.inv(inside), shift)
        weight = torch.full((4, 1, 1), 2.13, device="cuda")
        return F.binary_cross_entropy_with_logits(made.float(), truth, pos_weight=weight)

    return fit(model, loss, torch.float16, scaled=True, clip=5.0)
