"""What engines make of a graph before it runs: patterns of nodes that become one node.

Each fusion takes a `Nodes` and changes it in place. Source of the patterns: ONNX Runtime's
`onnxruntime/core/optimizer` (one file a fusion there), TensorRT's developer guide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from gpuscope.program.onnx.graph import Constant, Graph, Node

__all__ = ["FUSIONS", "fused_graph"]


class Nodes:
    """Nodes of one graph that may be replaced: who makes and who reads each value."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node | None] = list(graph.nodes)
        self.maker = {o: i for i, n in enumerate(graph.nodes) for o in n.outputs}
        self.readers: dict[str, list[int]] = {}
        for i, node in enumerate(graph.nodes):
            for name in node.inputs:
                self.readers.setdefault(name, []).append(i)
        inner = Counter(
            name
            for n in graph.nodes
            for b in n.bodies.values()
            for m in b.nodes
            for name in m.inputs
        )
        self.kept = {*graph.outputs, *inner}

    def after(self, node: Node, *kinds: str) -> Node | None:
        """The only reader of a node's first result, if it is of one of these kinds."""
        name = node.outputs[0]
        readers = self.readers.get(name, [])
        if name in self.kept or len(set(readers)) != 1:
            return None
        found = self.nodes[readers[0]]
        return found if found is not None and not found.domain and found.kind in kinds else None

    def before(self, name: str, *kinds: str) -> Node | None:
        """The node that makes a value, if it is of one of these kinds."""
        index = self.maker.get(name)
        found = None if index is None else self.nodes[index]
        return found if found is not None and not found.domain and found.kind in kinds else None

    def constant(self, name: str) -> Constant | None:
        """A fixed tensor of that name."""
        return self.graph.constants.get(name)

    def put(self, gone: list[Node], made: Node) -> None:
        """One node instead of several, where the last of them was."""
        places = sorted(self._place(node) for node in gone)
        for place in places:
            self.nodes[place] = None
        self.nodes[places[-1]] = made
        for name in made.outputs:
            self.maker[name] = places[-1]
        for name in made.inputs:
            readers = [r for r in self.readers.get(name, []) if r not in places]
            self.readers[name] = [*readers, places[-1]]

    def _place(self, node: Node) -> int:
        return next(i for i, each in enumerate(self.nodes) if each is node)


def _other(node: Node, name: str) -> str:
    """The other of a node's two inputs."""
    return node.inputs[1] if node.inputs[0] == name else node.inputs[0]


def batch_norm_into_conv(nodes: Nodes) -> None:
    """Weights of a convolution are scaled when the model is loaded (ConvBNFusion)."""
    for conv in [n for n in nodes.nodes if n is not None and n.kind == "Conv"]:
        norm = nodes.after(conv, "BatchNormalization")
        if norm is not None:
            inputs = (*conv.inputs[:2], norm.inputs[2])  # a bias of that size
            nodes.put([conv, norm], replace(conv, inputs=inputs, outputs=norm.outputs))


def matmul_add(nodes: Nodes) -> None:
    """A bias is added by the library (MatMulAddFusion)."""
    for product in [n for n in nodes.nodes if n is not None and n.kind == "MatMul"]:
        weight = nodes.constant(product.inputs[1])
        add = nodes.after(product, "Add")
        if add is None or weight is None or len(weight.shape) != 2:
            continue
        bias = nodes.constant(_other(add, product.outputs[0]))
        if bias is not None and bias.shape == weight.shape[1:]:
            inputs = (*product.inputs, _other(add, product.outputs[0]))
            made = replace(
                product, kind="MatMulAdd", domain="gpuscope", inputs=inputs, outputs=add.outputs
            )
            nodes.put([product, add], made)


def erf_gelu(nodes: Nodes) -> None:
    """x / sqrt 2, erf, + 1, * x, * 0.5 in any order is GELU (GeluFusion)."""
    for erf in [n for n in nodes.nodes if n is not None and n.kind == "Erf"]:
        scaled = nodes.before(erf.inputs[0], "Div", "Mul")
        plus = nodes.after(erf, "Add")
        if scaled is None or plus is None or nodes.constant(scaled.inputs[1]) is None:
            continue
        x, gone = scaled.inputs[0], [scaled, erf, plus]
        last = plus
        for _ in range(2):
            following = nodes.after(last, "Mul")
            if following is None:
                break
            other = _other(following, last.outputs[0])
            half = nodes.before(other, "Mul")
            if half is not None and half.inputs[0] == x and nodes.constant(half.inputs[1]):
                gone.append(half)
            elif other != x and nodes.constant(other) is None:
                break
            gone.append(following)
            last = following
        if last is not plus:
            made = Node(last.name, "Gelu", "", (x,), last.outputs)
            nodes.put(gone, made)


def skip_norm(nodes: Nodes) -> None:
    """A sum and the norm that reads it are one kernel (SkipLayerNormFusion)."""
    for norm in [n for n in nodes.nodes if n is not None and n.kind == "LayerNormalization"]:
        add = nodes.before(norm.inputs[0], "Add")
        if add is None or any(nodes.constant(name) is not None for name in add.inputs):
            continue
        total = add.outputs[0]
        wanted = total in nodes.kept or len(set(nodes.readers[total])) > 1
        outputs = (norm.outputs[0], "", "", total) if wanted else norm.outputs[:1]
        first = min(nodes.readers[total])
        if wanted and nodes.nodes[first] is not norm:
            continue  # something reads the sum before the norm runs
        made = Node(
            norm.name,
            "SkipLayerNormalization",
            "com.microsoft",
            (*add.inputs, *norm.inputs[1:]),
            outputs,
        )
        nodes.put([add, norm], made)


_STEPS = ("Softmax", "Add", "Mul", "Div")


def attention(nodes: Nodes) -> None:
    """Scores, their factor and mask, softmax and the product with the values are one kernel."""
    for soft in [n for n in nodes.nodes if n is not None and n.kind == "Softmax"]:
        last = nodes.after(soft, "MatMul")
        if last is None or last.inputs[0] != soft.outputs[0]:
            continue
        gone, name, mask = [soft, last], soft.inputs[0], ""
        while (step := nodes.before(name, "Add", "Mul", "Div")) is not None:
            side = 0 if nodes.before(step.inputs[0], "MatMul", "Mul", "Div", "Add") else 1
            if step.kind == "Add":
                mask = step.inputs[1 - side]
            gone.append(step)
            name = step.inputs[side]
        scores = nodes.before(name, "MatMul")
        if scores is None or any(nodes.after(n, *_STEPS) is None for n in gone[2:]):
            continue
        keys = _unscaled(nodes, scores.inputs[1])
        if _is_turned(nodes, keys):
            inputs = (_unscaled(nodes, scores.inputs[0]), keys, last.inputs[1], mask)
            made = Node(last.name, "Attention", "gpuscope", inputs, last.outputs)
            nodes.put([*gone, scores], made)


def _unscaled(nodes: Nodes, name: str) -> str:
    """A value before it was multiplied with a number."""
    scaled = nodes.before(name, "Mul")
    number = nodes.constant(scaled.inputs[1]) if scaled else None
    return scaled.inputs[0] if scaled and number and not number.shape else name


def _is_turned(nodes: Nodes, name: str) -> bool:
    """Whether keys were turned for the product with the queries, right before."""
    shaped = nodes.before(name, "Reshape")
    turned = nodes.before(shaped.inputs[0] if shaped else name, "Transpose")
    perm = list(turned.attributes.get("perm") or []) if turned else []
    return perm[-1:] == [len(perm) - 2] or perm == [0, 2, 3, 1]


FUSIONS: Mapping[str, Callable[[Nodes], None]] = {
    each.__name__: each
    for each in (batch_norm_into_conv, matmul_add, erf_gelu, skip_norm, attention)
}
"""Fusions by the names that engines' files use."""


def fused_graph(graph: Graph, names: tuple[str, ...]) -> Graph:
    """The graph after these fusions, one after the other."""
    for name in names:
        nodes = Nodes(graph)
        FUSIONS[name](nodes)
        graph = replace(graph, nodes=tuple(node for node in nodes.nodes if node is not None))
    return graph
