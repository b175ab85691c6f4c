"""`torch.compile` of whole models: fewer, fused kernels, and a host that only launches.

Three modes (PyTorch's `torch.compile` documentation): the default fuses; "reduce-overhead" also
replays the kernels from CUDA graphs, so that the host launches a pass with one call;
"max-autotune" moreover measures several forms of products on the device while compiling.
Autocast lies outside of what is compiled and is traced with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.compile_reasons import (
    MASKS_RISK,
    MASKS_WHY,
    builds_masks,
    cannot_compile,
    compile_price,
    compile_why,
)
from gpuscope.advice.compiling import compile_modules, losses_named, marks_steps
from gpuscope.advice.evidence import growing_cache
from gpuscope.advice.registry import register
from gpuscope.advice.types import Case, Edit, Fit, Seen
from gpuscope.advice.unmasked import leave_masks_out
from gpuscope.errors import UnsupportedError
from gpuscope.explain.types import Words

if TYPE_CHECKING:
    from gpuscope.advice.live import Live

__all__ = ["COMPILED_MODELS", "CompileModel"]

COMPILED_MODELS = frozenset(
    {"compile", "compile-reduce-overhead", "compile-max-autotune", "compile-regional",
     "compile-unmasked", "compile-unmasked-graphs"}
)  # fmt: skip
"""Names of the changes that compile models: one of them at a time."""


class CompileModel(Change):
    """Compile every root module that has parameters.

    Args:
        name, title: of this instance.
        mode: of `torch.compile`; None: the default.
        unmasked: transformers builds no mask where none is needed, as without the compiler.
    """

    group = "compilation"
    numerics = "reordered"
    rank = 80

    def __init__(
        self, name: str, title: Words, mode: str | None = None, unmasked: bool = False
    ) -> None:
        self.name = name
        self.title = title
        self.mode = mode
        self.unmasked = unmasked
        self.searches = mode == "max-autotune"
        self.excludes = COMPILED_MODELS - {name}

    @property
    def graphs(self) -> bool:
        """Whether this mode replays CUDA graphs."""
        return self.mode is not None

    def fits(self, case: Case) -> Fit:
        """Code that is not compiled yet, on a device that Triton knows."""
        against = cannot_compile(case)
        if against is not None:
            return against
        if not self.unmasked:
            return Fit(True, compile_why(case, self.graphs))
        if not builds_masks(case):
            why = Words("No model of transformers builds masks here.", "没有会建立掩码的模型。")
            return Fit(False, why, relevant=False)
        return Fit(True, MASKS_WHY)

    def install(self, live: Live) -> None:
        """Compile each root module once it stands on its device."""

        def edit(module: Any) -> None:
            if any(True for _ in module.parameters()):
                losses_named(module)
                compile_modules(live, [module], self.mode)

        live.on_model(edit)
        if self.unmasked:
            leave_masks_out(live)
        if self.graphs:
            live.on_call(_refuses_growth)
            marks_steps(live)

    def price(self, case: Case) -> Words:
        """Seconds of compilation; memory of graphs."""
        return compile_price(case, self.mode)

    def risk(self, case: Case) -> Words | None:
        """What a graph holds is overwritten; a growing cache compiles with sizes left open."""
        if self.graphs:
            return Words(
                "Results live in the graph's memory: clone what is kept beyond a step.",
                "结果存放在图的显存里：要跨步保留的张量须先 clone。",
            )
        if not self.unmasked and builds_masks(case):
            return MASKS_RISK
        if growing_cache(case):
            return Words(
                "The key-value cache grows, so the second token compiles again, with sizes left"
                " open; with a cache of a fixed size it compiles once.",
                "KV 缓存在增长，第二个词元会以动态尺寸再编译一次；固定大小的缓存只需编译一次。",
            )
        return None

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """`model.compile(...)` after the model stands ready."""
        if self.unmasked:
            return None
        arguments = "" if self.mode is None else f'mode="{self.mode}"'
        if all(m.of_torch for m in seen.models if m.parameters):
            # `compile()` leaves torch's own modules as they are.
            given = f"{{name}}, {arguments}" if arguments else "{name}"
            line = "{name} = torch.compile(" + given + ")\n"
            return after_each_model(sources, seen, line.replace("{{name}}", "{name}"),
                                    ("import torch",))
        if any(m.of_torch for m in seen.models if m.parameters):
            return None
        return after_each_model(sources, seen, "{name}.compile(" + arguments + ")\n")


def after_each_model(
    sources: Mapping[str, str], seen: Seen, line: str, needs: tuple[str, ...] = ()
) -> tuple[Edit, ...] | None:
    """One line after each model with parameters; None where a model's place is not known.

    Args:
        sources, seen: as `Change.edits` gets them.
        line: `{name}` is the model's name there.
        needs: imports that the line needs.
    """
    from gpuscope.advice.places import model_at
    from gpuscope.advice.source import after_statement

    found: list[Edit] = []
    for model in seen.models:
        if not model.parameters:
            continue
        file = model.site.rpartition(":")[0]
        text = sources.get(file, "")
        placed = model_at(text, model.site) if text else None
        edit = placed and after_statement(
            file, text, placed.line, line.replace("{name}", placed.name), needs
        )
        if not edit:
            return None
        found.append(edit)
    return tuple(dict.fromkeys(found)) or None


def _refuses_growth(module: Any, call: Any) -> Any:
    """A call that will not record a graph for every token."""

    def called(*args: Any, **kwargs: Any) -> Any:
        cache = kwargs.get("past_key_values")
        if type(cache).__name__ == "DynamicCache" and not _is_fixed(cache):
            raise UnsupportedError(
                "A growing key-value cache cannot be replayed from CUDA graphs.",
                "Each token has other shapes, so each would record a graph of its own.",
                "Add the change static-cache, or compile without graphs.",
            )
        return call(*args, **kwargs)

    return called


def _is_fixed(cache: Any) -> bool:
    from gpuscope.advice.fixed_cache import fixed

    return bool(fixed(cache))


register(CompileModel("compile", Words("torch.compile", "torch.compile 编译")))
register(
    CompileModel(
        "compile-unmasked",
        Words("torch.compile, no mask where none is needed", "torch.compile，不建多余的掩码"),
        unmasked=True,
    )
)
register(
    CompileModel(
        "compile-unmasked-graphs",
        Words(
            "torch.compile with CUDA graphs, no mask where none is needed",
            "torch.compile 并用 CUDA 图，不建多余的掩码",
        ),
        "reduce-overhead", unmasked=True,
    )
)  # fmt: skip
register(
    CompileModel(
        "compile-reduce-overhead",
        Words("torch.compile with CUDA graphs", "torch.compile 并用 CUDA 图"), "reduce-overhead",
    )
)  # fmt: skip
register(
    CompileModel(
        "compile-max-autotune",
        Words("torch.compile, products chosen by trial", "torch.compile 并实测选择乘法算子"),
        "max-autotune",
    )
)  # fmt: skip
