"""Presentation of the explanation why a job waits."""

from collections.abc import Sequence
from dataclasses import dataclass

from matching.queries.explain.explanation import Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class Hurdle:
    """The result of one condition of the match."""

    name: str
    #: Queues that satisfy it, such as "3 of 20".
    passed: str
    #: Style of its badge: no queue, some or all.
    badge: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyView:
    """The explanation why a job waits."""

    summary: str
    #: Without the one in the summary.
    warnings: Sequence[str]
    hurdles: Sequence[Hurdle]


def why_view(explained: Explanation) -> WhyView:
    """Return the explanation for the page of a waiting job."""
    return WhyView(
        summary=explained.summary,
        warnings=[warning for warning in explained.warnings if warning != explained.summary],
        hurdles=[
            Hurdle(
                name=condition.name.replace("_", " "),
                passed=f"{condition.passed_queues} of {condition.passed_queues + condition.failed_queues}",
                badge=_look_of(condition.passed_queues, condition.failed_queues),
                detail=condition.detail,
            )
            for condition in explained.conditions
        ],
    )


def _look_of(passed: int, failed: int) -> str:
    if not passed:
        return "failed"
    return "held" if failed else "done"
