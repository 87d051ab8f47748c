"""The query of a director: which task queues it serves, as a ClassAd expression (PIL §2.3 (i))."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from resources.domain.classad import ClassAd, ClassAdError, Expression, classad_of, is_true, parse_expression
from resources.domain.throttle_conditions import JOB_ATTRIBUTES, MAX_STEPS
from wms.kernel.names import did_you_mean

_NOTHING: Final = classad_of({})
#: {name in lower case: name} of the attributes of a task queue.
_SPELLED: Final = {name.lower(): name for name in JOB_ATTRIBUTES}


@dataclass(frozen=True, slots=True)
class DirectorQuery:
    """An expression in which names, with or without ``TARGET.``, are attributes of a task queue."""

    #: None: the text is not an expression, and no task queue is served.
    expression: Expression | None
    #: The attributes of a task queue on which it may depend, sorted.
    names: tuple[str, ...]

    def accepts(self, task_queue: ClassAd, *, now: int) -> bool:
        """Return whether it is exactly TRUE of a task queue.

        Args:
            task_queue: its attributes (``taskqueues.services.classads``).
            now: ``time()``, in seconds since 1970.
        """
        return self.expression is not None and is_true(self.expression, target=task_queue, now=now, max_steps=MAX_STEPS)


@lru_cache(maxsize=100)
def query_of(requirements: str) -> DirectorQuery:
    """Return the query with these requirements of a director."""
    try:
        expression = parse_expression(requirements)
    except ClassAdError:
        return DirectorQuery(None, ())
    names = expression.reach(_NOTHING).in_target
    return DirectorQuery(expression, tuple(sorted(_SPELLED[name] for name in names if name in _SPELLED)))


def flaw_of(requirements: str) -> str:
    """Return what is wrong with the requirements of a director, in one sentence without capital; empty: nothing."""
    try:
        reach = parse_expression(requirements).reach(_NOTHING)
    except ClassAdError as error:
        return f"not a ClassAd expression: {error}"
    for name in sorted(reach.elsewhere):
        attribute = name[len("TARGET.") :] if name.lower().startswith("target.") else name
        if attribute.lower() not in _SPELLED:
            hint = did_you_mean(attribute, JOB_ATTRIBUTES) or f" There are {', '.join(JOB_ATTRIBUTES)}."
            return f'a task queue has no attribute "{attribute}".{hint}'
    return ""
