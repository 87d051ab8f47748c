"""Parts of documents that are made from the code, each between a marker and ``<!-- End. -->``."""

import re
from collections.abc import Sequence


def with_part(text: str, *, of: str, content: str) -> str:
    """Return the document with *content* between the marker of *of* and the next ``<!-- End. -->``.

    Raises:
        ValueError: the document has no such marker.
    """
    mark = re.compile(rf"(<!-- {re.escape(of)}; made by [^>]* -->\n).*?(<!-- End\. -->)", re.DOTALL)
    if not mark.search(text):
        raise ValueError(f"The document has no place for {of}.")
    return mark.sub(lambda match: f"{match[1]}\n{content}\n\n{match[2]}", text)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; cells are Markdown, except for their ``|``."""
    lines = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" if row else f"|{'---|' * len(head)}" for row in (head, (), *lines))
