"""Programs of a sixth set that no constant was fitted to: faces, windows, masks, matches."""

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class FaceBlock(nn.Module):
    """Norm, convolution, norm, a learnt leak, convolution, norm."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inside), nn.Conv2d(inside, outside, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outside), nn.PReLU(outside),
            nn.Conv2d(outside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside),
        )  # fmt: skip
        self.skip = nn.Identity()
        if stride > 1 or inside != outside:
            self.skip = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        return self.body(x) + self.skip(x)


def face_recognition(
    batch=96, side=112, widths=(64, 128, 256, 512), depths=(3, 4, 14, 3), people=93431, parts=2
):
    """Faces told apart by angles with a margin (ArcFace), two batches gathered; float16, scaled."""
    torch.manual_seed(0)
    layers, inside = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)], widths[0]
    layers += [nn.BatchNorm2d(inside), nn.PReLU(inside)]
    for width, depth in zip(widths, depths, strict=True):
        for n in range(depth):
            layers.append(FaceBlock(inside, width, 2 if n == 0 else 1))
            inside = width
    body = nn.Sequential(*layers, nn.BatchNorm2d(inside), nn.Dropout(0.4), nn.Flatten()).cuda()
    small = side // 2 ** len(widths)
    head = nn.Linear(inside * small * small, 512).cuda()
    norm = nn.BatchNorm1d(512, affine=False).cuda()
    centres = nn.Parameter(torch.randn(people, 512, device="cuda") * 0.01)
    learnt = [*body.parameters(), *head.parameters(), centres]
    optimizer = torch.optim.SGD(learnt, lr=0.02, momentum=0.9, weight_decay=5e-4)
    scaler = torch.amp.GradScaler("cuda")
    images = torch.randint(0, 256, (parts, batch, 3, side, side), device="cuda", dtype=torch.uint8)
    who = torch.randint(0, people, (parts, batch), device="cuda")

    def loss_of(image, name):
        with torch.autocast("cuda", dtype=torch.float16):
            h = body((image.float() - 127.5) / 127.5)
        h = norm(head(h.float()))
        with torch.autocast("cuda", dtype=torch.float16):
            cosine = F.linear(F.normalize(h), F.normalize(centres)).float().clamp(-1, 1)
        with torch.no_grad():
            row = torch.arange(len(name), device=name.device)
            mine = torch.arccos(cosine[row, name]) + 0.5
            change = mine.cos() - cosine[row, name]
        cosine = cosine.index_put((row, name), change, accumulate=True)
        return F.cross_entropy(64.0 * cosine, name)

    def step():
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for image, name in zip(images, who, strict=True):
            loss = loss_of(image, name) / parts
            scaler.scale(loss).backward()
            total = total + loss.detach()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(learnt, 5.0)
        scaler.step(optimizer)
        scaler.update()
        return total

    return step


class Inverted(nn.Module):
    """Wide one by one, three by three of each channel alone, channels weighed, narrow again."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        wide = 4 * outside
        self.enter = nn.Sequential(
            nn.BatchNorm2d(inside), nn.Conv2d(inside, wide, 1, bias=False), nn.BatchNorm2d(wide),
            nn.GELU(), nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide), nn.GELU(),
        )  # fmt: skip
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, outside // 4, 1), nn.SiLU(),
            nn.Conv2d(outside // 4, wide, 1), nn.Sigmoid(),
        )  # fmt: skip
        self.leave = nn.Conv2d(wide, outside, 1)
        self.shrink = nn.AvgPool2d(2) if stride > 1 else nn.Identity()
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x):
        h = self.enter(x)
        return self.leave(h * self.weigh(h)) + self.skip(self.shrink(x))


class Partitioned(nn.Module):
    """Attention inside windows, or among the places of a grid; a bias of each distance."""

    def __init__(self, width, size, grid):
        super().__init__()
        self.size, self.grid, self.heads = size, grid, width // 32
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.table = nn.Parameter(torch.zeros((2 * size - 1) ** 2, self.heads))
        at = torch.stack(torch.meshgrid(*[torch.arange(size)] * 2, indexing="ij")).flatten(1)
        away = at[:, :, None] - at[:, None] + size - 1
        self.register_buffer("index", away[0] * (2 * size - 1) + away[1])

    def forward(self, x):
        n, high, wide, c = x.shape
        s = self.size
        if self.grid:
            parts = x.view(n, s, high // s, s, wide // s, c).permute(0, 2, 4, 1, 3, 5)
        else:
            parts = x.view(n, high // s, s, wide // s, s, c).transpose(2, 3)
        h = parts.reshape(-1, s * s, c)
        q, k, v = self.qkv(self.norms[0](h)).chunk(3, -1)
        q, k, v = (z.unflatten(-1, (self.heads, 32)).transpose(1, 2) for z in (q, k, v))
        bias = self.table[self.index.flatten()].view(s * s, s * s, -1).permute(2, 0, 1)
        weight = (q * 32**-0.5) @ k.mT + bias
        h = h + self.out((weight.softmax(-1).to(v.dtype) @ v).transpose(1, 2).flatten(2))
        h = h + self.mlp(self.norms[1](h))
        h = h.view(n, high // s, wide // s, s, s, c)
        order = (0, 3, 1, 4, 2, 5) if self.grid else (0, 1, 3, 2, 4, 5)
        return h.permute(order).reshape(n, high, wide, c)


class Mixed(nn.Module):
    """An inverted block, then attention in windows, then along a grid; channels last."""

    def __init__(self, inside, outside, stride, size):
        super().__init__()
        self.local = Inverted(inside, outside, stride)
        self.attend = nn.Sequential(
            Partitioned(outside, size, False), Partitioned(outside, size, True)
        )

    def forward(self, x):
        return self.attend(self.local(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def windows_and_grids(
    batch=64, side=224, widths=(64, 128, 256, 512), depths=(2, 2, 5, 2), size=7, classes=1000
):
    """Inverted blocks between attention in windows and along grids; channels last, bfloat16."""
    torch.manual_seed(0)
    layers, inside = [], 64
    for width, depth in zip(widths, depths, strict=True):
        for n in range(depth):
            layers.append(Mixed(inside, width, 2 if n == 0 else 1, size))
            inside = width
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.GELU(), nn.Conv2d(64, 64, 3, 1, 1),
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(inside),
        nn.Linear(inside, classes),
    ).cuda()  # fmt: skip
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    x = torch.randn(batch, 3, side, side, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, classes, (batch,), device="cuda")
    blend = torch.distributions.Beta(0.8, 0.8)

    def loss():
        share = float(blend.sample())
        logits = model(x * share + x.flip(0) * (1 - share)).float()
        one = F.cross_entropy(logits, y, label_smoothing=0.1)
        return share * one + (1 - share) * F.cross_entropy(logits, y.flip(0), label_smoothing=0.1)

    return fit(model, loss, optimizer=optimizer, clip=1.0)


class Seeing(nn.Module):
    """Attention of a picture's places, windowed or whole, with biases of both distances."""

    def __init__(self, width, heads, side, window):
        super().__init__()
        self.heads, self.window, self.deep = heads, window, width // heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        size = window or side
        self.rows, self.columns = (
            nn.Parameter(0.02 * torch.randn(2 * size - 1, self.deep)) for _ in range(2)
        )
        at = torch.arange(size)
        self.register_buffer("index", at[:, None] - at + size - 1)

    def attended(self, x):
        n, high, wide, _ = x.shape
        qkv = self.qkv(x).reshape(n, high * wide, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.flatten(1, 2).unbind(0)
        grid = q.reshape(-1, high, wide, self.deep)
        up = torch.einsum("bhwc,hkc->bhwk", grid, self.rows[self.index])
        along = torch.einsum("bhwc,wkc->bhwk", grid, self.columns[self.index])
        bias = (up[..., None] + along[..., None, :]).reshape(n, self.heads, *[high * wide] * 2)
        q, k, v = (z.unflatten(0, (n, self.heads)) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(y.transpose(1, 2).reshape(n, high, wide, -1))

    def forward(self, x):
        h, w = self.norms[0](x), self.window
        if w:
            n, side = h.shape[0], h.shape[1]
            more = -side % w
            h = F.pad(h, (0, 0, 0, more, 0, more))
            m = (side + more) // w
            parts = h.view(n, m, w, m, w, -1).transpose(2, 3).reshape(-1, w, w, h.shape[-1])
            h = self.attended(parts).view(n, m, m, w, w, -1).transpose(2, 3)
            h = h.reshape(n, m * w, m * w, -1)[:, :side, :side]
        else:
            h = self.attended(h)
        x = x + h
        return x + self.mlp(self.norms[1](x))


class Asked(nn.Module):
    """Points and places look at each other in turn."""

    def __init__(self, width):
        super().__init__()
        self.own, self.across, self.back = (
            nn.MultiheadAttention(width, 8, batch_first=True) for _ in range(3)
        )
        self.mlp = nn.Sequential(nn.Linear(width, 2048), nn.ReLU(), nn.Linear(2048, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))

    def forward(self, points, places, first, where):
        def look(f, q, k, v):
            return f(q, k, v, need_weights=False)[0]

        q = points + first
        points = self.norms[0](points + look(self.own, q, q, points))
        points = self.norms[1](points + look(self.across, points + first, places + where, places))
        points = self.norms[2](points + self.mlp(points))
        q = points + first
        return points, self.norms[3](places + look(self.back, places + where, q, points))


def masks_from_points(batch=2, side=1024, width=768, depth=12, heads=12, points=64, window=14):
    """What lies under each of 64 points of a picture, as three masks; float16, inference."""
    torch.manual_seed(0)
    across, small = side // 16, 256
    with torch.device("cuda"):
        cut = nn.Conv2d(3, width, 16, 16)
        place = nn.Parameter(0.02 * torch.randn(1, across, across, width))
        blocks = nn.Sequential(
            *[Seeing(width, heads, across, 0 if n % 3 == 2 else window) for n in range(depth)]
        )
        neck = nn.Sequential(
            nn.Conv2d(width, small, 1, bias=False), nn.GroupNorm(1, small),
            nn.Conv2d(small, small, 3, padding=1, bias=False), nn.GroupNorm(1, small),
        )  # fmt: skip
        asked = nn.ModuleList(Asked(small) for _ in range(2))
        last, norm = nn.MultiheadAttention(small, 8, batch_first=True), nn.LayerNorm(small)
        tokens = nn.Parameter(0.02 * torch.randn(5, small))
        kind = nn.Parameter(0.02 * torch.randn(2, small))
        grow = nn.Sequential(
            nn.ConvTranspose2d(small, 64, 2, 2), nn.GroupNorm(1, 64), nn.GELU(),
            nn.ConvTranspose2d(64, 32, 2, 2), nn.GELU(),
        )  # fmt: skip
        paint = nn.ModuleList(
            nn.Sequential(nn.Linear(small, small), nn.ReLU(), nn.Linear(small, 32))
            for _ in range(4)
        )
        quality = nn.Sequential(nn.Linear(small, small), nn.ReLU(), nn.Linear(small, 4))
        waves = torch.randn(2, small // 2)
        picture = torch.rand(batch, 3, side, side, dtype=torch.float16)
        at = torch.rand(batch, points, 2)
    parts = [cut, blocks, neck, asked, last, norm, grow, paint, quality]
    nn.ModuleList(parts).half().eval()
    place, tokens, kind = (p.detach().half() for p in (place, tokens, kind))

    def placed(where):
        angle = 2 * torch.pi * ((2 * where - 1) @ waves)
        return torch.cat([angle.sin(), angle.cos()], -1).half()

    @torch.no_grad()
    def step():
        x = cut((picture - 0.45) / 0.225).permute(0, 2, 3, 1) + place
        h = neck(blocks(x).permute(0, 3, 1, 2))
        line = (torch.arange(across, device=at.device) + 0.5) / across
        grid = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)
        where = placed(grid).flatten(0, 1)[None]
        places = h.flatten(2).transpose(1, 2).repeat_interleave(points, 0)
        asks = torch.stack(
            [placed(at.flatten(0, 1)) + kind[1], kind[:1].expand(batch * points, -1)], 1
        )
        first = torch.cat([tokens.expand(len(asks), -1, -1), asks], 1)
        x = first
        for block in asked:
            x, places = block(x, places, first, where)
        x = norm(x + last(x + first, places + where, places, need_weights=False)[0])
        large = grow(places.transpose(1, 2).unflatten(2, (across, across)))
        filters = torch.stack([f(x[:, n + 1]) for n, f in enumerate(paint)], 1)
        masks = (filters @ large.flatten(2)).unflatten(2, large.shape[-2:])[:, 1:]
        good = quality(x[:, 0])[:, 1:]
        sure = (masks > 1).sum((-1, -2)) / (masks > -1).sum((-1, -2)).clamp(min=1)
        best = masks.gather(1, good.argmax(1)[:, None, None, None].expand(-1, 1, *masks.shape[2:]))
        return good.amax(1), sure.amax(1), (best > 0).sum((1, 2, 3))

    return step


class Linear(nn.Module):
    """Attention by products of features, of one picture or across two."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.mlp = nn.Sequential(
            nn.Linear(2 * width, 2 * width, bias=False), nn.ReLU(),
            nn.Linear(2 * width, width, bias=False),
        )  # fmt: skip
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x, other):
        q, k, v = self.q(x), self.k(other), self.v(other)
        q, k, v = (z.unflatten(-1, (self.heads, -1)) for z in (q, k, v))
        q, k, count = F.elu(q) + 1, F.elu(k) + 1, v.shape[1]
        kept = torch.einsum("nshd,nshv->nhdv", k, v / count)
        share = 1 / (torch.einsum("nlhd,nhd->nlh", q, k.sum(1)) + 1e-6)
        h = torch.einsum("nlhd,nhdv,nlh->nlhv", q, kept, share) * count
        h = self.norms[0](self.out(h.flatten(2)))
        return x + self.norms[1](self.mlp(torch.cat([x, h], 2)))


class Plain(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.one = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outside) for _ in range(2))
        self.skip = None
        if stride > 1:
            self.skip = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        h = self.norms[1](self.two(F.relu(self.norms[0](self.one(x)))))
        return F.relu(h + (x if self.skip is None else self.skip(x)))


def matched_pictures(batch=4, high=480, wide=640, widths=(128, 196, 256), depth=4, chosen=2048):
    """Places of two pictures matched, coarsely then finely, without a detector; TF32, inference."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    a, b, c = widths
    with torch.device("cuda"):
        stem = nn.Sequential(nn.Conv2d(1, a, 7, 2, 3, bias=False), nn.BatchNorm2d(a), nn.ReLU())
        down = nn.ModuleList(
            nn.Sequential(Plain(i, o, s), Plain(o, o, 1))
            for i, o, s in ((a, a, 1), (a, b, 2), (b, c, 2))
        )
        sides = nn.ModuleList(nn.Conv2d(w, o, 1, bias=False) for w, o in ((c, c), (b, c), (a, b)))
        smooth = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(i, i, 3, padding=1, bias=False), nn.BatchNorm2d(i), nn.LeakyReLU(),
                nn.Conv2d(i, o, 3, padding=1, bias=False),
            )
            for i, o in ((c, b), (b, a))
        )  # fmt: skip
        coarse = nn.ModuleList(Linear(c, 8) for _ in range(2 * depth))
        fine = nn.ModuleList(Linear(a, 8) for _ in range(2))
        down_to, merge = nn.Linear(c, a), nn.Linear(2 * a, a)
        pictures = torch.rand(2, batch, 1, high, wide)
        where = 0.1 * torch.randn(1, c, high // 8, wide // 8)
    nn.ModuleList([stem, down, sides, smooth, coarse, fine, down_to, merge]).eval()

    def features(x):
        x1 = down[0](stem(x))
        x2 = down[1](x1)
        x3 = sides[0](down[2](x2))
        up = F.interpolate(x3, scale_factor=2.0, mode="bilinear", align_corners=True)
        x2 = smooth[0](sides[1](x2) + up)
        up = F.interpolate(x2, scale_factor=2.0, mode="bilinear", align_corners=True)
        return x3, smooth[1](sides[2](x1) + up)

    def exchanged(layers, x, y):
        for n, layer in enumerate(layers):
            if n % 2 == 0:
                x, y = layer(x, x), layer(y, y)
            else:
                x, y = layer(x, y), layer(y, x)
        return x, y

    def cut(h, rows, index):
        parts = F.unfold(h, 5, stride=4, padding=2).unflatten(1, (-1, 25)).permute(0, 3, 2, 1)
        return parts[rows, index]

    @torch.no_grad()
    def step():
        far, near = features(pictures.flatten(0, 1))
        x, y = ((h + where).flatten(2).transpose(1, 2) for h in far.chunk(2))
        x, y = exchanged(coarse, x, y)
        scores = torch.einsum("nlc,nsc->nls", x / c**0.5, y / c**0.5) / 0.1
        sure = scores.softmax(1) * scores.softmax(2)
        both = (sure == sure.amax(2, keepdim=True)) & (sure == sure.amax(1, keepdim=True))
        best, to = (sure * both).max(2)
        best, index = best.flatten().topk(chosen)
        rows, one, two = index // x.shape[1], index % x.shape[1], to.flatten()[index]
        parts = [cut(h, rows, at) for h, at in zip(near.chunk(2), (one, two), strict=True)]
        context = down_to(torch.cat([x[rows, one], y[rows, two]]))
        parts = merge(torch.cat([torch.cat(parts), context[:, None].expand(-1, 25, -1)], -1))
        u, v = exchanged(fine, *parts.chunk(2))
        heat = (torch.einsum("mc,mrc->mr", u[:, 12], v) / a**0.5).softmax(1)
        line = torch.linspace(-1, 1, 5, device=heat.device)
        grid = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1).view(-1, 2)
        moved = heat @ grid
        spread = (heat @ grid.square() - moved.square()).clamp(min=1e-10).sqrt().sum(1)
        return best, moved, spread

    return step
