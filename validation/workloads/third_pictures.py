"""Programs of a third set that no constant was fitted to: pictures."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

HALF = torch.bfloat16


def fit(model, loss_of, dtype=HALF, **settings):
    """A step of training by AdamW; under autocast where a type is named."""
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=1e-4, **settings
    )

    def step():
        with torch.autocast("cuda", dtype=dtype or HALF, enabled=dtype is not None):
            loss = loss_of()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


class Mixer(nn.Module):
    """Products over places, then over channels."""

    def __init__(self, places, width):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.over_places = nn.Sequential(
            nn.Linear(places, 2 * places), nn.GELU(), nn.Linear(2 * places, places)
        )
        self.over_channels = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.over_places(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_channels(self.norms[1](x))


def mixed_patches():
    """A mixer of products alone, 128 pictures of 224, bfloat16."""
    cut = nn.Conv2d(3, 768, 16, 16)
    body = nn.Sequential(*[Mixer(196, 768) for _ in range(12)], nn.LayerNorm(768))
    head = nn.Linear(768, 1000)
    model = nn.ModuleList([cut, body, head]).cuda()
    x = torch.randn(128, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (128,), device="cuda")

    def loss():
        h = body(cut(x).flatten(2).transpose(1, 2))
        return F.cross_entropy(head(h.mean(1)), y, label_smoothing=0.1)

    return fit(model, loss)


class Residual(nn.Module):
    def __init__(self, inside, outside, timed=0):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, inside), nn.GroupNorm(32, outside)
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.time = nn.Linear(timed, outside) if timed else None
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x, t=None):
        h = self.conv1(F.silu(self.norm1(x)))
        if self.time is not None:
            h = h + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class Reader(nn.Module):
    """Pixels that read a text."""

    def __init__(self, width, text):
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.q, self.kv = nn.Linear(width, width), nn.Linear(text, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, text):
        b, c, h, w = x.shape
        flat = self.norm(x).flatten(2).transpose(1, 2)
        q = self.q(flat).unflatten(-1, (8, -1)).transpose(1, 2)
        k, v = self.kv(text).unflatten(-1, (2, 8, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(y).transpose(1, 2).reshape(b, c, h, w)


class Denoiser(nn.Module):
    """Down and up again, with what comes from a branch beside it added on the way up."""

    def __init__(self, widths=(192, 384, 768), text=768):
        super().__init__()
        self.first, self.time = nn.Conv2d(4, widths[0], 3, padding=1), nn.Linear(256, 512)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        inside = widths[0]
        for width in widths:
            self.down.append(
                nn.ModuleList(
                    [
                        Residual(inside, width, 512),
                        Reader(width, text),
                        nn.Conv2d(width, width, 3, 2, 1),
                    ]
                )
            )
            inside = width
        self.middle = Residual(inside, inside, 512)
        for width in reversed(widths):
            self.up.append(
                nn.ModuleList([Residual(inside + width, width, 512), Reader(width, text)])
            )
            inside = width
        self.last = nn.Conv2d(inside, 4, 3, padding=1)

    def encoded(self, x, t, text, hint=None):
        t, kept = self.time(t), []
        h = self.first(x) if hint is None else self.first(x) + hint
        for block, reader, shrink in self.down:
            h = reader(block(h, t), text)
            kept.append(h)
            h = shrink(h)
        return self.middle(h, t), kept, t

    def forward(self, x, t, text, added=None):
        h, kept, t = self.encoded(x, t, text)
        if added is not None:
            h, kept = h + added[0], [k + a for k, a in zip(kept, added[1], strict=True)]
        for (block, reader), skip in zip(self.up, reversed(kept), strict=True):
            h = F.interpolate(h, scale_factor=2, mode="nearest")
            h = reader(block(torch.cat([h, skip], 1), t), text)
        return self.last(h)


def branch_beside_a_denoiser():
    """A branch learns to steer a frozen denoiser of latents, 16 of 64 x 64, bfloat16."""
    import copy

    main = Denoiser().cuda().requires_grad_(False)
    side = copy.deepcopy(main).requires_grad_(True)
    hint = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.SiLU(), nn.Conv2d(32, 96, 3, 2, 1), nn.SiLU(),
        nn.Conv2d(96, 192, 3, 2, 1),
    ).cuda()  # fmt: skip
    zeros = nn.ModuleList(nn.Conv2d(w, w, 1) for w in (192, 384, 768, 768)).cuda()
    model = nn.ModuleList([side, hint, zeros])
    x, text = torch.randn(16, 4, 64, 64, device="cuda"), torch.randn(16, 77, 768, device="cuda")
    edges, steps = torch.rand(16, 3, 512, 512, device="cuda"), torch.randn(16, 256, device="cuda")

    def loss():
        noise = torch.randn_like(x)
        noisy = 0.8 * x + 0.6 * noise
        h, kept, _ = side.encoded(noisy, steps, text, hint(edges))
        added = zeros[3](h), [z(k) for z, k in zip(zeros, kept, strict=False)]
        return F.mse_loss(main(noisy, steps, text, added).float(), noise)

    return fit(model, loss)


def _stage(inside, outside, blocks, stride):
    layers = []
    for n in range(blocks):
        layers += [
            nn.Conv2d(inside, outside, 3, stride if n == 0 else 1, 1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(inplace=True),
        ]
        inside = outside
    return nn.Sequential(*layers)


class Pyramid(nn.Module):
    """Four stages, their maps added from above, and heads that all levels share."""

    def __init__(self, classes=80, anchors=9):
        super().__init__()
        widths = (64, 128, 256, 512)
        self.stages = nn.ModuleList(
            _stage(i, o, 3, 2) for i, o in zip((32, *widths), widths, strict=False)
        )
        self.stem = _stage(3, 32, 1, 2)
        self.lateral = nn.ModuleList(nn.Conv2d(w, 256, 1) for w in widths[1:])
        self.smooth = nn.ModuleList(nn.Conv2d(256, 256, 3, padding=1) for _ in widths[1:])

        def head(out):
            layers = [m for _ in range(4) for m in (nn.Conv2d(256, 256, 3, padding=1), nn.ReLU())]
            return nn.Sequential(*layers, nn.Conv2d(256, out, 3, padding=1))

        self.classes, self.boxes = head(classes * anchors), head(4 * anchors)

    def forward(self, x):
        x, maps = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        above, levels = None, []
        for at in (2, 1, 0):
            here = self.lateral[at](maps[at + 1])
            above = here if above is None else here + F.interpolate(above, size=here.shape[-2:])
            levels.append(self.smooth[at](above))
        flat = [(self.classes(m).flatten(1), self.boxes(m).flatten(1)) for m in levels]
        return [torch.cat(parts, 1) for parts in zip(*flat, strict=True)]


def dense_boxes():
    """Boxes and classes at every place of three levels, focal loss, 16 of 512 x 512, channels last."""
    model = Pyramid().cuda().to(memory_format=torch.channels_last)
    x = torch.randn(16, 3, 512, 512, device="cuda").to(memory_format=torch.channels_last)
    places = (64 * 64 + 32 * 32 + 16 * 16) * 9
    truth = (torch.rand(16, places * 80, device="cuda") > 0.999).float()
    boxes = torch.randn(16, places * 4, device="cuda")

    def loss():
        scores, found = model(x)
        plain = F.binary_cross_entropy_with_logits(scores.float(), truth, reduction="none")
        p = scores.float().sigmoid()
        weight = (truth * (1 - p) + (1 - truth) * p).pow(2)
        return (weight * plain).sum() / 100 + F.smooth_l1_loss(found.float(), boxes)

    return fit(model, loss)


def lines_of_writing():
    """Lines read from left to right: convolutions, a two-way LSTM, CTC; 128 of 32 x 256, float32."""
    convs = nn.Sequential(
        _stage(1, 64, 2, 1), nn.MaxPool2d(2), _stage(64, 128, 2, 1), nn.MaxPool2d(2),
        _stage(128, 256, 2, 1), nn.MaxPool2d((2, 1)), _stage(256, 512, 2, 1), nn.MaxPool2d((4, 1)),
    )  # fmt: skip
    reader, out = nn.LSTM(512, 256, 2, bidirectional=True), nn.Linear(512, 96)
    model = nn.ModuleList([convs, reader, out]).cuda()
    x = torch.randn(128, 1, 32, 256, device="cuda")
    y = torch.randint(1, 96, (128, 20), device="cuda")
    lengths = torch.full((128,), 64), torch.full((128,), 20)

    def loss():
        h, _ = reader(convs(x)[:, :, 0].permute(2, 0, 1))
        return F.ctc_loss(out(h).log_softmax(-1), y, *lengths)

    return fit(model, loss, None)


class Modulated(nn.Module):
    """A convolution whose filters a style scales, for every picture its own."""

    def __init__(self, inside, outside, style):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside, 3, 3) * 0.02)
        self.scale, self.bias = nn.Linear(style, inside), nn.Parameter(torch.zeros(outside))

    def forward(self, x, style):
        n, c, h, w = x.shape
        filters = self.weight * (self.scale(style)[:, None, :, None, None] + 1)
        filters = filters * (filters.square().sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()
        x = F.conv2d(x.reshape(1, n * c, h, w), filters.flatten(0, 1), padding=1, groups=n)
        x = x.view(n, -1, h, w)
        return F.leaky_relu(x + self.bias[:, None, None], 0.2)


def faces_of_styles():
    """A generator whose filters hang on the style against a critic, 16 of 128 x 128, TF32 convolutions."""
    widths = (256, 256, 128, 64)
    layers = nn.ModuleList(
        Modulated(i, o, 256) for i, o in zip((256, *widths), widths, strict=False)
    )
    mapping = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(256, 256), nn.ReLU())])
    start, rgb = nn.Parameter(torch.randn(1, 256, 8, 8)), nn.Conv2d(64, 3, 1)
    critic = nn.Sequential(
        *[m for i, o in ((3, 64), (64, 128), (128, 256), (256, 256))
          for m in (nn.Conv2d(i, o, 3, 2, 1), nn.LeakyReLU(0.2))],
        nn.Flatten(), nn.Linear(256 * 8 * 8, 1),
    )  # fmt: skip
    model = nn.ModuleList([layers, mapping, rgb, critic, nn.ParameterList([start])]).cuda()

    def loss():
        style = mapping(torch.randn(16, 256, device="cuda"))
        x = model[4][0].expand(16, -1, -1, -1)
        for layer in layers:
            x = F.interpolate(layer(x, style), scale_factor=2, mode="bilinear", align_corners=False)
        return F.softplus(-critic(rgb(x))).mean()

    return fit(model, loss, None)


def turned_filters():
    """Filters at four angles share weights, 256 pictures of 96, bfloat16."""

    class Turned(nn.Module):
        def __init__(self, inside, outside, first=False):
            super().__init__()
            self.turns = 1 if first else 4
            self.weight = nn.Parameter(torch.randn(outside, inside * self.turns, 3, 3) * 0.05)

        def forward(self, x):
            filters = []
            for n in range(4):
                w = torch.rot90(self.weight, n, (2, 3))
                if self.turns == 4:
                    w = w.unflatten(1, (4, -1)).roll(n, 1).flatten(1, 2)
                filters.append(w)
            return F.conv2d(x, torch.cat(filters, 0), padding=1)

    layers = []
    for n, (i, o) in enumerate(((3, 24), (24, 48), (48, 96), (96, 96))):
        layers += [Turned(i, o, n == 0), nn.BatchNorm2d(4 * o), nn.ReLU(), nn.AvgPool2d(2)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(384, 10)).cuda()
    x = torch.randn(256, 3, 96, 96, device="cuda")
    y = torch.randint(0, 10, (256,), device="cuda")
    return fit(model, lambda: F.cross_entropy(model(x), y))


def distances_from_one_picture():
    """Depth from a transformer's layers, put together again by convolutions; 16 of 384, bfloat16."""
    width = 768
    cut = nn.Conv2d(3, width, 16, 16)
    layer = {"dim_feedforward": 3072, "activation": "gelu", "batch_first": True, "norm_first": True}
    blocks = nn.ModuleList(
        nn.TransformerEncoderLayer(width, 12, dropout=0.0, **layer) for _ in range(12)
    )
    project = nn.ModuleList(nn.Conv2d(width, 256, 1) for _ in range(4))
    fuse = nn.ModuleList(
        nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1),
        )
        for _ in range(4)
    )
    head = nn.Sequential(
        nn.Conv2d(256, 128, 3, padding=1), nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Conv2d(128, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 1, 1), nn.Softplus(),
    )  # fmt: skip
    place = nn.Parameter(torch.zeros(1, 576, width))
    model = nn.ModuleList([cut, blocks, project, fuse, head, nn.ParameterList([place])]).cuda()
    x = torch.randn(16, 3, 384, 384, device="cuda")
    y = torch.rand(16, 1, 192, 192, device="cuda") + 0.5

    def loss():
        h, kept = cut(x).flatten(2).transpose(1, 2) + model[5][0], []
        for n, block in enumerate(blocks):
            h = block(h)
            if n % 3 == 2:
                kept.append(h.transpose(1, 2).unflatten(2, (24, 24)))
        z = None
        for n in (3, 2, 1, 0):
            here = project[n](kept[n])
            here = F.interpolate(here, scale_factor=2 ** (2 - min(n, 2)), mode="bilinear")
            if z is not None:
                here = here + F.interpolate(z, size=here.shape[-2:], mode="bilinear")
            z = here + fuse[n](here)
        apart = torch.log(head(z).float()) - torch.log(y)
        return apart.square().mean() - 0.5 * apart.mean().square()

    return fit(model, loss)


def _features():
    layers, inside = [], 3
    for width in (64, 64, "pool", 128, 128, "pool", 256, 256):
        if width == "pool":
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(inside, width, 3, padding=1), nn.ReLU()]
        inside = width
    return nn.Sequential(*layers)


def sharper_by_features():
    """Pictures made larger; a frozen network judges how they look; 16 of 64 to 256, float16."""
    first, last = nn.Conv2d(3, 64, 3, padding=1), nn.Conv2d(64, 3, 3, padding=1)
    body = nn.ModuleList(
        nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.PReLU(), nn.Conv2d(64, 64, 3, padding=1))
        for _ in range(12)
    )
    up = nn.Sequential(
        *[
            m
            for _ in range(2)
            for m in (nn.Conv2d(64, 256, 3, padding=1), nn.PixelShuffle(2), nn.PReLU())
        ]
    )
    model = nn.ModuleList([first, body, up, last]).cuda()
    judge = _features().cuda().requires_grad_(False)
    small, large = (
        torch.rand(16, 3, 64, 64, device="cuda"),
        torch.rand(16, 3, 256, 256, device="cuda"),
    )

    def loss():
        h = start = first(small)
        for block in body:
            h = h + block(h)
        made = last(up(h + start))
        return F.l1_loss(made, large) + F.l1_loss(judge(made), judge(large))

    return fit(model, loss, torch.float16)
