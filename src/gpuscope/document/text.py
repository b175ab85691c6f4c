"""A sentence as data: an English template that is its own key, and typed values.

A `Text` *is* its English string (it can be printed, compared and stored wherever a string can), and
it remembers how it was made, so that a view renders it in any language. Templates are literals, so
that they can be extracted; values are quantities, other texts, names (which no language
translates) or whole numbers:

>>> Text("The device works {busy} of the {step} step.", busy=Seconds(0.0123), step=Seconds(0.02))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from types import MappingProxyType
from typing import Any, TypeAlias

from gpuscope.document.language import filled, sentence_gap, translated, translated_plural
from gpuscope.document.printable import one_line
from gpuscope.document.quantities import Count, Quantity

Value: TypeAlias = "Quantity | str | int | PathLike[str] | BaseException | None"
"""What stands in a template's braces: a quantity, a text, a name (of a file, too), a whole number,
the words of an error from elsewhere."""

_NONE: Mapping[str, Value] = MappingProxyType({})


class Text(str):
    """An English template filled with its values, which every view can render in its language.

    Args:
        template: English, a literal; `{names}` stand for values. Without values it is taken as it
            is, braces included.
        values: by name; a translation need not use all of them.

    Raises:
        KeyError: the template names a value that is not given.
    """

    __slots__ = ("_render",)
    _render: tuple[Any, ...]

    def __new__(cls, template: str, /, **values: Value) -> Text:
        """Fill a template."""
        return _made(_template, template, _kept(values))

    def to(self, lang: str) -> str:
        """Return it in a language."""
        return str(self) if lang == "en" else _rendered(self._render, lang)

    @property
    def template(self) -> str:
        """The English template; "" of texts that were put together."""
        return str(self._render[1]) if self._render[0] is _template else ""

    @property
    def values(self) -> Mapping[str, Value]:
        """What stands in the template's braces."""
        return self._render[2] if self._render[0] is _template else _NONE

    @property
    def made(self) -> tuple[Any, ...]:
        """How it was made: the name of its form in `FORMS`, and the form's arguments."""
        return (_NAMES[self._render[0]], *self._render[1:])

    def __reduce__(self) -> tuple[Callable[..., Text], tuple[Any, ...]]:
        return _made, self._render


def plural(one: str, many: str, number: int, /, **values: Value) -> Text:
    """Return the form that a number takes: `plural("{count} kernel", "{count} kernels", 3)`.

    Args:
        one, many: English templates, literals; `{count}` is the number.
        number: which form.
        values: of the other braces.
    """
    return _made(_plural, one, many, number, {"count": Count(number), **_kept(values)})


def verbatim(what: Value) -> Text:
    """Return a name (of a kernel, a file, a device) or a bare figure as a text."""
    return _made(_name, what if isinstance(what, Quantity | str) else str(what))


def joined(parts: Iterable[str | None], separator: str = ", ") -> Text:
    """Return texts in a row; empty ones and None are left out.

    Args:
        parts: texts or names.
        separator: ", ", "; ", ": " or the like; the catalogue may hold another form of it.
    """
    return _made(_joined, tuple(part for part in parts if part), separator)


def sentences(*parts: str | None) -> Text:
    """Return sentences one after the other, with the gap that the language puts between them."""
    return _made(_sentences, tuple(part for part in parts if part))


def capital(text: str) -> Text:
    """Return a text with its first letter as a sentence begins."""
    return _made(_capital, text)


def render(text: Value | None, lang: str) -> str:
    """Return a value in a language: texts are translated, quantities written, names kept."""
    if text is None:
        return ""
    if isinstance(text, Text):
        return text.to(lang)
    return text.shown(lang) if isinstance(text, Quantity) else one_line(str(text))


def extracted(template: str, /, **values: Value) -> Text:
    """Return a text whose template stands elsewhere as a literal: in a table, a help string, a
    message of another process of ours."""
    return _made(_template, template, _kept(values))


def recorded(languages: Mapping[str, str]) -> Text:
    """Return a text as a document holds it, by language (see `translations.spoken`)."""
    return _made(_languages, dict(languages))


def remade(form: str, *arguments: Any) -> Text:
    """Return the text of which `Text.made` says this.

    Raises:
        KeyError: there is no such form.
    """
    return _made(FORMS[form], *arguments)


def _made(form: Callable[..., str], *arguments: Any) -> Text:
    text = str.__new__(Text, form("en", *arguments))
    text._render = (form, *arguments)
    return text


def _kept(values: Mapping[str, Value]) -> dict[str, Value]:
    """Values that can be saved and sent to another process: all others as they read now."""
    return {
        key: value if isinstance(value, Quantity | str | int) else _words(value)
        for key, value in values.items()
    }


def _words(value: Value) -> str:
    """A path or None as it reads; an error's words in one line."""
    return " ".join(str(value).split()) if isinstance(value, BaseException) else str(value)


def _rendered(how: tuple[Any, ...], lang: str) -> str:
    form, *arguments = how
    return str(form(lang, *arguments))


def _template(lang: str, template: str, values: Mapping[str, Value]) -> str:
    return _filled(translated(template, lang), values, lang)


def _plural(lang: str, one: str, many: str, number: int, values: Mapping[str, Value]) -> str:
    return _filled(translated_plural(one, many, number, lang), values, lang)


def _filled(template: str, values: Mapping[str, Value], lang: str) -> str:
    if not values:
        return template
    return filled(template, {key: render(value, lang) for key, value in values.items()}, lang)


def _name(lang: str, what: Value) -> str:
    return render(what, lang)


def _languages(lang: str, languages: Mapping[str, str]) -> str:
    return languages.get(lang) or languages["en"]


def _joined(lang: str, parts: tuple[str, ...], separator: str) -> str:
    between = separator if lang == "qps" else translated(separator, lang)
    row = between.join(f"{{part{at}}}" for at in range(len(parts)))
    return filled(row, {f"part{at}": render(part, lang) for at, part in enumerate(parts)}, lang)


def _sentences(lang: str, parts: tuple[str, ...]) -> str:
    return sentence_gap(lang).join(render(part, lang) for part in parts)


def _capital(lang: str, text: str) -> str:
    shown = render(text, lang)
    return shown[:1].upper() + shown[1:]


FORMS: Mapping[str, Callable[..., str]] = {
    "template": _template,
    "plural": _plural,
    "name": _name,
    "joined": _joined,
    "sentences": _sentences,
    "capital": _capital,
    "languages": _languages,
}
"""Every way a text is made, by the name it has in a saved document."""

_NAMES: Mapping[Callable[..., str], str] = {form: name for name, form in FORMS.items()}
