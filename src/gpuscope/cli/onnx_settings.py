"""`--set` of an ONNX graph: sizes of its dynamic axes beside figures of the device."""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.hardware.units import field_for

Axes = tuple[tuple[str, int], ...]


def split_settings(settings: Sequence[str]) -> tuple[tuple[str, ...], Axes]:
    """Figures of the device, and sizes of the graph's axes.

    Args:
        settings: as given after --set. A whole number for a name that is no figure of a device is
            an axis' size.
    """
    own, axes = [], []
    for setting in settings:
        name, _, value = setting.partition("=")
        if value.strip().isdecimal() and not _is_figure(name.strip()):
            axes.append((name.strip(), int(value)))
        else:
            own.append(setting)
    return tuple(own), tuple(axes)


def axes_in(settings: Sequence[str]) -> Axes:
    """Sizes of axes, where --set takes nothing else.

    Raises:
        InvalidValueError: no name, or no whole number.
    """
    axes = []
    for setting in settings:
        name, _, value = setting.partition("=")
        if not name.strip() or not value.strip().isdecimal():
            raise InvalidValueError(
                Text("'{setting}' is no size of an axis.", setting=setting),
                "",
                Text("Type: --set batch=8"),
            )
        axes.append((name.strip(), int(value)))
    return tuple(axes)


def _is_figure(name: str) -> bool:
    try:
        field_for(name)
    except UnknownNameError:
        return False
    return True
