"""Values that fakes do not have: what is assumed, and that it is said."""

from __future__ import annotations

from itertools import pairwise

import pytest
from captured import named, of, one, work

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
nn = torch.nn
F = torch.nn.functional


def device(*shape):
    return torch.randn(*shape, device="cuda")


def program_of(call, *shape):
    def build():
        x = device(*(shape or (4, 6)))
        return lambda: call(x)

    return of(build)


def says(program, *words) -> bool:
    return any(all(word in sentence for word in words) for sentence in program.assumptions)


@pytest.mark.parametrize(
    ("call", "name", "shape"),
    [
        (lambda x: (x > 0).nonzero(), "nonzero", (12, 2)),
        (lambda x: torch.masked_select(x, x > 0), "masked_select", (12,)),
        (lambda x: x[x > 0], "index", (12,)),
        (lambda x: x[x[:, 0] > 0], "index", (2, 6)),
        (lambda x: torch.where(x > 0), "nonzero", (12, 2)),
    ],
)
def test_sizes_that_depend_on_data(call, name, shape) -> None:
    program = program_of(call)
    assert one(program, name).outputs[0].shape == shape
    assert [op.sync for op in program.ops if op.sync] == ["nonzero"]
    assert says(program, "Half", "nonzero")


def test_a_mask_becomes_indices_first() -> None:
    program = program_of(lambda x: x[x > 0])
    assert work(program) == ["gt", "nonzero", "index"]
    assert [s.dtype for s in one(program, "index").inputs] == ["float32", "int64", "int64"]


def test_a_number_written_through_a_mask_does_not_wait() -> None:
    def call(x):
        x[x > 0] = 0.0

    program = program_of(call)
    assert work(program) == ["gt", "masked_fill_"]
    assert not [op for op in program.ops if op.sync]


def test_a_device_tensor_written_through_a_mask_waits() -> None:
    def call(x):
        x[x > 0] = x.sum()

    program = program_of(call)
    assert [op.sync for op in program.ops if op.sync] == ["nonzero"]
    assert one(program, "index_put_").inputs[0].storage == one(program, "gt").inputs[0].storage


def test_indices_in_host_memory_are_copied() -> None:
    program = program_of(lambda x: x[torch.tensor([0, 2])])
    assert [op.sync for op in program.ops if op.sync] == ["blocking_copy"]
    assert one(program, "index").outputs[0].shape == (2, 6)


def test_the_gradient_of_a_selection_is_written_in_place() -> None:
    def build():
        x = torch.randn(6, 4, device="cuda", requires_grad=True)

        def step():
            x.grad = None
            x[x[:, 0] > 0].sum().backward()

        return step

    put = one(of(build), "_index_put_impl_")
    assert put.inputs[0].storage == put.outputs[0].storage
    assert put.phase == "backward"


def test_known_values_need_no_assumption() -> None:
    def call(x):
        ones, zeros = torch.ones_like(x), torch.zeros(3, 3, device="cuda")
        assert ones.nonzero().shape == (24, 2)
        assert zeros.nonzero().shape == (0, 2)
        assert ones.bool().all().item() is True
        assert zeros.sum(dtype=torch.float32).shape == ()
        return ones.view(-1).bool().all().item()

    program = program_of(call)
    assert not says(program, "Half")
    assert not says(program, "Checks")


def test_routing_takes_an_even_share() -> None:
    def build():
        gate = nn.Linear(8, 4).cuda()
        x = device(64, 8)

        def step():
            chosen = gate(x).topk(2, -1).indices
            return [torch.where(chosen == expert) for expert in range(4)]

        return step

    program = of(build)
    found = [op.outputs[0].shape for op in named(program, "nonzero")]
    assert found == [(64 * 2 // 4, 2)] * 4
    assert says(program, "evenly")


def test_cuts_of_an_even_range_take_their_shares() -> None:
    """Parts side by side hold every element once, however the range is cut."""

    def build():
        drawn = torch.randint(0, 100, (7, 11), device="cuda")
        twice = torch.randint(-5, 100, (77,), device="cuda")

        def step():
            ends = (0, 13, 14, 60, 100)
            cuts = pairwise(ends)
            counts = [((drawn >= a) & (drawn < b)).nonzero().shape[0] for a, b in cuts]
            assert counts == [10, 1, 35, 31]
            assert (drawn > 99).nonzero().shape[0] == 0
            assert drawn[drawn <= 49].shape == (38,)
            assert (twice < 20).nonzero().shape[0] == 38  # begins elsewhere: half, as of any mask
            return torch.ones(2, device="cuda") * 2

        return step

    assert says(of(build), "Half")


def test_rare_words_are_scored_apart() -> None:
    def build():
        scores = nn.AdaptiveLogSoftmaxWithLoss(32, 1000, [100, 300], div_value=2.0).cuda()
        x, y = device(90, 32), torch.randint(0, 1000, (90,), device="cuda")
        return lambda: scores(x, y).loss.backward()

    tails = [op.inputs[0].shape for op in named(of(build), "mm")]
    assert {(90, 32), (18, 32), (63, 32)} <= set(tails)


def test_generation_goes_on_until_its_last_token() -> None:
    def build():
        head = nn.Linear(8, 10).cuda()
        x = device(2, 8)

        def step():
            made = 0
            for _ in range(3):
                token = head(x).argmax(-1)
                made += 1
                if (token == 2).all():
                    break
            assert made == 3

        return step

    program = of(build)
    assert len(named(program, "addmm")) == 3
    assert says(program, "end of generation")


def test_generation_with_a_flag_for_each_sequence() -> None:
    def build():
        head = nn.Linear(8, 10).cuda()
        x = device(2, 8)

        def step():
            finished = torch.zeros(2, dtype=torch.bool, device="cuda")
            for _ in range(3):
                token = torch.multinomial(head(x).softmax(-1), 1)[:, 0]
                finished |= token == 2
                if finished.all():
                    break

        return step

    assert len(named(of(build), "addmm")) == 3


def test_checks_pass() -> None:
    def call(x):
        assert (x < 100).all()
        assert (x == 0).all()
        assert not torch.isnan(x).any()
        assert not (x > 100).any()

    program = program_of(call)
    assert len([op for op in program.ops if op.sync == "item"]) == 4
    assert says(program, "Checks")


def test_equality_waits() -> None:
    program = program_of(lambda x: torch.equal(x, x + 1))
    assert [op.sync for op in program.ops if op.sync] == ["equal"]


@pytest.mark.parametrize(
    ("call", "sizes"),
    [
        (lambda x: torch.unique(x), [(24,)]),
        (lambda x: torch.bincount(x.view(-1).long(), minlength=7), [(7,)]),
        (lambda x: torch.linalg.inv(x[:, :4]), []),
        (lambda x: torch.linalg.svd(x), []),
    ],
)
def test_library_calls_that_wait(call, sizes) -> None:
    program = program_of(call)
    waiting = [op for op in program.ops if op.sync]
    assert len(waiting) == 1
    for size in sizes:
        assert waiting[0].outputs[0].shape == size


def test_host_values_given_to_numpy() -> None:
    def call(x):
        array = x.sum(0).cpu().numpy()
        assert array.shape == (6,)
        assert array.dtype == np.float32
        assert x.tolist()
        assert len(x.tolist()[0]) == 6
        with pytest.raises(TypeError, match=r"Tensor\.cpu\(\)"):
            x.numpy()

    assert says(program_of(call), "NumPy")


def test_constants_of_the_user_keep_their_values() -> None:
    def call(x):
        assert torch.tensor([3, 5]).max().item() == 5
        assert int(torch.tensor(7)) == 7
        return x + 1

    assert not program_of(call).assumptions


def test_tensors_made_before_are_used_and_left_alone() -> None:
    outside = torch.full((2, 4), 3.0)

    def build():
        layer = nn.Linear(4, 4).cuda()

        def step():
            moved = outside.cuda()
            outside.add_(1)
            return layer(moved)

        return step

    program = of(build)
    assert one(program, "addmm").outputs[0].shape == (2, 4)
    assert one(program, "_to_copy").phase == "input"
    assert not program.unsupported
    assert torch.equal(outside, torch.full((2, 4), 3.0))


def test_a_loader_in_this_process() -> None:
    def build():
        data = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,)))
        loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, pin_memory=True)
        model = nn.Linear(4, 2).cuda()

        def step():
            for x, y in loader:
                x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
                F.cross_entropy(model(x), y)

        return step

    program = of(build)
    assert len(named(program, "addmm")) == 2
    copies = [op for op in program.ops if op.phase == "input"]
    assert len(copies) == 4
    assert all(op.inputs[0].pinned and not op.sync for op in copies)
    assert "stack" in work(program)  # collating is this process's own work


def test_a_loader_with_workers() -> None:
    def build():
        data = torch.utils.data.TensorDataset(torch.randn(8, 4))
        loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, timeout=30)
        model = nn.Linear(4, 2).cuda()

        def step():
            for (x,) in loader:
                model(x.cuda())

        return step

    program = of(build)
    assert len(named(program, "addmm")) == 2
    assert "stack" not in work(program)
    assert says(program, "workers")


def test_generators_and_random_tensors() -> None:
    def build():
        generator = torch.Generator(device="cuda").manual_seed(1)

        def step():
            return (
                torch.randn(3, generator=generator, device="cuda"),
                torch.empty(3, device="cuda").normal_(generator=generator),
                torch.randperm(5, device="cuda", generator=generator),
                torch.multinomial(torch.ones(4, device="cuda"), 2),
            )

        return step

    program = of(build)
    assert {s.device for op in program.ops for s in op.outputs} == {"device"}
    assert not [op for op in program.ops if op.sync]


def test_helpers_of_composites_are_on_the_device() -> None:
    program = program_of(lambda x: F.one_hot(torch.ones(5, dtype=torch.long, device="cuda"), 4))
    assert {s.device for op in program.ops for s in (*op.inputs, *op.outputs)} == {"device"}
    assert one(program, "arange").outputs[0].device == "device"


@pytest.mark.parametrize("iterable", [False, True])
def test_workers_that_persist_serve_every_epoch(iterable):
    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, at):
            return torch.full((4,), float(at))

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return (torch.full((4,), float(at)) for at in range(8))

    def build():
        data = Stream() if iterable else Rows()
        loader = torch.utils.data.DataLoader(
            data, batch_size=4, num_workers=2, persistent_workers=True
        )
        assert [len(list(loader)) for _ in range(3)] == [2, 2, 2]
        return lambda: [rows.cuda() * 2 for rows in loader]

    from gpuscope.program.capture import capture

    assert [op.name for op in capture(build).ops].count("aten::mul") == 2


def test_bits_cut_out_of_drawn_numbers_are_no_range() -> None:
    def build():
        packed = torch.randint(0, 256, (64,), dtype=torch.uint8, device="cuda")
        return lambda: torch.stack([packed >> 4, packed & 15], -1)

    assert "aten::bitwise_and" in [op.name for op in of(build).ops]
