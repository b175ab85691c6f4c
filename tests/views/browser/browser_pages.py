"""What the browser tests share: names of the pages that they open, scripts that run in them."""

from pathlib import Path

PAGE_NAMES = ("predicted", "ranks", "pair", "explanation", "serving", "plan", "book", "claims")


def script(name: str) -> str:
    """Return a function's JavaScript, which stands in a file after lines of comment."""
    text = Path(__file__).with_name(name).read_text("utf-8")
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("//"))
