"""State diagrams in documents, made from the transition tables of the code."""

import re
from collections.abc import Collection, Mapping
from typing import TypeVar

StatusT = TypeVar("StatusT", bound=str)


def diagram_of(transitions: Mapping[StatusT, Collection[StatusT]]) -> str:
    """Return a Mermaid state diagram: an arrow for each transition; the first status is the start."""
    first = next(iter(transitions))
    arrows = [f"    {source} --> {target}" for source, targets in transitions.items() for target in sorted(targets)]
    ends = [f"    {status} --> [*]" for status, targets in transitions.items() if not targets]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {first}", *arrows, *ends, "```"])


def with_diagram(text: str, *, of: str, diagram: str) -> str:
    """Return the document with *diagram* between the marker of *of* and the next ``<!-- End. -->``.

    Raises:
        ValueError: the document has no such marker.
    """
    mark = re.compile(rf"(<!-- {of}; made by [^>]* -->\n).*?(<!-- End\. -->)", re.DOTALL)
    if not mark.search(text):
        raise ValueError(f"The document has no place for the diagram of {of}.")
    return mark.sub(lambda match: f"{match[1]}{diagram}\n{match[2]}", text)
