"""A change that rewrites functions of the user's own source, live and as a patch alike."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from gpuscope.advice.change import Change
from gpuscope.advice.source.patches import user_sources
from gpuscope.advice.source.rewriting import rewrite
from gpuscope.advice.types import NO_CODE, ChangeCase, Edit, Fit, Seen
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.program.user_code import is_library

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["SourceChange", "is_own", "own_functions"]


class SourceChange(Change):
    """Replace what some functions of the models' own files spell out.

    Class attributes:
        nothing: said where no source has one.
        failed: what is told, why and what to do where the source that runs has none after all.
    """

    nothing: ClassVar[Text]
    failed: ClassVar[tuple[str, str, str]]

    @abstractmethod
    def candidates(self, text: str) -> Sequence[Any]:
        """The functions of a source text that can be rewritten, as nodes of its syntax tree."""

    @abstractmethod
    def rewritten(self, file: str, text: str, function: Any) -> tuple[Edit, ...]:
        """The edits that rewrite one of them."""

    @abstractmethod
    def reason(self, case: ChangeCase) -> Text:
        """Why it should help, where the source can be rewritten."""

    def functions(self, model: Any) -> Iterator[Any]:
        """Live functions of a model that could be rewritten: methods of the user's own classes."""
        for cls in {type(module) for module in model.modules()}:
            yield from own_functions(cls)

    def fits(self, case: ChangeCase) -> Fit:
        """It needs source of the user's own that can be followed."""
        if case.seen is None or case.program is None:
            return NO_CODE
        texts = _model_sources(user_sources(case.seen), case.seen).values()
        if not any(self.candidates(text) for text in texts):
            return Fit(False, self.nothing, relevant=False)
        return Fit(True, self.reason(case))

    def install(self, live: Live) -> None:
        """Rewrite the functions as they stand."""
        done: list[str] = []
        tried: set[int] = set()

        def edit(model: Any) -> None:
            for function in self.functions(model):
                if id(function) not in tried:
                    tried.add(id(function))
                    if rewrite(live, function, self.rewritten):
                        done.append(function.__qualname__)

        def check(step: Any) -> Any:
            if not done:
                raise UnsupportedError(*self.failed)
            return step

        live.on_model(edit)
        live.on_step(check)

    def edits(self, sources: Mapping[str, str], seen: Seen) -> tuple[Edit, ...] | None:
        """The same edits, in the files that define the models."""
        found = [
            edit
            for file, text in _model_sources(sources, seen).items()
            for function in self.candidates(text)
            for edit in self.rewritten(file, text, function)
        ]
        return tuple(found) or None


def own_functions(cls: type) -> Iterator[Any]:
    """Functions in a class that the user's own source defines."""
    yield from (function for function in vars(cls).values() if is_own(function))


def is_own(function: Any) -> bool:
    """Whether it is a function that the user's own source defines."""
    return inspect.isfunction(function) and not is_library(function.__code__.co_filename)


def _model_sources(sources: Mapping[str, str], seen: Seen) -> dict[str, str]:
    """Texts of the user's files that define classes of the models."""
    files = {file for model in seen.models for file in model.files}
    return {file: text for file, text in sources.items() if file in files}
