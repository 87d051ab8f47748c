"""What is printed for people: plain lines and tables."""

from collections.abc import Iterable, Sequence


def plain(value: object) -> str:
    """Return a value as text that cannot steer a terminal, whoever wrote it."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(value))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table whose columns are as wide as they need."""
    texts = [list(head), *([plain(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in texts]
