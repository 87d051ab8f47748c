"""Parts of documents that are made from the code, each between a marker and ``<!-- End. -->``."""

import re


def with_part(text: str, *, of: str, content: str) -> str:
    """Return the document with *content* between the marker of *of* and the next ``<!-- End. -->``.

    Raises:
        ValueError: the document has no such marker.
    """
    mark = re.compile(rf"(<!-- {of}; made by [^>]* -->\n).*?(<!-- End\. -->)", re.DOTALL)
    if not mark.search(text):
        raise ValueError(f"The document has no place for {of}.")
    return mark.sub(lambda match: f"{match[1]}{content}\n{match[2]}", text)
