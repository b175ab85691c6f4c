"""Functions that Dynamo leaves before their end.

Where Dynamo cannot go on at a call, it ends its graph, lets Python make the call, and resumes after
it. Where it cannot go on elsewhere (an attribute is read that it does not take), it cannot resume:
the rest of that function runs as it is. What that function calls is looked at anew, and so is its
caller once it has returned (torch/_dynamo/symbolic_convert.py, `step_graph_break`).
"""

from __future__ import annotations

from types import FrameType

__all__ = ["Rest", "user_frame"]

_NOT_TRACED = ("/torch/", "/gpuscope/", "<", "contextlib.py", "functools")
"""Parts of paths of code that Dynamo does not begin a graph in, and of our own."""


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame, from this one outwards, that is neither torch's nor gpuscope's."""
    while frame is not None and not _is_user(frame):
        frame = frame.f_back
    return frame


def _is_user(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return not any(part in path for part in _NOT_TRACED)


class Rest:
    """The rest of a function that runs as it is.

    Args:
        frame: of the function; None where none was found.
    """

    def __init__(self, frame: FrameType | None) -> None:
        self._frame = frame
        self._inner: FrameType | None = None

    @property
    def ended(self) -> bool:
        """Whether the function has returned: Python takes a frame out of its chain then."""
        return self._frame is None or self._frame.f_back is None

    def called(self, frame: FrameType | None) -> bool | None:
        """Whether code of the user that the function calls has just begun; None where there is
        none between `frame` and the function.

        Args:
            frame: that runs now.
        """
        inner = None
        while frame is not None and frame is not self._frame:
            if _is_user(frame):
                inner = frame
            frame = frame.f_back
        new = inner is not self._inner
        self._inner = inner
        return None if inner is None else new
