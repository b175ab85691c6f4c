"""What goes wrong between a client and a server: a sentence each, and what to type next."""

from __future__ import annotations

from gpuscope.document.printable import one_line
from gpuscope.document.text import Text, sentences
from gpuscope.errors import GpuscopeError

MOST_WORDS = 200
"""Characters of the server's own words that are passed on."""


class ServerError(GpuscopeError):
    """A server that cannot be asked, or answers none of what was asked.

    Attributes:
        status: of HTTP; 0 where there was none.
    """

    def __init__(self, what: str, why: str = "", next_step: str = "", status: int = 0) -> None:
        self.status = status
        super().__init__(what, why, next_step)


class NoAnswerError(ServerError):
    """All requests of a run failed: there is nothing to tell of."""

    exit_code = 1


class ReplyError(Exception):
    """An answer that is none; `args[0]` is a `Text` without the request's own figures, so that
    equal failures are counted together."""

    @property
    def reason(self) -> str:
        """What went wrong."""
        return str.__str__(self.args[0]) if not isinstance(self.args[0], Text) else self.args[0]


CLOSED_EARLY = Text("The server closed the connection before the answer was whole.")
NO_TOKENS = Text("The answer ended without a token.")
NOT_STREAMING = Text("The answer came whole, not as a stream.")
GARBAGE = Text("The stream holds what is no JSON.")
LONG_LINE = Text("A line of the stream is longer than 1 MiB.")
LONG_BODY = Text("The answer is longer than 256 MiB.")
NO_HTTP = Text("The answer is no HTTP.")
TOO_SLOW = Text("No whole answer within the time limit.")
UNREACHABLE = Text("The connection failed.")

_NEXT = {
    401: Text("Type: export OPENAI_API_KEY=... and run it again."),
    403: Text("Type: export OPENAI_API_KEY=... and run it again."),
    404: Text("Give the name that the server knows: --model NAME; or try --api chat."),
    400: Text("Try shorter requests: --input 128 --output 32; or --api chat, or --prompts words."),
    422: Text("Try --api chat, or --prompts words."),
    429: Text("Ask for less: a lower --rate or --concurrency."),
    503: Text("Wait until the server has loaded its model, and run it again."),
}

_NEXT_OF = {
    CLOSED_EARLY: Text("Look into the server's own log."),
    NO_TOKENS: Text("Look into the server's own log; or try --api chat."),
    NOT_STREAMING: Text("Turn streaming on in the server, or in the proxy before it."),
    TOO_SLOW: Text("Ask for less (--rate, --output), or allow more time: --timeout 20m"),
}


def refused(status: int, words: str) -> Text:
    """What an HTTP status other than 200 says, with the server's own words."""
    said = one_line(" ".join(words.split()))[:MOST_WORDS]
    what = Text("The server answered {status}.", status=status)
    return sentences(what, Text("It says: {words}", words=said)) if said else what


def next_step(reason: str, status: int = 0, probe: str = "") -> str:
    """What to type about a reason; `probe` is where any such server says something."""
    if reason == UNREACHABLE:
        return Text("Is the server up? Try: curl {url}", url=probe)
    found = _NEXT.get(status) or _NEXT_OF.get(reason)  # type: ignore[call-overload]
    return found or Text("Look into the server's own log.")


def unanswered(reason: Text, address: str, path: str, probe: str, status: int = 0) -> ServerError:
    """The error of a server that was asked for a path and gave no answer that serves.

    Args:
        reason: what went wrong.
        address: of the server.
        path: that was asked for.
        probe: path at which any server of its kind says something.
        status: of HTTP; 0 where there was none.
    """
    if reason == UNREACHABLE:
        return ServerError(
            Text("No server can be reached at {url}.", url=address),
            reason,
            next_step(reason, 0, f"{address}{probe}"),
        )
    asked = Text("It was asked for {path}.", path=f"{address}{path}")
    return ServerError(reason, asked, next_step(reason, status), status)
