"""Programs of a third set that no constant was fitted to: tables, molecules, meshes, play."""

import torch
from third_pictures import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


def mlp(*widths, act=nn.SiLU, last=False):
    layers = []
    for i, o in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(i, o), act()]
    return nn.Sequential(*(layers if last else layers[:-1]))


class Splines(nn.Module):
    """Every edge a curve of its own: cubic splines on a grid, added up."""

    def __init__(self, inside, outside, grid=8):
        super().__init__()
        self.base, self.curves = nn.Linear(inside, outside), nn.Linear(inside * (grid + 3), outside)
        self.register_buffer("knots", torch.linspace(-2.0, 2.0, grid + 7))

    def forward(self, x):
        u, knots = x[..., None], self.knots
        b = ((u >= knots[:-1]) & (u < knots[1:])).to(x.dtype)
        for k in range(1, 4):
            left = (u - knots[: -(k + 1)]) / (knots[k:-1] - knots[: -(k + 1)])
            right = (knots[k + 1 :] - u) / (knots[k + 1 :] - knots[1:-k])
            b = left * b[..., :-1] + right * b[..., 1:]
        return self.base(F.silu(x)) + self.curves(b.flatten(1))


def curves_on_edges():
    """A network of splines on 16,384 rows, float32."""
    model = nn.Sequential(Splines(64, 256), Splines(256, 256), Splines(256, 1)).cuda()
    x, y = torch.randn(16384, 64, device="cuda"), torch.randn(16384, 1, device="cuda")
    return fit(model, lambda: F.mse_loss(model(x), y), None)


def weights_from_a_network():
    """A network writes another's weights, one for each of 64 tasks of 4,096 points, float32."""
    sizes = (2, 128, 128, 128, 3)
    shapes = list(zip(sizes, sizes[1:], strict=False))
    count = sum(i * o + o for i, o in shapes)
    writer = mlp(256, 1024, 1024, count).cuda()
    task, at = torch.randn(64, 256, device="cuda"), torch.rand(64, 4096, 2, device="cuda")
    y = torch.rand(64, 4096, 3, device="cuda")

    def loss():
        flat, h, begin = writer(task), at, 0
        for n, (i, o) in enumerate(shapes):
            w = flat[:, begin : begin + i * o].view(64, i, o)
            b = flat[:, begin + i * o : begin + i * o + o].view(64, 1, o)
            h, begin = torch.baddbmm(b, h, w), begin + i * o + o
            h = torch.sin(h) if n < 3 else h
        return F.mse_loss(h, y)

    return fit(writer, loss, None)


class Turning(nn.Module):
    """Messages of numbers and of arrows between neighbours."""

    def __init__(self, width):
        super().__init__()
        self.width = width
        self.send, self.by = mlp(width, width, 3 * width), nn.Linear(20, 3 * width)
        self.u, self.v = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.update = mlp(2 * width, width, 3 * width)

    def forward(self, s, v, source, target, basis, arrow):
        m = self.send(s)[source] * self.by(basis)
        a, b, c = m.chunk(3, -1)
        s = s.index_add(0, target, a)
        dv = b[:, None] * v[source] + c[:, None] * arrow[..., None]
        v = v.index_add(0, target, dv)
        u, w = self.u(v), self.v(v)
        a, b, c = self.update(torch.cat([s, w.norm(dim=1)], -1)).chunk(3, -1)
        return s + a + b * (u * w).sum(1), v + c[:, None] * u


def arrows_in_molecules():
    """Energies from numbers and arrows on 8,192 atoms with 24 neighbours, float32."""
    atoms, edges, width = 8192, 8192 * 24, 128
    kinds, layers = nn.Embedding(100, width), nn.ModuleList(Turning(width) for _ in range(3))
    out = mlp(width, 64, 1)
    model = nn.ModuleList([kinds, layers, out]).cuda()
    kind = torch.randint(0, 100, (atoms,), device="cuda")
    source, target = torch.randint(0, atoms, (2, edges), device="cuda")
    place, truth = torch.randn(atoms, 3, device="cuda"), torch.randn(256, device="cuda")
    molecule = torch.arange(atoms, device="cuda") // 32
    waves = torch.arange(1, 21, device="cuda")

    def loss():
        apart = place[source] - place[target]
        far = apart.norm(dim=-1, keepdim=True) + 1e-3
        basis = torch.sin(far * waves * 0.6) / far
        s, v = kinds(kind), torch.zeros(atoms, 3, width, device="cuda")
        for layer in layers:
            s, v = layer(s, v, source, target, basis, apart / far)
        energy = torch.zeros(256, device="cuda").index_add(0, molecule, out(s)[:, 0])
        return F.l1_loss(energy, truth)

    return fit(model, loss, None)


class AlongRows(nn.Module):
    """Attention along the rows of a square of pairs, biased by the third side; or its columns."""

    def __init__(self, width, heads, columns):
        super().__init__()
        self.heads, self.columns = heads, columns
        self.norm, self.bias = nn.LayerNorm(width), nn.Linear(width, heads, bias=False)
        self.qkv, self.gate = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, z):
        z = z.transpose(0, 1) if self.columns else z
        h = self.norm(z)
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        bias = self.bias(h).permute(2, 0, 1)[None].expand(h.shape[0], -1, -1, -1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.contiguous())
        y = self.out(self.gate(h).sigmoid() * y.transpose(1, 2).flatten(2))
        return y.transpose(0, 1) if self.columns else y


def sides_of_triangles():
    """Pairs of 256 residues attend along rows and columns, four blocks, bfloat16."""
    width = 128
    blocks = nn.ModuleList(
        nn.ModuleList([
            AlongRows(width, 4, False), AlongRows(width, 4, True),
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 512), nn.ReLU(), nn.Linear(512, width)),
        ])
        for _ in range(4)
    )  # fmt: skip
    out = nn.Linear(width, 64)
    model = nn.ModuleList([blocks, out]).cuda()
    z0 = torch.randn(256, 256, width, device="cuda")
    bins = torch.randint(0, 64, (256 * 256,), device="cuda")

    def loss():
        z = z0
        for rows, columns, feed in blocks:
            z = z + rows(z)
            z = z + columns(z)
            z = z + feed(z)
        return F.cross_entropy(out(z + z.transpose(0, 1)).flatten(0, 1).float(), bins)

    return fit(model, loss)


def crossed_columns():
    """Columns of a shop crossed with each other, 32,768 rows of 26 words and 13 numbers, TF32."""
    tables = nn.ModuleList(nn.EmbeddingBag(200_000, 32, mode="sum") for _ in range(26))
    width = 26 * 32 + 13
    crosses = nn.ModuleList(
        nn.Sequential(nn.Linear(width, 128, bias=False), nn.Linear(128, width)) for _ in range(3)
    )
    deep = mlp(width, 1024, 512, 1, act=nn.ReLU)
    model = nn.ModuleList([tables, crosses, deep]).cuda()
    words = torch.randint(0, 200_000, (26, 32768, 1), device="cuda")
    numbers, y = torch.randn(32768, 13, device="cuda"), torch.rand(32768, device="cuda").round()
    torch.backends.cuda.matmul.allow_tf32 = True

    def loss():
        x0 = torch.cat([t(w) for t, w in zip(tables, words, strict=True)] + [numbers], 1)
        x = x0
        for cross in crosses:
            x = x0 * cross(x) + x
        return F.binary_cross_entropy_with_logits(deep(x)[:, 0], y)

    return fit(model, loss, None)


def columns_as_words():
    """A table's columns as words of a transformer, 2,048 rows of 100 columns, bfloat16."""
    scale, shift = nn.Parameter(torch.randn(100, 192)), nn.Parameter(torch.zeros(100, 192))
    layer = {"dim_feedforward": 512, "batch_first": True, "norm_first": True, "dropout": 0.1}
    body = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(192, 8, **layer), 4, enable_nested_tensor=False
    )
    head, first = nn.Linear(192, 1), nn.Parameter(torch.zeros(1, 1, 192))
    model = nn.ModuleList([body, head, nn.ParameterList([scale, shift, first])]).cuda().train()
    x, y = torch.randn(2048, 100, device="cuda"), torch.randn(2048, device="cuda")

    def loss():
        a, b, c = model[2]
        h = torch.cat([c.expand(2048, -1, -1), x[..., None] * a + b], 1)
        return F.mse_loss(head(F.relu(body(h)[:, 0]))[:, 0].float(), y)

    return fit(model, loss)


def what_comes_next_in_the_shop():
    """Histories of 200 things, a thousand others drawn for each place; 256 shoppers, bfloat16."""
    things, width = 500_000, 256
    table, places = nn.Embedding(things, width), nn.Embedding(200, width)
    layer = {"dim_feedforward": 1024, "batch_first": True, "norm_first": True, "dropout": 0.0}
    blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, **layer) for _ in range(4))
    model = nn.ModuleList([table, places, blocks]).cuda().train()
    seen = torch.randint(0, things, (256, 201), device="cuda")
    mask = nn.Transformer.generate_square_subsequent_mask(200, device="cuda")

    def loss():
        h = table(seen[:, :-1]) + places.weight
        for block in blocks:
            h = block(h, src_mask=mask.to(h.dtype), is_causal=True)
        others = table(torch.randint(0, things, (1000,), device="cuda"))
        right = (h * table(seen[:, 1:])).sum(-1, keepdim=True)
        logits = torch.cat([right, h @ others.T.to(h.dtype)], -1).float()
        return -logits.log_softmax(-1)[..., 0].mean()

    return fit(model, loss)


def winds_over_a_mesh():
    """Messages over a mesh of 40,000 points and 240,000 edges, four rounds, bfloat16."""
    points, edges, width = 40_000, 240_000, 256

    class Round(nn.Module):
        def __init__(self):
            super().__init__()
            self.edge, self.node = mlp(3 * width, width, width), mlp(2 * width, width, width)
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

        def forward(self, h, e, source, target):
            e = e + self.norms[0](self.edge(torch.cat([e, h[source], h[target]], -1))).to(e.dtype)
            met = torch.zeros_like(h).index_add(0, target, e.to(h.dtype))
            return h + self.norms[1](self.node(torch.cat([h, met], -1))).to(h.dtype), e

    enter, along, leave = mlp(80, width, width), mlp(4, width, width), mlp(width, width, 80)
    rounds = nn.ModuleList(Round() for _ in range(4))
    model = nn.ModuleList([enter, along, leave, rounds]).cuda()
    x, y = torch.randn(2, points, 80, device="cuda")
    source, target = torch.randint(0, points, (2, edges), device="cuda")
    sides = torch.randn(edges, 4, device="cuda")

    def loss():
        h, e = enter(x), along(sides)
        for each in rounds:
            h, e = each(h, e, source, target)
        return F.mse_loss((x + leave(h)).float(), y)

    return fit(model, loss)


def attention_of_neighbours():
    """Each edge of a graph weighed by a softmax over its target's, 50,000 points, float32."""
    points, edges = 50_000, 500_000
    layers = nn.ModuleList(
        nn.ModuleDict({"w": nn.Linear(i, 4 * 64, bias=False), "a": nn.Linear(64, 2, bias=False)})
        for i in (128, 256)
    )
    out = nn.Linear(256, 40)
    model = nn.ModuleList([layers, out]).cuda()
    x, y = torch.randn(points, 128, device="cuda"), torch.randint(0, 40, (points,), device="cuda")
    source, target = torch.randint(0, points, (2, edges), device="cuda")
    at = target[:, None].expand(-1, 4)

    def loss():
        h = x
        for layer in layers:
            h = layer["w"](h).view(-1, 4, 64)
            left, right = layer["a"](h).unbind(-1)
            score = F.leaky_relu(left[source] + right[target], 0.2)
            most = torch.full((points, 4), -1e9, device="cuda")
            most = most.scatter_reduce(0, at, score.detach(), "amax")
            weight = (score - most[target]).exp()
            total = torch.zeros(points, 4, device="cuda").scatter_add(0, at, weight)
            weight = weight / (total[target] + 1e-9)
            made = torch.zeros(points, 4, 64, device="cuda")
            h = F.elu(made.index_add(0, target, weight[..., None] * h[source]).flatten(1))
        return F.cross_entropy(out(h), y)

    return fit(model, loss, None)


def soft_critics():
    """An actor and ten critics at once, batches of 4,096 moves, float32."""

    def many(i, o):
        return nn.Parameter(torch.randn(10, i, o) * 0.05), nn.Parameter(torch.zeros(10, 1, o))

    sizes = ((48, 512), (512, 512), (512, 1))
    weights = nn.ParameterList([p for i, o in sizes for p in many(i, o)]).cuda()
    actor = mlp(40, 512, 512, 16, act=nn.ReLU).cuda()
    slow = [p.detach().clone() for p in weights]
    model = nn.ModuleList([actor, weights])
    s, after = torch.randn(2, 4096, 40, device="cuda")
    a, reward = torch.rand(4096, 8, device="cuda"), torch.randn(4096, 1, device="cuda")

    def judged(ws, state, move):
        h = torch.cat([state, move], -1).expand(10, -1, -1)
        for n in range(0, 6, 2):
            h = torch.baddbmm(ws[n + 1], h, ws[n])
            h = F.relu(h) if n < 4 else h
        return h

    def acted(state):
        mean, spread = actor(state).chunk(2, -1)
        drawn = mean + torch.randn_like(mean) * spread.clamp(-5, 2).exp()
        told = -0.5 * ((drawn - mean) / spread.exp()).square() - spread
        return torch.tanh(drawn), told.sum(-1, keepdim=True)

    def loss():
        with torch.no_grad():
            move, told = acted(after)
            wanted = reward + 0.99 * (judged(slow, after, move).min(0).values - 0.2 * told)
            for p, q in zip(slow, weights, strict=True):
                p.lerp_(q, 0.005)
        critics = F.mse_loss(judged(weights, s, a), wanted.expand(10, -1, -1))
        move, told = acted(s)
        return critics + (0.2 * told - judged(list(weights), s, move).mean(0)).mean()

    return fit(model, loss, None)


def surface_of_a_solid():
    """A surface as the zero of a network whose slope has length one, 65,536 points, float32."""
    model = mlp(3, 256, 256, 256, 256, 1, act=nn.Softplus).cuda()
    on = torch.rand(32768, 3, device="cuda")

    def loss():
        free = torch.rand(32768, 3, device="cuda", requires_grad=True)
        value = model(free)
        (slope,) = torch.autograd.grad(value.sum(), free, create_graph=True)
        return model(on).abs().mean() + 0.1 * (slope.norm(dim=-1) - 1).square().mean()

    return fit(model, loss, None)


def clouds_that_flow():
    """Sets of points moved from noise by attention to a few learned ones; 64 of 2,048, bfloat16."""
    width, heads = 256, 8

    class Among(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)
            self.out, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
            self.feed = mlp(width, 4 * width, width, act=nn.GELU)

        def forward(self, x, y):
            q = self.q(x).unflatten(-1, (heads, -1)).transpose(1, 2)
            k, v = self.kv(y).unflatten(-1, (2, heads, -1)).permute(2, 0, 3, 1, 4)
            h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = x + self.out(h)
            return x + self.feed(self.norm(x))

    blocks = nn.ModuleList(nn.ModuleList([Among(), Among()]) for _ in range(6))
    few = nn.Parameter(torch.randn(6, 32, width))
    enter, leave = nn.Linear(4, width), nn.Linear(width, 3)
    model = nn.ModuleList([blocks, enter, leave, nn.ParameterList([few])]).cuda()
    cloud = torch.randn(64, 2048, 3, device="cuda")

    def loss():
        noise, t = torch.randn_like(cloud), torch.rand(64, 1, 1, device="cuda")
        at = (1 - t) * noise + t * cloud
        h = enter(torch.cat([at, t.expand(-1, 2048, 1)], -1))
        for n, (gather, spread) in enumerate(blocks):
            met = gather(model[3][0][n].expand(64, -1, -1).to(h.dtype), h)
            h = spread(h, met)
        return F.mse_loss(leave(h).float(), cloud - noise)

    return fit(model, loss)
