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
from gpuscope.advice.changes.evidence.compilation_fit import (
    MASKS_RISK,
    MASKS_WHY,
    builds_masks,
    cannot_compile,
    compile_price,
    compile_why,
)
from gpuscope.advice.changes.evidence.step_figures import growing_cache
from gpuscope.advice.changes.transforms.compilation import (
    compile_modules,
    losses_named,
    marks_steps,
)
from gpuscope.advice.changes.transforms.compiled_programs import in_mode
from gpuscope.advice.changes.transforms.empty_masks import leave_masks_out
from gpuscope.advice.registry import register
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.program.types import Program

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["COMPILED_MODELS", "CompileModel"]

COMPILED_MODELS = frozenset(
    {
        "compile",
        "compile-reduce-overhead",
        "compile-max-autotune",
        "compile-regional",
        "compile-unmasked",
        "compile-unmasked-graphs",
    }
)
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
        self, name: str, title: Text, mode: str | None = None, unmasked: bool = False
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

    def fits(self, case: ChangeCase) -> Fit:
        """Code that is not compiled yet, on a device that Triton knows."""
        against = cannot_compile(case)
        if against is not None:
            return against
        if not self.unmasked:
            return Fit(True, compile_why(case, self.graphs))
        if not builds_masks(case):
            why = Text("No model of transformers builds masks here.")
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

    def price(self, case: ChangeCase) -> Text:
        """Seconds of compilation; memory of graphs."""
        return compile_price(case, self.mode)

    def risk(self, case: ChangeCase) -> Text | None:
        """What a graph holds is overwritten; a growing cache compiles with sizes left open."""
        if self.graphs:
            return Text("Results live in the graph's memory: clone what is kept beyond a step.")
        if not self.unmasked and builds_masks(case):
            return MASKS_RISK
        if growing_cache(case):
            return Text(
                "The key-value cache grows, so the second token compiles again, with sizes left "
                "open; with a cache of a fixed size it compiles once."
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
            return after_each_model(
                sources, seen, line.replace("{{name}}", "{name}"), ("import torch",)
            )
        if any(m.of_torch for m in seen.models if m.parameters):
            return None
        return after_each_model(sources, seen, "{name}.compile(" + arguments + ")\n")


class CompileModelIn(CompileModel):
    """Compile every root module in another mode than the default."""

    def __init__(self, name: str, title: Text, mode: str, unmasked: bool = False) -> None:
        super().__init__(name, title, mode, unmasked)
        self.variant_of = "compile-unmasked" if unmasked else "compile"

    def transform(self, program: Program) -> Program | None:
        """The default mode's program: the same calls, marked alike."""
        return in_mode(program, self.mode or "") if program.compiled == "default" else None


def after_each_model(
    sources: Mapping[str, str], seen: Seen, line: str, needs: tuple[str, ...] = ()
) -> tuple[Edit, ...] | None:
    """One line after each model with parameters; None where a model's place is not known.

    Args:
        sources, seen: as `Change.edits` gets them.
        line: `{name}` is the model's name there.
        needs: imports that the line needs.
    """
    from gpuscope.advice.source.edits import after_statement
    from gpuscope.advice.source.places import model_at

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
                Text("A growing key-value cache cannot be replayed from CUDA graphs."),
                Text("Each token has other shapes, so each would record a graph of its own."),
                Text("Add the change static-cache, or compile without graphs."),
            )
        return call(*args, **kwargs)

    return called


def _is_fixed(cache: Any) -> bool:
    from gpuscope.advice.changes.transforms.fixed_cache import fixed

    return bool(fixed(cache))


register(CompileModel("compile", Text("torch.compile")))
register(
    CompileModel(
        "compile-unmasked", Text("torch.compile, no mask where none is needed"), unmasked=True
    )
)
register(
    CompileModelIn(
        "compile-unmasked-graphs",
        Text("torch.compile with CUDA graphs, no mask where none is needed"),
        "reduce-overhead",
        unmasked=True,
    )
)
register(
    CompileModelIn(
        "compile-reduce-overhead", Text("torch.compile with CUDA graphs"), "reduce-overhead"
    )
)
register(
    CompileModelIn(
        "compile-max-autotune", Text("torch.compile, products chosen by trial"), "max-autotune"
    )
)
