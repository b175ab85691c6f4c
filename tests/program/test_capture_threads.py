"""Captures in threads: figures as alone, other threads see the real torch, nothing stays behind."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

import gpuscope as gs
from gpuscope.errors import WorkloadError

torch = pytest.importorskip("torch")
nn = torch.nn

from gpuscope.program.capture import capture  # noqa: E402
from gpuscope.program.capture.patches import Patches, here, patches  # noqa: E402
from gpuscope.program.world import World  # noqa: E402


def workload(width: int) -> Callable[[], Callable[[], None]]:
    """A training step with modules, an optimizer, autocast, attention, dropout, synchronisation."""

    def build() -> Callable[[], None]:
        torch.manual_seed(width)
        random.seed(width)
        layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3)).cuda()
        norm = nn.LayerNorm(width).cuda()
        optimizer = torch.optim.AdamW([*layers.parameters(), *norm.parameters()])
        x = torch.randn(4, 8, width, device="cuda")

        def step() -> None:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                y = x
                for layer in layers:
                    y = nn.functional.dropout(layer(norm(y)).relu(), 0.1)
                q = y[:, None]
                y = nn.functional.scaled_dot_product_attention(q, q, q)
            loss = y.float().square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(layers.parameters(), 1.0)
            optimizer.step()
            assert loss.item() == 1.0
            assert torch.cuda.is_available()

        return step

    return build


def job() -> Callable[[], None]:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    layer = DistributedDataParallel(nn.Linear(16, 16).cuda())

    def step() -> None:
        layer(torch.randn(4, 16, device="cuda")).sum().backward()

    return step


WIDTHS = (32, 64, 96)


def figures(width: int) -> dict[str, Any]:
    run = gs.predict(workload(width), on="h200")
    return {
        "step": run.step_time_s,
        "interval": run.step_time_interval_s,
        "host": run.host_busy_s,
        "device": run.device_busy_s,
        "memory": run.peak_memory_bytes,
        "ops": [(op.name, op.module, op.phase, op.python_calls) for op in run.program.ops],
    }


@pytest.fixture(scope="module")
def alone() -> dict[int, dict[str, Any]]:
    return {width: figures(width) for width in WIDTHS}


Replaced = list[tuple[Any, str, Any]]


@pytest.fixture(scope="module")
def replaced() -> Replaced:
    """All that captures replace: (owner, name, what was there)."""
    found: Replaced = []
    original = Patches.everywhere

    def noted(self: Patches, owner: Any, name: str, value: Any) -> None:
        found.append((owner, name, vars(owner).get(name)))
        original(self, owner, name, value)

    Patches.everywhere = noted  # type: ignore[method-assign]
    try:
        capture(workload(16))
        capture(job, world=World(2, 0, 2))
    finally:
        Patches.everywhere = original  # type: ignore[method-assign]
    assert len(found) > 100
    first: dict[tuple[int, str], tuple[Any, str, Any]] = {}
    for owner, name, before in found:
        first.setdefault((id(owner), name), (owner, name, before))
    return list(first.values())


def state() -> dict[str, Any]:
    """What of the process a capture could leave changed."""
    import numpy as np

    return {
        "rng": torch.get_rng_state().tolist(),
        "random": random.getstate(),
        "numpy": str(np.random.get_state()),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
        "modes": torch._C._len_torch_dispatch_stack(),
        "available": torch.cuda.is_available(),
        "filters": list(warnings.filters),
        "hooks": [
            len(hooks)
            for hooks in (
                nn.modules.module._global_forward_pre_hooks,
                nn.modules.module._global_forward_hooks,
                sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks,
                sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks,
            )
        ],
        "modules": [type(m) for m in (torch, torch.cuda, torch.distributed)],
        "finders": list(sys.meta_path),
        "profile": sys.getprofile(),
        "kernels": torch._C._dispatch_dump("aten::mm"),
        "loggers": logging.getLogger("torch._subclasses.fake_tensor").disabled,
        "capturing": here(),
    }


@contextmanager
def nothing_left_behind(replaced: Replaced) -> Iterator[None]:
    before = state()
    yield
    assert state() == before
    assert [
        name
        for owner, name, raw in replaced
        if vars(owner).get(name) is not raw and not _ours(owner)
    ] == []


def _ours(owner: Any) -> bool:
    return getattr(owner, "__module__", "").startswith("gpuscope")


@pytest.mark.parametrize("threads", [2, 4])
def test_a_pool_predicts_what_one_thread_does(alone, replaced, threads: int) -> None:
    asked = (WIDTHS * 2)[: threads + 1]
    with nothing_left_behind(replaced), ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(figures, asked)) == [alone[width] for width in asked]


def test_asyncio_predicts_what_one_thread_does(alone, replaced) -> None:
    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(asyncio.to_thread(figures, width) for width in WIDTHS))

    with nothing_left_behind(replaced):
        assert asyncio.run(all_of_them()) == [alone[width] for width in WIDTHS]


def trained(steps: int, beside: Callable[[], object] = lambda: None) -> list[float]:
    """Losses of a small model that is trained on the CPU, from a seed of its own."""
    torch.manual_seed(0)
    random.seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        beside()
        x = torch.randn(4, 8) * random.random()
        q = torch.rand(1, 2, 4, 8)
        y = model(x).sum() + nn.functional.scaled_dot_product_attention(q, q, q).mean()
        optimizer.zero_grad()
        (y * y).backward()
        optimizer.step()
        losses.append(y.item())
    return losses


class Training(threading.Thread):
    """Trains until told to stop, and looks whether torch is the real one."""

    def __init__(self, folder: Any) -> None:
        super().__init__()
        self.folder = folder
        self.ready, self.enough = threading.Event(), threading.Event()
        self.losses: list[float] = []
        self.seen_capture = 0
        self.wrong: list[str] = []
        self.available = torch.cuda.is_available()
        self.stream = torch.cuda.Stream

    def look(self) -> None:
        self.ready.set()
        self.seen_capture += torch.save.__module__.startswith("gpuscope")
        checks = {
            "available": torch.cuda.is_available() is self.available,
            "not a member": not here(),
            "class": torch.cuda.Stream is self.stream,
            "generator": isinstance(torch.Generator(), torch.Generator),
            "compiling": not torch.compiler.is_compiling(),
            "dtype": torch.get_default_dtype() is torch.float32,
            "tensor": type(torch.randn(2)) is torch.Tensor,
            "float": torch.ones(2).dtype is torch.float32,
            "values": torch.tensor([1.0, 2.0]).tolist() == [1.0, 2.0],
            "rank": "RANK" not in os.environ and "HF_HUB_OFFLINE" not in os.environ,
        }
        self.wrong += [name for name, right in checks.items() if not right]

    def run(self) -> None:
        try:
            torch.manual_seed(0)
            while not self.enough.is_set() and len(self.losses) < 20_000:
                self.losses = trained(20, self.look)
                file = self.folder / "checkpoint.pt"
                torch.save(self.losses, file)
                if not file.exists():
                    self.wrong.append("no checkpoint")
                file.unlink(missing_ok=True)
        except Exception as error:  # told below
            self.wrong.append(repr(error))


def test_training_beside_a_prediction_is_left_alone(alone, tmp_path) -> None:
    training = Training(tmp_path)
    expected = trained(20, training.look)
    training.ready.clear()
    training.start()
    training.ready.wait()
    try:
        for width in WIDTHS:
            assert figures(width) == alone[width]
        capture(job, world=World(2, 1, 2))
    finally:
        training.enough.set()
        training.join()
    assert not training.wrong
    assert training.seen_capture
    assert training.losses == expected


def test_another_threads_random_numbers_are_its_own() -> None:
    """A capture must not rewind what another thread draws meanwhile."""
    import numpy as np

    def draw() -> tuple[Any, ...]:
        return torch.rand(1).item(), random.random(), float(np.random.rand())

    def seed() -> None:
        torch.manual_seed(5)
        random.seed(5)
        np.random.seed(5)

    seed()
    expected = [draw() for _ in range(6)]
    seed()
    drawn = [draw(), draw()]
    go, done = threading.Event(), threading.Event()

    def other() -> None:
        go.wait()
        drawn.extend([draw(), draw()])
        done.set()

    thread = threading.Thread(target=other)
    thread.start()

    def build() -> Callable[[], object]:
        first = torch.manual_seed(1).initial_seed(), random.random(), float(np.random.rand())
        torch.manual_seed(7), random.seed(7), np.random.seed(7)
        assert random.random() == random.Random(7).random() != first[1]
        go.set()
        assert done.wait(10)
        layer = nn.Linear(4, 4).cuda()
        return lambda: layer(torch.randn(2, 4, device="cuda"))

    capture(build)
    thread.join()
    assert [*drawn, draw(), draw()] == expected


class Stop(BaseException):
    """Like an interrupt."""


@pytest.mark.parametrize("raised", [KeyboardInterrupt, Stop, RuntimeError])
@pytest.mark.parametrize("where", ["build", "step"])
def test_everything_is_put_back_after(replaced, raised, where: str) -> None:
    def build() -> Callable[[], None]:
        torch.set_default_dtype(torch.bfloat16)
        torch.set_grad_enabled(False)
        if where == "build":
            raise raised

        def step() -> None:
            with torch.autocast("cuda"), torch.inference_mode():
                nn.Linear(4, 4).cuda()(torch.randn(2, 4, device="cuda"))
                raise raised

        return step

    with nothing_left_behind(replaced), pytest.raises((KeyboardInterrupt, WorkloadError)):
        capture(build)


def test_an_interrupt_while_things_are_put_back_leaves_nothing() -> None:
    class Owner:
        a, b, c = 1, 2, 3

    interrupted = []

    def interrupt() -> None:
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt

    patch = Patches()
    for name in ("a", "b", "c"):
        patch.everywhere(Owner, name, 0)
        patch.on_undo(interrupt)
    with pytest.raises(KeyboardInterrupt):
        patch.undo()
    assert (Owner.a, Owner.b, Owner.c) == (1, 2, 3)


def test_a_build_may_use_threads_of_its_own() -> None:
    def build() -> Callable[[], object]:
        layer = nn.Linear(4, 4).cuda()
        loaded: list[Any] = []

        def load() -> None:
            assert torch.cuda.is_available()  # as in the thread that started this one
            loaded.append([1.0] * 4)

        def step() -> object:
            thread = threading.Thread(target=load)
            thread.start()
            thread.join()
            with ThreadPoolExecutor(2) as pool:
                assert all(pool.map(lambda _: torch.cuda.device_count() == 1, range(4)))
            return layer(torch.tensor(loaded.pop()).cuda())

        return step

    assert any(op.name.endswith("addmm") for op in capture(build).ops)
    assert not here()


@pytest.mark.parametrize("threaded", [False, True])
def test_a_prediction_inside_of_a_build_is_refused(threaded: bool) -> None:
    def build() -> Callable[[], object]:
        if threaded:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(gs.predict, workload(16)).result()
        else:
            gs.predict(workload(16))
        return lambda: None

    with pytest.raises(WorkloadError, match="asks for a prediction itself"):
        gs.predict(build)
    assert not here()


def test_another_threads_network_stays_open() -> None:
    tried: list[str] = []

    def look() -> None:
        try:
            socket.create_connection(("192.0.2.1", 9), timeout=0.01)
        except OSError as error:
            tried.append(type(error).__name__)

    def build() -> Callable[[], object]:
        go.set()
        thread.join()
        layer = nn.Linear(4, 4).cuda()
        return lambda: layer(torch.randn(2, 4, device="cuda"))

    go = threading.Event()
    thread = threading.Thread(target=lambda: (go.wait(), look()))
    thread.start()
    capture(build)
    assert tried
    assert "NetworkClosedError" not in tried


def test_modules_show_their_classes_to_other_threads() -> None:
    class Real:
        pass

    class Stand:
        pass

    module = ModuleType("stand_in_for_a_test")
    module.Thing = Real  # type: ignore[attr-defined]
    with patches() as patch:
        from gpuscope.program.capture.patches import join

        join(patch)
        patch.set(module, "Thing", Stand)
        with ThreadPoolExecutor(1) as pool:  # joins the capture
            assert module.Thing is pool.submit(lambda: module.Thing).result() is Stand
    assert module.Thing is Real
    assert type(module) is ModuleType


def made_in(dtype: Any, seen: list[Any], meanwhile: Callable[[], None]) -> Callable[[], Any]:
    """A build that sets a default type, and notes what types tensors get under it."""

    def build() -> Callable[[], object]:
        torch.set_default_dtype(dtype)
        assert torch.get_default_dtype() is dtype
        number = torch.arange(4, device="cuda")
        made = {
            "linear": nn.Linear(4, 4).weight,
            "randn": torch.randn(2, 4, device="cuda"),
            "tensor": torch.tensor([[1.0, 2.0]], device="cuda"),
            "integers": torch.tensor([1, 2]),
            "arange": torch.arange(0.0, 2.0),
            "counted": number,
            "divided": number / 2,
            "of both": 1.0 / (10000.0 ** (number / 4)),
            "sine": number.sin(),
            "asked": torch.zeros(2, dtype=torch.float32),
            "float": number.float(),
            "added": torch.zeros(2, dtype=torch.float32) + torch.arange(2),
            "many": torch.ones(3, 3).unbind()[0],
        }
        meanwhile()
        torch.set_default_dtype(torch.float32)
        made["after"] = torch.randn(2, 4, device="cuda")
        seen.append({name: tensor.dtype for name, tensor in made.items()})
        layer = nn.Linear(4, 4).cuda()
        return lambda: layer(made["after"])

    return build


def test_a_default_type_is_the_captures_own_where_other_threads_run() -> None:
    """As where PyTorch's own is set, which a process with one thread does."""
    seen: list[Any] = []
    capture(made_in(torch.bfloat16, seen, lambda: None))
    go, done = threading.Event(), threading.Event()
    others: list[Any] = []

    def other() -> None:
        go.wait()
        others.extend([torch.randn(2).dtype, torch.get_default_dtype(), nn.Linear(2, 2).bias.dtype])
        done.set()

    def meanwhile() -> None:
        go.set()
        done.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    capture(made_in(torch.bfloat16, seen, meanwhile))
    thread.join()
    assert others == [torch.float32] * 3
    assert seen[0] == seen[1]
    assert seen[0]["of both"] is torch.bfloat16
    assert seen[0]["after"] is torch.float32
    assert torch.get_default_dtype() is torch.float32


def test_another_threads_module_does_not_end_the_look_at_a_folded_models_depth() -> None:
    from gpuscope.program.fold_depth import read_tree

    layer, calls = nn.Linear(2, 2), []

    def other() -> None:
        go.wait()
        layer(torch.ones(1, 2))
        calls.append(True)

    def build() -> Callable[[], object]:
        model = nn.Sequential(nn.Linear(4, 4)).cuda()

        def step() -> object:
            go.set()
            thread.join(10)
            return model(torch.randn(2, 4, device="cuda"))

        return step

    go = threading.Event()
    thread = threading.Thread(target=other)
    thread.start()
    assert type(read_tree(build)).__name__ == "Tree"
    assert calls


@pytest.mark.slow
def test_plans_and_servings_beside_predictions_have_the_figures_of_one_thread() -> None:
    def plan() -> object:
        found = gs.plan("gpt2", on="h200", devices=1, global_batch=2, seq=64, simulate=1)
        return found.best.candidate.words, found.best.value("time"), len(found.rejected)

    def serve() -> object:
        (run,) = gs.serve("gpt2", on="h200", rate=20.0, requests=20, input="64", output="16")
        return run.served.finished_s.tolist()

    def predict() -> object:
        return gs.predict(workload(32), on="h200").step_time_s

    verbs: list[Callable[[], object]] = [plan, serve, predict]
    predict()  # loads parts of PyTorch, which set a variable and draw numbers
    before = state()
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda verb: verb(), verbs * 2))
    alone = [verb() for verb in verbs]
    assert together == alone * 2
    assert state() == before
