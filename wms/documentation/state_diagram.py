"""State diagrams for documents, made from the transition tables of the code."""

from collections.abc import Collection, Mapping
from typing import TypeVar

StatusT = TypeVar("StatusT", bound=str)


def diagram_of(transitions: Mapping[StatusT, Collection[StatusT]]) -> str:
    """Return a Mermaid state diagram: an arrow for each transition; the first status is the start."""
    first = next(iter(transitions))
    arrows = [f"    {source} --> {target}" for source, targets in transitions.items() for target in sorted(targets)]
    ends = [f"    {status} --> [*]" for status, targets in transitions.items() if not targets]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {first}", *arrows, *ends, "```"])
