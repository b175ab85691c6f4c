"""Programs of a second set that no constant was fitted to: images, volumes, generation."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from unseen_images import conv_norm


def _fit(model, loss_of, optimizer=None, dtype=torch.bfloat16):
    """A step of training; under autocast where a type is named."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = loss_of()
        loss.backward()
        optimizer.step()

    return step


def style_by_optimisation():
    """An image of 768 x 768 moved until a plain network's Gram matrices match; float32."""
    widths, blocks, inside = ((64, 2), (128, 2), (256, 4), (512, 4)), nn.ModuleList(), 3
    for width, depth in widths:
        layers = []
        for _ in range(depth):
            layers += [nn.Conv2d(inside, width, 3, padding=1), nn.ReLU()]
            inside = width
        blocks.append(nn.Sequential(*layers))
    blocks = blocks.cuda().requires_grad_(False)

    def features(x):
        found = []
        for block in blocks:
            x = block(x)
            found.append(x)
            x = F.avg_pool2d(x, 2)
        return found

    def gram(x):
        flat = x.flatten(2)
        return flat @ flat.transpose(1, 2) / flat[0].numel()

    style, content = (torch.rand(1, 3, 768, 768, device="cuda") for _ in range(2))
    wanted = [gram(x) for x in features(style)]
    kept = features(content)[2]
    image = content.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([image], lr=0.02)

    def step():
        optimizer.zero_grad()
        found = features(image)
        loss = F.mse_loss(found[2], kept)
        for x, y in zip(found, wanted, strict=True):
            loss = loss + 1e4 * F.mse_loss(gram(x), y)
        loss.backward()
        optimizer.step()

    return step


class Hourglass(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.here, self.down, self.after = (self.block(width) for _ in range(3))
        self.inner = Hourglass(depth - 1, width) if depth > 1 else self.block(width)

    @staticmethod
    def block(width):
        return nn.Sequential(
            conv_norm(width, width // 2, 1), conv_norm(width // 2, width // 2),
            conv_norm(width // 2, width, 1),
        )  # fmt: skip

    def forward(self, x):
        low = F.max_pool2d(x, 2)
        low = low + self.down(low)
        low = self.after(self.inner(low))
        return x + self.here(x) + F.interpolate(low, scale_factor=2, mode="nearest")


def hourglass():
    """Heat maps of joints from 256 x 256, two hourglasses, bfloat16, channels first."""
    first = nn.Sequential(conv_norm(3, 64, 7, 2), conv_norm(64, 256, 3, 2)).cuda()
    parts = nn.ModuleList(Hourglass(4, 256) for _ in range(2)).cuda()
    heads = nn.ModuleList(nn.Conv2d(256, 16, 1) for _ in range(2)).cuda()
    model = nn.ModuleList([first, parts, heads])
    x = torch.randn(32, 3, 256, 256, device="cuda")
    y = torch.rand(32, 16, 64, 64, device="cuda")

    def loss():
        h, total = first(x), 0.0
        for part, head in zip(parts, heads, strict=True):
            h = part(h)
            total = total + F.mse_loss(head(h), y)
        return total

    return _fit(model, loss, torch.optim.RMSprop(model.parameters(), lr=2.5e-4))


class Inception(nn.Module):
    def __init__(self, inside, a, b, c, d):
        super().__init__()
        self.one = conv_norm(inside, a, 1)
        self.three = nn.Sequential(conv_norm(inside, b // 2, 1), conv_norm(b // 2, b))
        self.five = nn.Sequential(conv_norm(inside, c // 2, 1), conv_norm(c // 2, c, 5))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv_norm(inside, d, 1))

    def forward(self, x):
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1)


def inception():
    """Branches of several widths joined, 128 images of 224, bfloat16, channels last."""
    model = nn.Sequential(
        conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), conv_norm(64, 192), nn.MaxPool2d(3, 2, 1),
        Inception(192, 64, 128, 32, 32), Inception(256, 128, 192, 96, 64), nn.MaxPool2d(3, 2, 1),
        Inception(480, 192, 208, 48, 64), Inception(512, 160, 224, 64, 64),
        Inception(512, 256, 320, 128, 128), nn.MaxPool2d(3, 2, 1), Inception(832, 384, 384, 128, 128),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.4), nn.Linear(1024, 1000),
    ).cuda().to(memory_format=torch.channels_last)  # fmt: skip
    x = torch.randn(128, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (128,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return _fit(model, lambda: F.cross_entropy(model(x), y), optimizer)


class Shuffled(nn.Module):
    def __init__(self, width):
        super().__init__()
        half = width // 2
        self.body = nn.Sequential(
            conv_norm(half, half, 1), conv_norm(half, half, groups=half, act=None),
            conv_norm(half, half, 1),
        )  # fmt: skip

    def forward(self, x):
        left, right = x.chunk(2, 1)
        x = torch.cat([left, self.body(right)], 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shuffled_channels():
    """Split, depth-wise, shuffled: 256 images of 128 x 128, float16 with a scaler."""
    model = nn.Sequential(
        conv_norm(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1), conv_norm(24, 116, 1),
        *[Shuffled(116) for _ in range(3)], conv_norm(116, 232, 3, 2),
        *[Shuffled(232) for _ in range(6)], nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(232, 1000),
    ).cuda()  # fmt: skip
    x = torch.randn(256, 3, 128, 128, device="cuda")
    y = torch.randint(0, 1000, (256,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


class Grouped(nn.Module):
    def __init__(self, inside, width, stride, group):
        super().__init__()
        self.a, self.c = conv_norm(inside, width, 1), conv_norm(width, width, 1, act=None)
        self.b = conv_norm(width, width, 3, stride, groups=width // group)
        same = stride == 1 and inside == width
        self.skip = nn.Identity() if same else conv_norm(inside, width, 1, stride, act=None)

    def forward(self, x):
        return F.relu(self.skip(x) + self.c(self.b(self.a(x))))


def grouped_convolutions():
    """A regular network of grouped convolutions, 64 images of 224, float32 (TensorFloat-32)."""
    layers, inside = [conv_norm(3, 32, 3, 2)], 32
    for width, depth in ((96, 2), (192, 4), (432, 6), (1008, 2)):
        for n in range(depth):
            layers.append(Grouped(inside, width, 2 if n == 0 else 1, 48))
            inside = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1008, 1000))
    model = model.cuda()
    x = torch.randn(64, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (64,), device="cuda")
    return _fit(model, lambda: F.cross_entropy(model(x), y), dtype=None)


class Plus(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.body(x)


def patch_convolutions():
    """Wide depth-wise kernels over patches, 64 images of 224, bfloat16."""
    width = 512
    blocks = []
    for _ in range(8):
        mix = Plus(
            nn.Conv2d(width, width, 9, groups=width, padding=4), nn.GELU(), nn.BatchNorm2d(width)
        )
        blocks += [mix, nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width)]
    model = nn.Sequential(
        nn.Conv2d(3, width, 7, 7), nn.GELU(), nn.BatchNorm2d(width), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000),
    ).cuda()  # fmt: skip
    x = torch.randn(64, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (64,), device="cuda")
    return _fit(model, lambda: F.cross_entropy(model(x), y))


class CrossStage(nn.Module):
    def __init__(self, inside, width, depth):
        super().__init__()
        self.one, self.two = (conv_norm(inside, width // 2, 1, act=nn.SiLU) for _ in range(2))
        self.body = nn.Sequential(
            *[Plus(conv_norm(width // 2, width // 2, act=nn.SiLU)) for _ in range(depth)]
        )
        self.join = conv_norm(width, width, 1, act=nn.SiLU)

    def forward(self, x):
        return self.join(torch.cat([self.body(self.one(x)), self.two(x)], 1))


def boxes_without_anchors():
    """Distances to the sides of a box at three scales, 16 images of 640, bfloat16, channels last."""
    silu = nn.SiLU
    stages = nn.ModuleList([
        nn.Sequential(conv_norm(3, 32, 3, 2, act=silu), conv_norm(32, 64, 3, 2, act=silu), CrossStage(64, 64, 1)),
        nn.Sequential(conv_norm(64, 128, 3, 2, act=silu), CrossStage(128, 128, 2)),
        nn.Sequential(conv_norm(128, 256, 3, 2, act=silu), CrossStage(256, 256, 2)),
        nn.Sequential(conv_norm(256, 512, 3, 2, act=silu), CrossStage(512, 512, 1)),
    ])  # fmt: skip
    up = nn.ModuleList([CrossStage(768, 256, 1), CrossStage(384, 128, 1)])
    heads = nn.ModuleList(nn.Conv2d(c, 84, 1) for c in (128, 256, 512))
    model = nn.ModuleList([stages, up, heads]).cuda().to(memory_format=torch.channels_last)
    x = torch.randn(16, 3, 640, 640, device="cuda").to(memory_format=torch.channels_last)
    wanted = [torch.rand(16, 84, s, s, device="cuda") for s in (80, 40, 20)]

    def loss():
        h, found = x, []
        for stage in stages:
            h = stage(h)
            found.append(h)
        _, small, middle, large = found
        middle = up[0](torch.cat([middle, F.interpolate(large, scale_factor=2.0)], 1))
        small = up[1](torch.cat([small, F.interpolate(middle, scale_factor=2.0)], 1))
        total = 0.0
        for head, part, y in zip(heads, (small, middle, large), wanted, strict=True):
            out = head(part)
            total = total + F.binary_cross_entropy_with_logits(out[:, :80], y[:, :80])
            total = total + F.smooth_l1_loss(out[:, 80:].exp(), y[:, 80:])
        return total

    return _fit(
        model, loss, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    )


def masked_patches():
    """Three quarters of the patches hidden and painted again, 128 images, bfloat16."""
    width, small, patches, kept = 768, 512, 196, 49
    layer = {
        "dim_feedforward": 3072,
        "dropout": 0.0,
        "activation": "gelu",
        "batch_first": True,
        "norm_first": True,
    }
    light = {**layer, "dim_feedforward": 2048}
    cut = nn.Conv2d(3, width, 16, 16)
    encoder = nn.ModuleList(nn.TransformerEncoderLayer(width, 12, **layer) for _ in range(8))
    decoder = nn.ModuleList(nn.TransformerEncoderLayer(small, 16, **light) for _ in range(4))
    between, out = nn.Linear(width, small), nn.Linear(small, 768)
    model = nn.ModuleList([cut, encoder, decoder, between, out]).cuda().train()
    hidden = nn.Parameter(torch.zeros(1, 1, small, device="cuda"))
    place = torch.randn(1, patches, width, device="cuda")
    place_out = torch.randn(1, patches, small, device="cuda")
    x = torch.randn(128, 3, 224, 224, device="cuda")

    def loss():
        h = cut(x).flatten(2).transpose(1, 2) + place
        order = torch.rand(128, patches, device="cuda").argsort(1)
        back = order.argsort(1)
        h = h.gather(1, order[:, :kept, None].expand(-1, -1, width))
        for block in encoder:
            h = block(h)
        h = between(h)
        h = torch.cat([h, hidden.to(h.dtype).expand(128, patches - kept, -1)], 1)
        h = h.gather(1, back[:, :, None].expand(-1, -1, small)) + place_out
        for block in decoder:
            h = block(h)
        y = F.unfold(x, 16, stride=16).transpose(1, 2)
        y = (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True) + 1e-6).sqrt()
        mask = (back >= kept).float()
        return (((out(h) - y) ** 2).mean(-1) * mask).sum() / mask.sum()

    optimizer = torch.optim.AdamW([*model.parameters(), hidden], lr=1e-4, betas=(0.9, 0.95))
    return _fit(model, loss, optimizer)


def cross_correlation():
    """Two views whose features are to be alike and not redundant; 256 images of 96, bfloat16."""
    trunk = nn.Sequential(
        conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1),
        *[Plus(conv_norm(64, 64), conv_norm(64, 64)) for _ in range(2)], conv_norm(64, 256, 3, 2),
        *[Plus(conv_norm(256, 256), conv_norm(256, 256)) for _ in range(4)],
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip
    head = nn.Sequential(
        nn.Linear(256, 4096, bias=False), nn.BatchNorm1d(4096), nn.ReLU(),
        nn.Linear(4096, 4096, bias=False), nn.BatchNorm1d(4096, affine=False),
    )  # fmt: skip
    model = nn.Sequential(trunk, head).cuda()
    one, two = (torch.randn(256, 3, 96, 96, device="cuda") for _ in range(2))

    def loss():
        c = model(one).T @ model(two) / 256
        on = torch.diagonal(c).add(-1).pow(2).sum()
        off = c.pow(2).sum() - torch.diagonal(c).pow(2).sum()
        return on + 0.005 * off

    return _fit(model, loss, torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9))


def volumes():
    """Labels of a volume of 96 x 96 x 96, three-dimensional U-Net, instance norm, bfloat16."""

    def block(inside, outside):
        layers = []
        for a, b in ((inside, outside), (outside, outside)):
            layers += [
                nn.Conv3d(a, b, 3, padding=1),
                nn.InstanceNorm3d(b, affine=True),
                nn.LeakyReLU(0.01),
            ]
        return nn.Sequential(*layers)

    down = nn.ModuleList(block(a, b) for a, b in ((1, 32), (32, 64), (64, 128)))
    middle = block(128, 256)
    grow = nn.ModuleList(
        nn.ConvTranspose3d(a, b, 2, 2) for a, b in ((256, 128), (128, 64), (64, 32))
    )
    up = nn.ModuleList(block(a, b) for a, b in ((256, 128), (128, 64), (64, 32)))
    out = nn.Conv3d(32, 4, 1)
    model = nn.ModuleList([down, middle, grow, up, out]).cuda()
    x = torch.randn(2, 1, 96, 96, 96, device="cuda")
    y = torch.randint(0, 4, (2, 96, 96, 96), device="cuda")

    def loss():
        h, kept = x, []
        for part in down:
            h = part(h)
            kept.append(h)
            h = F.max_pool3d(h, 2)
        h = middle(h)
        for larger, part in zip(grow, up, strict=True):
            h = part(torch.cat([larger(h), kept.pop()], 1))
        logits = out(h)
        p, t = logits.float().softmax(1), F.one_hot(y, 4).permute(0, 4, 1, 2, 3).float()
        dice = 2 * (p * t).sum((2, 3, 4)) / (p + t).sum((2, 3, 4)).clamp(min=1e-5)
        return F.cross_entropy(logits, y) + 1 - dice.mean()

    return _fit(model, loss)


class Painted(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, inside), nn.GroupNorm(32, outside)
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


def codebook_of_patches():
    """An autoencoder whose codes come from a book, against a judge of patches; float32."""
    encoder = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), Painted(64, 64), nn.Conv2d(64, 128, 3, 2, 1), Painted(128, 128),
        nn.Conv2d(128, 256, 3, 2, 1), Painted(256, 256), Painted(256, 256), nn.Conv2d(256, 64, 1),
    ).cuda()  # fmt: skip
    decoder = nn.Sequential(
        nn.Conv2d(64, 256, 3, padding=1), Painted(256, 256), Painted(256, 256), nn.Upsample(scale_factor=2),
        nn.Conv2d(256, 128, 3, padding=1), Painted(128, 128), nn.Upsample(scale_factor=2),
        nn.Conv2d(128, 64, 3, padding=1), Painted(64, 64), nn.GroupNorm(32, 64), nn.SiLU(),
        nn.Conv2d(64, 3, 3, padding=1),
    ).cuda()  # fmt: skip
    judge = nn.Sequential(
        nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), conv_norm(64, 128, 4, 2, act=None),
        nn.LeakyReLU(0.2), nn.Conv2d(128, 1, 4, 1, 1),
    ).cuda()  # fmt: skip
    book = nn.Embedding(1024, 64).cuda()
    opt = torch.optim.Adam(
        [*encoder.parameters(), *decoder.parameters(), *book.parameters()], lr=4e-5
    )
    opt_judge = torch.optim.Adam(judge.parameters(), lr=4e-5)
    x = torch.randn(8, 3, 128, 128, device="cuda")

    def step():
        z = encoder(x)
        flat = z.permute(0, 2, 3, 1).reshape(-1, 64)
        distance = (
            flat.pow(2).sum(1, keepdim=True) - 2 * flat @ book.weight.T + book.weight.pow(2).sum(1)
        )
        code = book(distance.argmin(1)).view(8, 32, 32, 64).permute(0, 3, 1, 2)
        commit = F.mse_loss(z, code.detach()) + F.mse_loss(code, z.detach())
        painted = decoder(z + (code - z).detach())
        opt.zero_grad()
        (F.l1_loss(painted, x) + commit - 0.1 * judge(painted).mean()).backward()
        opt.step()
        opt_judge.zero_grad()
        (F.relu(1 - judge(x)).mean() + F.relu(1 + judge(painted.detach())).mean()).backward()
        opt_judge.step()

    return step


class Joint(nn.Module):
    """Attention over text and image together, each with weights of its own."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.shift = nn.ModuleList(nn.Linear(width, 6 * width) for _ in range(2))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(2))
        self.scale = nn.Parameter(torch.ones(2, width // heads))

    def forward(self, parts, c):
        shifts = [s(F.silu(c))[:, None].chunk(6, -1) for s in self.shift]
        qkv = []
        for n, x in enumerate(parts):
            h = F.layer_norm(x, x.shape[-1:]) * (1 + shifts[n][0]) + shifts[n][1]
            qkv.append(self.qkv[n](h).unflatten(-1, (3, self.heads, -1)))
        q, k, v = torch.cat(qkv, 1).permute(2, 0, 3, 1, 4)
        q, k = (
            F.rms_norm(q, q.shape[-1:]) * self.scale[0],
            F.rms_norm(k, k.shape[-1:]) * self.scale[1],
        )
        h = (
            F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v)
            .transpose(1, 2)
            .flatten(2)
        )
        halves, found = h.split([p.shape[1] for p in parts], 1), []
        for n, x in enumerate(parts):
            x = x + shifts[n][2] * self.out[n](halves[n])
            h = F.layer_norm(x, x.shape[-1:]) * (1 + shifts[n][3]) + shifts[n][4]
            found.append(x + shifts[n][5] * self.down[n](F.gelu(self.up[n](h), approximate="tanh")))
        return found


def joint_text_and_image():
    """Flow matching on latents with text beside them, 16 of 1024 + 128 tokens, bfloat16."""
    width = 1024
    blocks = nn.ModuleList(Joint(width, 16) for _ in range(8))
    first, last, time = nn.Linear(64, width), nn.Linear(width, 64), nn.Linear(256, width)
    model = nn.ModuleList([blocks, first, last, time]).cuda()
    image, text = (
        torch.randn(16, 1024, 64, device="cuda"),
        torch.randn(16, 128, width, device="cuda"),
    )
    steps = torch.exp(-torch.arange(128, device="cuda") / 16)

    def loss():
        t = torch.rand(16, device="cuda")
        noise = torch.randn_like(image)
        mixed = torch.lerp(image, noise, t[:, None, None])
        angles = t[:, None] * 1000 * steps
        c = time(torch.cat([angles.cos(), angles.sin()], 1))
        parts = [first(mixed), text]
        for block in blocks:
            parts = block(parts, c)
        return F.mse_loss(last(parts[0]).float(), noise - image)

    return _fit(model, loss)


def splats():
    """2,048 soft discs laid over each other in depth order, 192 x 192 pixels, float32."""
    count, side = 2048, 192
    place, depth = (torch.rand(count, n, device="cuda").requires_grad_() for n in (2, 1))
    size, colour = (torch.randn(count, n, device="cuda").requires_grad_() for n in (3, 3))
    opacity = torch.zeros(count, device="cuda").requires_grad_()
    line = torch.linspace(0, 1, side, device="cuda")
    pixels = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).view(-1, 2)
    wanted = torch.rand(side * side, 3, device="cuda")
    optimizer = torch.optim.Adam([place, depth, size, colour, opacity], lr=1e-2)

    def step():
        optimizer.zero_grad()
        order = depth[:, 0].argsort()
        a, b, c = size[order].exp().unbind(1)
        d = pixels[None] - place[order][:, None]
        reach = a[:, None] * d[..., 0] ** 2 + b[:, None] * d[..., 1] ** 2
        reach = reach + 0.1 * c[:, None] * d[..., 0] * d[..., 1]
        alpha = opacity[order].sigmoid()[:, None] * torch.exp(-50 * reach)
        left = torch.cumprod(1 - alpha + 1e-6, 0)
        weight = alpha * torch.cat([torch.ones_like(left[:1]), left[:-1]])
        F.l1_loss(weight.T @ colour[order].sigmoid(), wanted).backward()
        optimizer.step()

    return step


def adversarial():
    """Each batch attacked in four steps before it is learnt, 256 images of 32, bfloat16."""
    model = nn.Sequential(
        conv_norm(3, 96), *[Plus(conv_norm(96, 96), conv_norm(96, 96)) for _ in range(2)],
        conv_norm(96, 192, 3, 2), *[Plus(conv_norm(192, 192), conv_norm(192, 192)) for _ in range(2)],
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(192, 10),
    ).cuda()  # fmt: skip
    x, y = torch.rand(256, 3, 32, 32, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def loss(at):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return F.cross_entropy(model(at), y)

    def step():
        moved = x + torch.empty_like(x).uniform_(-0.03, 0.03)
        for _ in range(4):
            moved.requires_grad_(True)
            (slope,) = torch.autograd.grad(loss(moved), moved)
            moved = (moved.detach() + 0.007 * slope.sign()).clamp(x - 0.03, x + 0.03).clamp(0, 1)
        optimizer.zero_grad()
        loss(moved).backward()
        optimizer.step()

    return step


class Pooled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(1, width), nn.GroupNorm(1, width)
        self.up, self.down = nn.Conv2d(width, 4 * width, 1), nn.Conv2d(4 * width, width, 1)
        self.gain = nn.Parameter(torch.full((2, width, 1, 1), 0.1))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.gain[0] * (F.avg_pool2d(h, 3, 1, 1, count_include_pad=False) - h)
        return x + self.gain[1] * self.down(F.gelu(self.up(self.norm2(x))))


def pooling_instead_of_attention():
    """Averages of neighbours mix the tokens, 64 images of 224, bfloat16."""
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, 4, 2), *[Pooled(64) for _ in range(2)], nn.Conv2d(64, 128, 3, 2, 1),
        *[Pooled(128) for _ in range(2)], nn.Conv2d(128, 320, 3, 2, 1),
        *[Pooled(320) for _ in range(4)], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(320, 1000),
    ).cuda()  # fmt: skip
    x = torch.randn(64, 3, 224, 224, device="cuda")
    y = torch.randint(0, 1000, (64,), device="cuda")
    return _fit(model, lambda: F.cross_entropy(model(x), y, label_smoothing=0.1))


def parallel_resolutions():
    """Three resolutions kept side by side and exchanged, 16 images of 256, bfloat16."""
    widths = (48, 96, 192)
    first = nn.Sequential(conv_norm(3, 64, 3, 2), conv_norm(64, 64, 3, 2))
    enter = nn.ModuleList(conv_norm(64, w, 3, 2**n) for n, w in enumerate(widths))
    stages = nn.ModuleList()
    for _ in range(3):
        body = nn.ModuleList(Plus(conv_norm(w, w), conv_norm(w, w)) for w in widths)
        change = nn.ModuleList(
            nn.ModuleList(
                conv_norm(a, b, 3 if i < j else 1, 2 ** max(0, j - i), act=None)
                for i, a in enumerate(widths)
            )
            for j, b in enumerate(widths)
        )
        stages.append(nn.ModuleList([body, change]))
    out = nn.Conv2d(sum(widths), 19, 1)
    model = nn.ModuleList([first, enter, stages, out]).cuda()
    x = torch.randn(16, 3, 256, 256, device="cuda")
    y = torch.randint(0, 19, (16, 64, 64), device="cuda")

    def loss():
        h = first(x)
        parts = [e(h) for e in enter]
        for body, change in stages:
            parts = [b(p) for b, p in zip(body, parts, strict=True)]
            parts = [
                F.relu(sum(
                    F.interpolate(change[j][i](p), parts[j].shape[2:], mode="bilinear") if i > j else change[j][i](p)
                    for i, p in enumerate(parts)
                ))
                for j in range(3)
            ]  # fmt: skip
        large = [F.interpolate(p, parts[0].shape[2:], mode="bilinear") for p in parts]
        return F.cross_entropy(out(torch.cat(large, 1)), y)

    return _fit(model, loss)


def words_in_pictures():
    """A convolved line of text read by two recurrent layers and aligned without labels; float32."""
    trunk = nn.Sequential(
        nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 128, 3, padding=1),
        nn.ReLU(), nn.MaxPool2d(2), conv_norm(128, 256), nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d((2, 1)), conv_norm(256, 512), nn.MaxPool2d((2, 1)), nn.Conv2d(512, 512, (2, 1)),
    )  # fmt: skip
    recurrent = nn.LSTM(512, 256, 2, bidirectional=True)
    model = nn.ModuleList([trunk, recurrent, nn.Linear(512, 80)]).cuda()
    x = torch.randn(128, 1, 32, 256, device="cuda")
    y = torch.randint(1, 80, (128, 20), device="cuda")
    length, wanted = torch.full((128,), 64), torch.full((128,), 20)

    def loss():
        h = trunk(x).squeeze(2).permute(2, 0, 1)
        logits = model[2](recurrent(h)[0]).log_softmax(-1)
        return F.ctc_loss(logits, y, length, wanted)

    return _fit(model, loss, torch.optim.Adadelta(model.parameters()), None)
