"""Scientific codes: transforms, stencils, solvers, sampling, particles; no training in them."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from validation.corpus.case import Family, Step

family = Family("scientific")


def cases() -> list:
    return family.cases


@family
def heat_by_a_stencil(device: str) -> Step:
    u = torch.rand(64, 64, device=device)

    def step() -> None:
        for _ in range(10):
            inner = u[1:-1, 1:-1]
            around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
            u[1:-1, 1:-1] = inner + 0.2 * (around - 4 * inner)

    return step


@family
def waves_by_convolution(device: str) -> Step:
    kernel = torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]], device=device)[None, None]
    state = [torch.rand(1, 1, 64, 64, device=device) for _ in range(2)]

    def step() -> None:
        for _ in range(5):
            now, before = state
            state[:] = [2 * now - before + 0.1 * F.conv2d(now, kernel, padding=1), now]

    return step


@family
def advection_by_rolling(device: str) -> Step:
    u = torch.rand(128, 128, device=device)

    def step() -> torch.Tensor:
        v = u
        for _ in range(8):
            v = v - 0.3 * (v - v.roll(1, 0)) - 0.2 * (v - v.roll(1, 1))
        return v.sum()

    return step


@family
def poisson_by_fourier(device: str) -> Step:
    f = torch.randn(64, 64, device=device)
    k = torch.fft.fftfreq(64, device=device) * 64
    square = k[:, None] ** 2 + k[None] ** 2
    square[0, 0] = 1

    return lambda: torch.fft.ifft2(torch.fft.fft2(f) / -square).real


@family
def navier_stokes_spectral(device: str) -> Step:
    w = torch.randn(64, 64, device=device)
    k = torch.fft.fftfreq(64, device=device) * 64
    kx, ky = torch.meshgrid(k, k, indexing="ij")
    square = (kx**2 + ky**2).clamp(min=1)

    def step() -> torch.Tensor:
        h = torch.fft.fft2(w)
        for _ in range(3):
            stream = h / square
            u, v = (torch.fft.ifft2(1j * p * stream).real for p in (ky, -kx))
            wx, wy = (torch.fft.ifft2(1j * p * h).real for p in (kx, ky))
            h = (h - 0.01 * torch.fft.fft2(u * wx + v * wy)) / (1 + 1e-3 * square)
        return torch.fft.ifft2(h).real

    return step


@family
def conjugate_gradients(device: str) -> Step:
    a = torch.randn(64, 64, device=device)
    a = a @ a.t() + 64 * torch.eye(64, device=device)
    b = torch.randn(64, device=device)

    def step() -> torch.Tensor:
        x = torch.zeros_like(b)
        r = p = b - a @ x
        old = r @ r
        for _ in range(10):
            ap = a @ p
            alpha = old / (p @ ap)
            x, r = x + alpha * p, r - alpha * ap
            new = r @ r
            p, old = r + new / old * p, new
        return x

    return step


@family
def conjugate_gradients_until_small(device: str) -> Step:
    a = torch.eye(32, device=device) * 4 + 0.1
    b = torch.ones(32, device=device)

    def step() -> torch.Tensor:
        x, r = torch.zeros_like(b), b.clone()
        for _ in range(20):
            if r.norm() < 1e-6:
                break
            x = x + 0.2 * r
            r = b - a @ x
        return x

    return step


@family
def jacobi_iteration(device: str) -> Step:
    a = torch.rand(64, 64, device=device) + 64 * torch.eye(64, device=device)
    b = torch.rand(64, device=device)

    def step() -> torch.Tensor:
        d = a.diagonal()
        x = torch.zeros_like(b)
        for _ in range(10):
            x = (b - (a @ x - d * x)) / d
        return x

    return step


@family
def power_iteration(device: str) -> Step:
    a = torch.randn(64, 64, device=device)

    def step() -> torch.Tensor:
        v = torch.ones(64, device=device)
        for _ in range(15):
            v = a @ v
            v = v / v.norm()
        return v @ a @ v

    return step


@family
def page_rank(device: str) -> Step:
    links = (torch.rand(64, 64, device=device) < 0.1).float()
    links = links / links.sum(0).clamp(min=1)

    def step() -> torch.Tensor:
        r = torch.full((64,), 1 / 64, device=device)
        for _ in range(10):
            r = 0.85 * links @ r + 0.15 / 64
        return r.topk(5).indices

    return step


def _linear(name: str) -> None:
    def build(device: str) -> Step:
        a = torch.randn(4, 24, 24, device=device)
        sym = a @ a.transpose(-1, -2) + torch.eye(24, device=device)
        b = torch.randn(4, 24, 3, device=device)
        return {
            "cholesky": lambda: torch.linalg.cholesky(sym),
            "cholesky-solve": lambda: torch.cholesky_solve(b, torch.linalg.cholesky(sym)),
            "qr": lambda: torch.linalg.qr(a),
            "svd": lambda: torch.linalg.svd(a),
            "eigh": lambda: torch.linalg.eigh(sym),
            "eigenvalues": lambda: torch.linalg.eigvalsh(sym),
            "solve": lambda: torch.linalg.solve(a, b),
            "lu": lambda: torch.linalg.lu(a),
            "inverse": lambda: torch.linalg.inv(sym),
            "determinant": lambda: torch.linalg.slogdet(sym),
            "least-squares": lambda: torch.linalg.lstsq(a, b).solution,
            "pseudo-inverse": lambda: torch.linalg.pinv(a),
            "matrix-exponential": lambda: torch.linalg.matrix_exp(a / 24),
            "matrix-power": lambda: torch.linalg.matrix_power(a, 5),
            "triangular-solve": lambda: torch.linalg.solve_triangular(sym.tril(), b, upper=False),
            "norms": lambda: [torch.linalg.norm(a, ord=o, dim=(1, 2)) for o in ("fro", 1, "nuc")],
        }[name]  # type: ignore[return-value]

    family.add(f"linear-algebra-{name}", build)


for _name in (
    "cholesky cholesky-solve qr svd eigh eigenvalues solve lu inverse determinant least-squares"
    " pseudo-inverse matrix-exponential matrix-power triangular-solve norms"
).split():
    _linear(_name)


@family
def monte_carlo_pi(device: str) -> Step:
    def step() -> float:
        points = torch.rand(10000, 2, device=device)
        return 4 * (points.pow(2).sum(1) < 1).float().mean().item()

    return step


@family
def black_scholes_by_paths(device: str) -> Step:
    def step() -> torch.Tensor:
        price = torch.full((1000,), 100.0, device=device)
        for _ in range(10):
            price = price * torch.exp(-0.005 + 0.1 * torch.randn(1000, device=device))
        return torch.relu(price - 105).mean()

    return step


@family
def black_scholes_greeks(device: str) -> Step:
    spot = torch.linspace(50, 150, 100, device=device, requires_grad=True)

    def step() -> torch.Tensor:
        d1 = (torch.log(spot / 100) + 0.07) / 0.2
        half = math.sqrt(0.5)
        price = spot * 0.5 * (1 + torch.erf(d1 * half)) - 95 * 0.5 * (
            1 + torch.erf((d1 - 0.2) * half)
        )
        (delta,) = torch.autograd.grad(price.sum(), spot, create_graph=True)
        (gamma,) = torch.autograd.grad(delta.sum(), spot)
        return gamma

    return step


@family
def metropolis(device: str) -> Step:
    x = torch.zeros(256, device=device)

    def step() -> torch.Tensor:
        y = x
        for _ in range(10):
            new = y + 0.5 * torch.randn_like(y)
            take = torch.rand_like(y) < torch.exp(0.5 * (y**2 - new**2))
            y = torch.where(take, new, y)
        return y.var()

    return step


@family
def hamiltonian_sampling(device: str) -> Step:
    start = torch.randn(64, 8, device=device)

    def step() -> torch.Tensor:
        q, p = start, torch.randn_like(start)
        for _ in range(5):
            q = q.detach().requires_grad_(True)
            (g,) = torch.autograd.grad((0.5 * q**2).sum() + q.cos().sum(), q)
            p = p - 0.1 * g
            q = q + 0.1 * p
        return q.detach()

    return step


@family
def bodies(device: str) -> Step:
    x, v = torch.randn(128, 3, device=device), torch.zeros(128, 3, device=device)
    mass = torch.rand(128, device=device)

    def step() -> None:
        for _ in range(3):
            apart = x[None] - x[:, None]
            pull = (apart.pow(2).sum(-1) + 0.01).pow(-1.5)
            v.add_((pull[..., None] * apart * mass[None, :, None]).sum(1), alpha=0.01)
            x.add_(v, alpha=0.01)

    return step


@family
def molecular_dynamics(device: str) -> Step:
    x = torch.rand(64, 3, device=device) * 6

    def step() -> torch.Tensor:
        q = x.clone().requires_grad_(True)
        d = torch.cdist(q, q) + torch.eye(64, device=device) * 10
        s = (1 / d) ** 6
        energy = 2 * (s * s - s).sum()
        (force,) = torch.autograd.grad(energy, q)
        return force

    return step


@family
def ising_checkerboard(device: str) -> Step:
    s = torch.randint(0, 2, (64, 64), device=device).float() * 2 - 1
    board = (torch.arange(64, device=device)[:, None] + torch.arange(64, device=device)) % 2 == 0

    def step() -> torch.Tensor:
        t = s
        for part in (board, ~board):
            near = t.roll(1, 0) + t.roll(-1, 0) + t.roll(1, 1) + t.roll(-1, 1)
            flip = torch.rand_like(t) < torch.exp(-0.8 * t * near)
            t = torch.where(flip & part, -t, t)
        return t.mean()

    return step


@family
def game_of_life(device: str) -> Step:
    kernel = torch.ones(1, 1, 3, 3, device=device)
    kernel[0, 0, 1, 1] = 0
    board = (torch.rand(1, 1, 64, 64, device=device) < 0.3).float()

    def step() -> torch.Tensor:
        b = board
        for _ in range(5):
            n = F.conv2d(F.pad(b, (1, 1, 1, 1), mode="circular"), kernel)
            b = ((n == 3) | ((n == 2) & (b > 0))).float()
        return b.sum()

    return step


@family
def mandelbrot(device: str) -> Step:
    x, y = torch.meshgrid(torch.linspace(-2, 1, 64), torch.linspace(-1, 1, 64), indexing="xy")
    c = torch.complex(x, y).to(device)

    def step() -> torch.Tensor:
        z, n = torch.zeros_like(c), torch.zeros(64, 64, device=device)
        for _ in range(10):
            z = torch.where(z.abs() < 2, z * z + c, z)
            n += z.abs() < 2
        return n

    return step


@family
def lattice_boltzmann(device: str) -> Step:
    f = torch.rand(9, 32, 32, device=device)
    way = torch.tensor(
        [[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]]
    )
    w = torch.tensor([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, device=device)
    c = way.float().to(device)

    def step() -> None:
        rho = f.sum(0)
        u = torch.einsum("qd,qxy->dxy", c, f) / rho
        cu = torch.einsum("qd,dxy->qxy", c, u)
        flat = w[:, None, None] * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * u.pow(2).sum(0))
        f.add_(flat - f, alpha=0.6)
        for i, (a, b) in enumerate(way.tolist()):
            f[i] = f[i].roll((a, b), (0, 1))

    return step


@family
def k_means(device: str) -> Step:
    x = torch.randn(256, 4, device=device)

    def step() -> torch.Tensor:
        centres = x[:8].clone()
        for _ in range(4):
            near = torch.cdist(x, centres).argmin(1)
            total = torch.zeros_like(centres).index_add_(0, near, x)
            count = torch.zeros(8, device=device).index_add_(
                0, near, torch.ones(256, device=device)
            )
            centres = total / count.clamp(min=1)[:, None]
        return centres

    return step


@family
def nearest_neighbours(device: str) -> Step:
    x, y = torch.randn(256, 16, device=device), torch.randint(0, 5, (256,), device=device)
    asked = torch.randn(32, 16, device=device)
    return lambda: y[torch.cdist(asked, x).topk(5, largest=False).indices].mode(1).values


@family
def principal_components(device: str) -> Step:
    x = torch.randn(128, 32, device=device)

    def step() -> torch.Tensor:
        _, _, v = torch.pca_lowrank(x, 4)
        return (x - x.mean(0)) @ v

    return step


@family
def gaussian_process(device: str) -> Step:
    x, y = torch.rand(64, 1, device=device), torch.rand(64, device=device)
    asked = torch.rand(16, 1, device=device)

    def kernel(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.exp(-0.5 * torch.cdist(a, b) ** 2 / 0.01)

    def step() -> torch.Tensor:
        low = torch.linalg.cholesky(kernel(x, x) + 0.1 * torch.eye(64, device=device))
        return kernel(asked, x) @ torch.cholesky_solve(y[:, None], low)

    return step


@family
def kalman_filter(device: str) -> Step:
    a, h = torch.eye(4, device=device) + 0.1, torch.eye(2, 4, device=device)
    seen = torch.randn(6, 2, 1, device=device)

    def step() -> torch.Tensor:
        x, p = torch.zeros(4, 1, device=device), torch.eye(4, device=device)
        for z in seen:
            x, p = a @ x, a @ p @ a.t() + 0.01 * torch.eye(4, device=device)
            gain = p @ h.t() @ torch.linalg.inv(h @ p @ h.t() + 0.1 * torch.eye(2, device=device))
            x, p = x + gain @ (z - h @ x), p - gain @ h @ p
        return x

    return step


@family
def runge_kutta_orbits(device: str) -> Step:
    start = torch.randn(256, 3, device=device)

    def pull(s: torch.Tensor) -> torch.Tensor:
        x, y, z = s.unbind(1)
        return torch.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], 1)

    def step() -> torch.Tensor:
        s, h = start, 0.01
        for _ in range(5):
            k1 = pull(s)
            k2 = pull(s + h / 2 * k1)
            k3 = pull(s + h / 2 * k2)
            s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + pull(s + h * k3))
        return s

    return step


@family
def filtering_by_fourier(device: str) -> Step:
    x = torch.randn(8, 1024, device=device)

    def step() -> torch.Tensor:
        h = torch.fft.rfft(x)
        h[:, 100:] = 0
        return torch.fft.irfft(h, n=1024)

    return step


@family
def histogram_equalisation(device: str) -> Step:
    picture = torch.randint(0, 256, (64, 64), device=device)

    def step() -> torch.Tensor:
        count = torch.bincount(picture.flatten(), minlength=256).float()
        return (count.cumsum(0) / 4096 * 255).long()[picture]

    return step


@family
def soft_alignment(device: str) -> Step:
    a, b = torch.randn(10, 4, device=device), torch.randn(12, 4, device=device)

    def step() -> torch.Tensor:
        cost = torch.cdist(a, b)
        row = cost[0].cumsum(0)
        for i in range(1, 10):
            new = [row[0] + cost[i, 0]]
            for j in range(1, 12):
                new.append(cost[i, j] + torch.minimum(torch.minimum(row[j], row[j - 1]), new[-1]))
            row = torch.stack(new)
        return row[-1]

    return step


@family
def optimal_transport(device: str) -> Step:
    cost = torch.rand(64, 64, device=device)

    def step() -> torch.Tensor:
        k = torch.exp(-cost / 0.1)
        u = torch.ones(64, device=device)
        for _ in range(10):
            v = 1 / (k.t() @ u)
            u = 1 / (k @ v)
        return (u[:, None] * k * v * cost).sum()

    return step


@family
def topology_by_density(device: str) -> Step:
    x = torch.full((16, 32), 0.5, device=device)
    kernel = torch.ones(1, 1, 3, 3, device=device) / 9

    def step() -> torch.Tensor:
        d = x.clone().requires_grad_(True)
        smooth = F.conv2d(d[None, None], kernel, padding=1)[0, 0]
        (g,) = torch.autograd.grad((smooth**3 * torch.linspace(0, 1, 32, device=device)).sum(), d)
        return (x * (g / g.mean()).clamp(min=0).sqrt()).clamp(0.01, 1)

    return step


@family
def vector_add_in_blocks(device: str) -> Step:
    a, b = torch.randn(4096), torch.randn(4096)

    def step() -> torch.Tensor:
        out = [x.to(device) + y.to(device) for x, y in zip(a.chunk(4), b.chunk(4), strict=True)]
        return torch.cat(out).cpu()

    return step


@family
def matrix_product_in_tiles(device: str) -> Step:
    a, b = torch.randn(128, 128, device=device), torch.randn(128, 128, device=device)

    def step() -> torch.Tensor:
        c = torch.zeros(128, 128, device=device)
        for i in range(0, 128, 64):
            for j in range(0, 128, 64):
                for k in range(0, 128, 64):
                    c[i : i + 64, j : j + 64].addmm_(
                        a[i : i + 64, k : k + 64], b[k : k + 64, j : j + 64]
                    )
        return c

    return step


@family
def prefix_sums_by_doubling(device: str) -> Step:
    x = torch.randn(1024, device=device)

    def step() -> torch.Tensor:
        y, d = x, 1
        while d < 1024:
            y = y + F.pad(y[:-d], (d, 0))
            d *= 2
        return y

    return step


@family
def bitonic_sort(device: str) -> Step:
    x = torch.randn(256, device=device)
    place = torch.arange(256, device=device)

    def step() -> torch.Tensor:
        y, k = x, 2
        while k <= 256:
            j = k // 2
            while j:
                other = y[place ^ j]
                low = ((place & j) == 0) == ((place & k) == 0)
                y = torch.where(low, torch.minimum(y, other), torch.maximum(y, other))
                j //= 2
            k *= 2
        return y

    return step
