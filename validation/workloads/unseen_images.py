"""Programs of kinds that no constant was fitted to: images, video, generation of images."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


def conv_norm(inside, outside, kernel=3, stride=1, groups=1, dilation=1, act=nn.ReLU):
    """Convolution, batch norm and activation, as most networks of images repeat them."""
    padding = dilation * (kernel // 2)
    layers = [
        nn.Conv2d(inside, outside, kernel, stride, padding, dilation, groups, bias=False),
        nn.BatchNorm2d(outside),
    ]
    return nn.Sequential(*layers, *((act(),) if act else ()))


class DiffusionBlock(nn.Module):
    def __init__(self, inside, outside, time_width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inside), nn.GroupNorm(8, outside)
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.time = nn.Linear(time_width, outside)
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class DiffusionNet(nn.Module):
    def __init__(self, widths=(64, 128, 256)):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(64, 256), nn.SiLU(), nn.Linear(256, 256))
        self.first = nn.Conv2d(3, widths[0], 3, padding=1)
        pairs = list(zip((widths[0], *widths), widths, strict=False))
        self.down = nn.ModuleList(DiffusionBlock(a, b, 256) for a, b in pairs)
        self.middle = DiffusionBlock(widths[-1], widths[-1], 256)
        self.up = nn.ModuleList(DiffusionBlock(b + b, a, 256) for a, b in reversed(pairs))
        self.last = nn.Sequential(nn.GroupNorm(8, widths[0]), nn.SiLU())
        self.out = nn.Conv2d(widths[0], 3, 3, padding=1)

    def forward(self, x, t):
        angles = t[:, None] * torch.exp(-0.3 * torch.arange(32, device=t.device))
        t = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        x, kept = self.first(x), []
        for block in self.down:
            x = block(x, t)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x, t)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block(torch.cat([x, kept.pop()], 1), t)
        return self.out(self.last(x))


def ddpm():
    """A step of training a denoiser on images of 64 x 64, with an averaged copy of its weights."""
    model, average = DiffusionNet().cuda().train(), DiffusionNet().cuda().eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    images = torch.randn(64, 3, 64, 64, device="cuda")
    level = torch.linspace(1, 0.01, 1000, device="cuda")

    def step():
        t = torch.randint(0, 1000, (64,), device="cuda")
        noise, kept = torch.randn_like(images), level[t][:, None, None, None]
        noisy = kept.sqrt() * images + (1 - kept).sqrt() * noise
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.mse_loss(model(noisy, t.float()), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(average.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.001)

    return step


def dcgan():
    """Discriminator and generator in turn, 64 x 64, float32."""
    make, judge = [], []
    widths = (100, 512, 256, 128, 64)
    for n, (a, b) in enumerate(zip(widths, widths[1:], strict=False)):
        stride, pad = (1, 0) if n == 0 else (2, 1)
        make += [nn.ConvTranspose2d(a, b, 4, stride, pad, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    generator = nn.Sequential(*make, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()).cuda()
    for a, b in ((3, 64), (64, 128), (128, 256), (256, 512)):
        norm = [nn.BatchNorm2d(b)] if a > 3 else []
        judge += [nn.Conv2d(a, b, 4, 2, 1, bias=False), *norm, nn.LeakyReLU(0.2)]
    critic = nn.Sequential(*judge, nn.Conv2d(512, 1, 4)).cuda()
    opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    real = torch.randn(128, 3, 64, 64, device="cuda")
    yes, no = torch.ones(128, device="cuda"), torch.zeros(128, device="cuda")
    loss = nn.BCEWithLogitsLoss()

    def step():
        fake = generator(torch.randn(128, 100, 1, 1, device="cuda"))
        opt_d.zero_grad()
        whole = loss(critic(real).flatten(), yes) + loss(critic(fake.detach()).flatten(), no)
        whole.backward()
        opt_d.step()
        opt_g.zero_grad()
        loss(critic(fake).flatten(), yes).backward()
        opt_g.step()

    return step


class Segmenter(nn.Module):
    """A dilated trunk, pyramid of dilations, bilinear enlargement."""

    def __init__(self, classes=21):
        super().__init__()
        self.trunk = nn.Sequential(
            conv_norm(3, 64, 7, 2), conv_norm(64, 128, 3, 2), conv_norm(128, 256, 3, 2),
            *[conv_norm(256, 256, dilation=2) for _ in range(4)], conv_norm(256, 512, dilation=4),
        )  # fmt: skip
        self.pyramid = nn.ModuleList(conv_norm(512, 128, 3, dilation=d) for d in (1, 6, 12))
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(512, 128, 1), nn.ReLU())
        self.join = conv_norm(512, 128, 1)
        self.out = nn.Sequential(nn.Dropout(0.1), nn.Conv2d(128, classes, 1))

    def forward(self, x):
        h = self.trunk(x)
        parts = [branch(h) for branch in self.pyramid]
        parts.append(self.pool(h).expand(-1, -1, *h.shape[2:]))
        h = self.out(self.join(torch.cat(parts, 1)))
        return F.interpolate(h, x.shape[2:], mode="bilinear", align_corners=False)


def segmentation():
    """Labels of every pixel of 320 x 320, float16 with a loss scaler, SGD."""
    model = Segmenter().cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler("cuda")
    x = torch.randn(12, 3, 320, 320, device="cuda")
    y = torch.randint(0, 21, (12, 320, 320), device="cuda")

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y, ignore_index=20)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


class Inverted(nn.Module):
    def __init__(self, width, outside, stride):
        super().__init__()
        inner = width * 6
        self.body = nn.Sequential(
            conv_norm(width, inner, 1, act=nn.Hardswish),
            conv_norm(inner, inner, 5, stride, groups=inner, act=nn.Hardswish),
            conv_norm(inner, outside, 1, act=None),
        )
        self.same = stride == 1 and width == outside

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


def mobile():
    """Inverted residuals with depthwise convolutions, float32, channels last, batch 64."""
    widths = ((24, 24, 1), (24, 40, 2), (40, 40, 1), (40, 80, 2), (80, 80, 1), (80, 160, 2))
    blocks = [Inverted(a, b, s) for a, b, s in widths]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(160, 1000)]
    model = nn.Sequential(conv_norm(3, 24, 3, 2, act=nn.Hardswish), *blocks, *head)
    model = model.cuda().to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(64, 3, 192, 192, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (64,), device="cuda")

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y, label_smoothing=0.1).backward()
        optimizer.step()

    return step


class Factored(nn.Module):
    """A convolution in space, then one in time."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        middle = (inside * outside * 27) // (9 * inside + 3 * outside)
        self.space = nn.Conv3d(
            inside, middle, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False
        )
        self.time = nn.Conv3d(middle, outside, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False)
        self.norm1, self.norm2 = nn.BatchNorm3d(middle), nn.BatchNorm3d(outside)

    def forward(self, x):
        return F.relu(self.norm2(self.time(F.relu(self.norm1(self.space(x))))))


def video():
    """Clips of 16 frames of 112 x 112, convolutions in space and time, bfloat16 autocast."""
    widths = ((3, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1))
    body = nn.Sequential(*[Factored(*w) for w in widths], nn.AdaptiveAvgPool3d(1), nn.Flatten())
    model = nn.Sequential(body, nn.Linear(256, 400)).cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(8, 3, 16, 112, 112, device="cuda")
    y = torch.randint(0, 400, (8,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    return step


class Flow(nn.Module):
    """Features of two images, all their products, and a few refinements of the motion."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3), nn.InstanceNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 96, 3, 2, 1), nn.InstanceNorm2d(96), nn.ReLU(),
            nn.Conv2d(96, 128, 3, 2, 1),
        )  # fmt: skip
        self.motion = nn.Conv2d(83, 96, 3, padding=1)
        self.gate, self.new = nn.Conv2d(224, 256, 3, padding=1), nn.Conv2d(224, 128, 3, padding=1)
        self.head = nn.Sequential(
            nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 2, 3, padding=1)
        )

    def forward(self, one, two, steps=6):
        a, b = self.features(one), self.features(two)
        n, c, h, w = a.shape
        volume = torch.einsum("ncp,ncq->npq", a.flatten(2), b.flatten(2)) / c**0.5
        volume = volume.view(n * h * w, 1, h, w)
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack([xs, ys], -1).float().to(a.device).expand(n, h, w, 2)
        near = torch.arange(-4, 5, device=a.device).float()
        window = torch.stack(torch.meshgrid(near, near, indexing="xy"), -1)
        size = torch.tensor([w - 1, h - 1], device=a.device) / 2
        flow, state, said = torch.zeros_like(grid), torch.tanh(a), []
        for _ in range(steps):
            flow = flow.detach()
            at = (grid + flow).reshape(-1, 1, 1, 2) + window
            seen = F.grid_sample(volume, at / size - 1, align_corners=True)
            seen = seen.view(n, h, w, 81).permute(0, 3, 1, 2)
            seen = torch.cat([seen, flow.permute(0, 3, 1, 2)], 1)
            motion = F.relu(self.motion(seen))
            reset, keep = torch.sigmoid(self.gate(torch.cat([state, motion], 1))).chunk(2, 1)
            fresh = torch.tanh(self.new(torch.cat([reset * state, motion], 1)))
            state = (1 - keep) * state + keep * fresh
            flow = flow + self.head(state).permute(0, 2, 3, 1)
            said.append(flow)
        return said


def optical_flow():
    """Motion between two images of 256 x 320, float32, six refinements."""
    model = Flow().cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    one, two = (torch.randn(2, 3, 256, 320, device="cuda") for _ in range(2))
    true = torch.randn(2, 32, 40, 2, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = sum(
            0.8**n * (f - true).abs().mean() for n, f in enumerate(reversed(model(one, two)))
        )
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def superresolution():
    """Residual convolutions and pixel shuffle, float16 inference, channels last."""
    body = [m for _ in range(16) for m in (nn.Conv2d(96, 96, 3, padding=1), nn.ReLU())]
    up = [nn.Conv2d(96, 384, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(96, 3, 3, padding=1)]
    model = nn.Sequential(nn.Conv2d(3, 96, 3, padding=1), *body, *up).cuda().half().eval()
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(4, 3, 360, 480, device="cuda", dtype=torch.float16)
    x = x.to(memory_format=torch.channels_last)

    @torch.no_grad()
    def step():
        return model(x).clamp(0, 1)

    return step


def small_cnn():
    """The first network of a course: two convolutions, batch 4 of 32 x 32, SGD, `loss.item()`."""
    model = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84),
        nn.ReLU(), nn.Linear(84, 10),
    ).cuda()  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    x, y = torch.randn(4, 3, 32, 32, device="cuda"), torch.randint(0, 10, (4,), device="cuda")

    def step():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def contrastive():
    """Two views of 256 images of 32 x 32 through one network, similarities of all pairs."""
    trunk = nn.Sequential(
        conv_norm(3, 64), conv_norm(64, 128, stride=2), conv_norm(128, 128),
        conv_norm(128, 256, stride=2), conv_norm(256, 256), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 128),
    ).cuda().train()  # fmt: skip
    optimizer = torch.optim.Adam(trunk.parameters(), lr=3e-4, weight_decay=1e-4)
    one, two = (torch.randn(256, 3, 32, 32, device="cuda") for _ in range(2))
    labels = torch.arange(512, device="cuda").roll(256)
    own = torch.eye(512, dtype=torch.bool, device="cuda")

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            z = F.normalize(trunk(torch.cat([one, two])), dim=1)
            near = (z @ z.t() / 0.1).masked_fill(own, float("-inf"))
            loss = F.cross_entropy(near, labels)
        loss.backward()
        optimizer.step()

    return step


def detector():
    """Three scales of features, one head on all, focal loss and smooth boxes, float32."""
    trunk = nn.ModuleList([
        nn.Sequential(conv_norm(3, 32, 3, 2), conv_norm(32, 64, 3, 2), conv_norm(64, 128, 3, 2)),
        conv_norm(128, 192, 3, 2, act=nn.SiLU), conv_norm(192, 256, 3, 2, act=nn.SiLU),
    ])  # fmt: skip
    side = nn.ModuleList(nn.Conv2d(w, 128, 1) for w in (128, 192, 256))
    tower = nn.Sequential(*[conv_norm(128, 128, act=nn.SiLU) for _ in range(4)])
    classes, boxes = nn.Conv2d(128, 80, 3, padding=1), nn.Conv2d(128, 4, 3, padding=1)
    model = nn.ModuleList([trunk, side, tower, classes, boxes]).cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    x = torch.randn(16, 3, 416, 416, device="cuda")
    places = sum((416 // s) ** 2 for s in (8, 16, 32))
    kind = (torch.rand(16, places, 80, device="cuda") > 0.99).float()
    where = torch.randn(16, places, 4, device="cuda")

    def step():
        h, maps = x, []
        for stage in trunk:
            h = stage(h)
            maps.append(h)
        low = None
        said, found = [], []
        for conv, level in zip(reversed(side), reversed(maps), strict=True):
            p = conv(level)
            if low is not None:
                p = p + F.interpolate(low, p.shape[2:], mode="nearest")
            low, t = p, tower(p)
            said.append(classes(t).flatten(2).transpose(1, 2))
            found.append(boxes(t).flatten(2).transpose(1, 2))
        logits, box = torch.cat(said, 1), torch.cat(found, 1)
        p = logits.sigmoid()
        every = F.binary_cross_entropy_with_logits(logits, kind, reduction="none")
        focal = (every * (1 - (p * kind + (1 - p) * (1 - kind))) ** 2).sum() / 100
        loss = focal + F.smooth_l1_loss(box, where)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step
