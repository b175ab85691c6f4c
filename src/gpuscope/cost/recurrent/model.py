"""Recurrent layers as cuDNN runs them: LSTM, GRU and plain RNN.

Each layer needs the input's product for all time steps, and for every step a small product with the
recurrent weights and an elementwise cell. The steps depend on each other, so a long sequence of a
small layer is latency, however fast the device is. Backward does the same in reverse and ends with
the gradients of weights and biases.

Layers run beside each other, each on a stream of its own: the sequence is cut, and a layer begins a
piece as soon as the layer before has ended it (`recurrent_waves`). What they share is the memory:
each step reads its layer's recurrent weights again, from the L2 cache where those of all layers fit
it, from device memory otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from gpuscope.cost.bandwidth import Launch, kernel, machine
from gpuscope.cost.copy.model import fill_kernel
from gpuscope.cost.matmul.few_rows import MOST_ROWS
from gpuscope.cost.matmul.gemm import Problem, machine_for, plan
from gpuscope.cost.matmul.model import compute_dtype, gemm_kernel
from gpuscope.cost.recurrent.persistent import is_persistent, persistent, state_size
from gpuscope.cost.recurrent.waves import Piece, backward_order, forward_order, piece_steps
from gpuscope.cost.reduction.model import memset_kernel
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel
from gpuscope.program.types import TensorSpec

_GATES = {"lstm": 4, "gru": 3}

_SLICED_DEPTH = 512
"""The shortest recorded product of a float32 step backward whose depth is cut into slices."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer and direction: sizes of its products.

    Attributes:
        state: columns of the hidden state: `hidden`, or of what each step projects it to.
        beside: layers and directions that run at once.
    """

    seq: int
    batch: int
    inputs: int
    hidden: int
    gates: int
    state: int
    beside: int

    @property
    def wide(self) -> int:
        """Columns of its products: all gates."""
        return self.gates * self.hidden


def _layers(work: Work) -> tuple[list[Layer], int]:
    """The layers, directions of one after the other, and how many directions there are."""
    x = work.op.inputs[0]
    args = work.op.args
    mode = str(args.get("mode", "lstm"))
    hidden = int(str(args.get("hidden_size", x.shape[-1])))
    count = int(str(args.get("num_layers", 1)))
    both = 2 if args.get("bidirectional", False) else 1
    first = bool(args.get("batch_first", False))
    steps = int(str(args.get("steps", 0)))
    if steps:  # packed sequences: their mean batch
        seq, batch = steps, ceil(x.shape[0] / steps)
    elif len(x.shape) < 3:
        seq, batch = x.shape[0], 1
    else:
        seq, batch = (x.shape[1], x.shape[0]) if first else (x.shape[0], x.shape[1])
    gates = _GATES.get(mode, 1)
    width = x.shape[-1]
    beside = 2 if both == 2 else count
    state = state_size(work, hidden)
    found = []
    for layer in range(count):
        size = width if layer == 0 else state * both
        found += [Layer(seq, batch, size, hidden, gates, state, beside)] * both
    return found, both


_LARGE_WEIGHT = 2**19
"""Values of a weight from which cuDNN does not cut its depth in steps of float32. Recorded ones
that are cut have fewer (46 rows: 147,000; 20 rows: 332,000), those that are not 1.5 million and
more."""


def _product(work: Work, m: int, n: int, k: int, name: str, layout: str = "NT") -> Kernel:
    item = work.op.inputs[0].itemsize
    dtype = compute_dtype(work, work.op.inputs[0].dtype, "tf32_cudnn", True)
    dense = n if layout != "NT" else k
    aligned = next(a for a in (16, 8, 4, 2, 1) if dense * item % a == 0 and k * item % a == 0)
    # cuDNN's float32 kernels for a step walk the whole depth of a large weight: 48 us where slices
    # of it would be added up after 20 (34 rows of 2,688 by 896). Few rows have their own.
    whole = dtype == "float32" and "step" in name and m > MOST_ROWS and n * k >= _LARGE_WEIGHT
    problem = Problem(
        m=m,
        n=n,
        k=k,
        batch=1,
        dtype=dtype,
        a_bytes=m * k * item,
        b_bytes=n * k * item,
        c_bytes=m * n * item,
        item_bytes=item,
        layout=layout,
        aligned=aligned,
        hot_a=True,
        hot_b=True,
        whole=whole,
    )
    on = machine_for(work.device, work.constants, dtype, "matmul", aligned)
    made = gemm_kernel(work, problem, on, plan(problem, on), name, kind="recurrent")
    if dtype == "tf32" and "step" not in name:
        # cuDNN's choice for whole pieces is not the quickest that there is.
        made = made.lasting(made.duration_s * work.constants.value("recurrent.tf32_slower"))
    return made


def _walked(work: Work, made: Kernel, depth: int, rows: int, slices: int) -> Kernel:
    """A tf32 product at the pace of the kernels that cuDNN takes for it.

    Up to 128 rows those of compute capability 8, which cut the depth into slices; each walks its
    slice 32 values at a time and waits for the next as long as the L2 cache takes. More rows: one
    block walks the whole depth, twice as quickly.
    """
    get = work.constants.value
    if rows <= 128:
        seconds = get("recurrent.split.base_s")
        seconds += ceil(depth / 32 / slices) * get("recurrent.split.step_s")
    else:
        seconds = 2e-6 + ceil(depth / 32) * get("recurrent.whole.step_s")
    return made.lasting(max(made.duration_s, seconds))


def _sliced(work: Work, made: Kernel, rows: int, columns: int, depth: int) -> Kernel:
    """A float32 product of a step backward, at the pace of the kernel that cuDNN takes for it.

    Tiles of 64 x 64 walk slices of the depth 8 values at a time; eight tiles are numbered together,
    so that idle ones take places, too. Twelve recorded chains of 2 to 66 rows have 4 to 19 slices.
    """
    tiles = ceil(rows / 64) * ceil(columns / 64)
    slices = max(1, min(depth // 150, work.units // tiles))
    placed = tiles if tiles < 8 else ceil(tiles / 8) * 8
    steps = ceil(depth / slices / 8) * ceil(placed * slices / work.units)
    seconds = 2e-6 + steps * work.constants.value("recurrent.simt.step_s")
    return made.lasting(max(made.duration_s, seconds))


def _clear(work: Work) -> Kernel:
    """What slices are added to, set to zero first."""
    return memset_kernel(work).lasting(work.constants.value("recurrent.clear_s"))


def _projected(work: Work, layer: Layer, backward: bool) -> tuple[Kernel, ...]:
    """The product of a step that projects the hidden state, where a layer has one."""
    if layer.state == layer.hidden:
        return ()
    n, k = (layer.hidden, layer.state) if backward else (layer.state, layer.hidden)
    return _step(work, layer, n, k, backward)


def _step(work: Work, layer: Layer, n: int, k: int, backward: bool) -> tuple[Kernel, ...]:
    """The product of one time step, with what else it launches."""
    name = "rnn_step_backward" if backward else "rnn_step"
    made = _product(work, layer.batch, n, k, name, "NN" if backward else "NT")
    before: tuple[Kernel, ...] = ()
    if made.dtype == "tf32" and layer.batch > 1 and (backward or _turned(layer)):
        slices = 2 if k <= 1024 else 3 if k <= 1536 else 4
        if layer.batch > 64:
            slices = 3 if backward else 1
        made = _walked(work, made, k, min(layer.batch, 128), slices)
        before = (_clear(work),) * (slices > 1)
    elif made.dtype == "float32" and layer.batch > 1 and backward and k >= _SLICED_DEPTH:
        made = _sliced(work, made, layer.batch, n, k)
    shared_s = _weights_s(work, layer) - 3e-6  # the cell's time, in which others read
    if shared_s > made.duration_s:
        made = replace(
            made.lasting(shared_s),
            limiter="memory",
            memory_s=shared_s,  # the weights' way, with the others that read
            read_bytes=float(n * k * work.op.inputs[0].itemsize),
        )
    return (*before, made)


def _turned(layer: Layer) -> bool:
    """Whether cuDNN transposes the weights first, for kernels that read them row by row."""
    return (layer.batch >= 64 and layer.hidden >= 1024) or layer.gates == 1


def _weights_s(work: Work, layer: Layer) -> float:
    """Time of reading the recurrent weights of all layers under way; 0 where they are cached."""
    weights = float(layer.hidden * layer.wide * work.op.inputs[0].itemsize) * layer.beside
    m = machine(work)
    if weights <= work.constants.value("recurrent.cached") * m.l2_bytes:
        return 0.0
    return weights / m.read_bytes_per_s


def _transposed(work: Work, layer: Layer) -> tuple[Kernel, ...]:
    """Transpositions of a layer's two weights, tile by tile through shared memory."""
    if work.op.inputs[0].dtype != "float32" or not _turned(layer):
        return ()
    size = float(layer.hidden * layer.wide * 4)
    one = kernel(
        work,
        Launch(
            "transpose_weights",
            "copy",
            size,
            0.0,
            size,
            items=size / 4,
            cycles=0.8,
            grid=max(1, ceil(size / 4096)),
            block=32,
            dtype="float32",
            family="recurrent",
        ),
    )
    return (one, one)


def _cell(work: Work, layer: Layer, name: str, key: str) -> Kernel:
    """The elementwise part of one time step."""
    item = work.op.inputs[0].itemsize
    items = layer.batch * layer.hidden
    moved = float(items * (layer.gates * 2 + 3) * item)
    # The weights that every step reads push everything else out of the cache.
    weights = float(layer.hidden * layer.wide * item * layer.beside)
    cold = layer.beside > 1 and weights > machine(work).l2_bytes * 0.6
    far_s = work.constants.value("recurrent.cell.far_s") if cold else 0.0
    return kernel(
        work,
        Launch(
            name,
            "recurrent",
            moved * cold,
            moved * (not cold),
            items * (layer.gates + 2) * item,
            items=items,
            cycles=work.constants.value(f"recurrent.{key}.cycles"),
            grid=max(1, ceil(items / 256)),
            block=256,
            chain_s=work.constants.value(f"recurrent.{key}.base_s") + far_s,
            dtype=work.op.inputs[0].dtype,
            family="recurrent",
        ),
    )


def _bias(work: Work, layer: Layer) -> Kernel:
    """Sum of the gate gradients over time and batch: few blocks, a long walk."""
    rows = layer.seq * layer.batch
    columns = layer.wide
    item = work.op.inputs[0].itemsize
    get = work.constants.value
    size = float(rows * columns * item)
    away = size if size > machine(work).l2_bytes else 0.0
    grid = max(1, ceil(layer.hidden / 32))  # a block takes all gates of 32 units
    per_step = {3: 2.6, 1: 0.3}.get(layer.gates, 1.0)  # relative to LSTM; a GRU has two biases
    return kernel(
        work,
        Launch(
            "rnn_bias_gradient",
            "recurrent",
            0.0,
            size,
            columns * 8.0,
            items=rows * columns,
            cycles=get("recurrent.bias.cycles"),
            grid=grid,
            block=1024,
            resident=2,
            chain_s=max(
                1e-6 + rows / 32 * per_step * get("recurrent.bias.step_s"),
                away / grid / get("recurrent.bias.block_bytes_per_s"),
            ),
            dtype=work.op.inputs[0].dtype,
            family="recurrent",
        ),
    )


def _weight_gradients(work: Work, layer: Layer) -> list[Kernel]:
    """Gradients of a layer's biases and weights, over all steps at once."""
    rows = layer.seq * layer.batch
    return [
        _bias(work, layer),
        _product(work, layer.inputs, layer.wide, rows, "rnn_weight_gradient", "TN"),
        _product(work, layer.hidden, layer.wide, rows, "rnn_recurrent_weight_gradient", "TN"),
    ]


def _walked_forward(work: Work, layer: Layer) -> Piece:
    rows = layer.seq * layer.batch
    given = _product(work, rows, layer.wide, layer.inputs, "rnn_input")
    walk = persistent(work, layer.seq, layer.batch, layer.gates, layer.hidden, "rnn_persistent")
    return Piece((given,), (walk,))


def _walked_backward(work: Work, layer: Layer) -> Piece:
    rows = layer.seq * layer.batch
    handed = _product(work, rows, layer.inputs, layer.wide, "rnn_input_gradient", "NN")
    cell = _cell(work, layer, "rnn_cell_backward", "cell_backward")
    walk = persistent(
        work, layer.seq, layer.batch, layer.gates, layer.hidden, "rnn_persistent_backward"
    )
    return Piece((handed,), (cell, walk))


@kernel_model(
    "gpuscope::rnn",
    "aten::_cudnn_rnn",
    "aten::lstm",
    "aten::gru",
    "aten::miopen_rnn",
    "aten::rnn_tanh",
    "aten::rnn_relu",
)
def rnn(work: Work) -> tuple[Kernel, ...]:
    """Forward: a product for each piece of the input, then a product and a cell a time step."""
    if not work.outputs or not work.inputs or not work.inputs[0].numel:
        return ()
    layers, ways = _layers(work)
    if is_persistent(work, layers[0].gates, layers[0].hidden, False):
        walks = [_walked_forward(work, layer) for layer in layers]
        return forward_order(walks, len(layers) // ways, ways)
    steps = piece_steps(len(layers) // ways, ways, layers[0].seq, layers[0].batch, False)
    pieces: list[Piece] = []
    for layer in layers:
        each = _step(work, layer, layer.wide, layer.state, backward=False)
        cell = (_cell(work, layer, "rnn_cell", "cell"), *_projected(work, layer, backward=False))
        for begin in range(0, layer.seq, steps):
            size = min(steps, layer.seq - begin)
            given = _product(work, size * layer.batch, layer.wide, layer.inputs, "rnn_input")
            turned = _transposed(work, layer) if not begin else ()
            pieces.append(Piece((*turned, given), (*each, *cell) * size))
    return forward_order(pieces, len(layers) // ways, ways)


@kernel_model("gpuscope::rnn_backward", "aten::_cudnn_rnn_backward", "aten::miopen_rnn_backward")
def rnn_backward(work: Work) -> tuple[Kernel, ...]:
    """Backward: a cell and a product a step, then products for inputs, weights and biases."""
    if not work.outputs or not work.inputs or not work.inputs[0].numel:
        return ()
    layers, ways = _layers(work)
    walks = is_persistent(work, layers[0].gates, layers[0].hidden, True)
    steps = piece_steps(len(layers) // ways, ways, layers[0].seq, layers[0].batch, True)
    pieces: list[Piece] = []
    ends: list[Kernel] = []
    for layer in layers:
        wide = layer.wide
        ends += _weight_gradients(work, layer)
        if walks:
            pieces.append(_walked_backward(work, layer))
            continue
        projected = _projected(work, layer, backward=True)
        cell = (*projected, _cell(work, layer, "rnn_cell_backward", "cell_backward"))
        each = _step(work, layer, layer.state, wide, backward=True)
        for begin in range(0, layer.seq, steps):
            size = min(steps, layer.seq - begin)
            handed = _product(
                work, size * layer.batch, layer.inputs, wide, "rnn_input_gradient", "NN"
            )
            if handed.dtype == "tf32" and size < layer.seq:
                handed = _walked(work, handed, wide, size * layer.batch, 3)
            pieces.append(Piece((handed,), (*cell, *each) * size))
    weights = sum(layer.wide * (layer.inputs + layer.state) for layer in layers)
    first = (fill_kernel(work, TensorSpec((weights,), (1,), work.op.inputs[0].dtype)),)
    return backward_order(first, pieces, tuple(ends), len(layers) // ways, ways)
