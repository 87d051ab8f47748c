"""HTML for notebooks: tables that need no style sheet and no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

#: Statuses in the order of the bar, with their colours; the others are grey.
_COLOURS = {"Done": "#2e7d32", "Failed": "#c62828", "Killed": "#6d4c41", "Running": "#1565c0", "Completing": "#1565c0"}
_GREY = "#bdbdbd"


def submission_html(
    submission_id: str,
    counts: Mapping[str, int],
    *,
    failures: Sequence[tuple[int, str]] = (),
    warnings: Sequence[str] = (),
) -> str:
    """Return a submission as a progress bar, a table of statuses, and tables of failures and warnings.

    Args:
        submission_id: its id.
        counts: {status: number of jobs}.
        failures: (id, reason) of some failed jobs.
        warnings: sentences.
    """
    total = sum(counts.values())
    ordered = sorted(counts, key=lambda status: (list(_COLOURS).index(status) if status in _COLOURS else 99, status))
    bar = "".join(
        f'<div title="{escape(f"{status}: {counts[status]}")}" style="background:{_COLOURS.get(status, _GREY)};'
        f'width:{100 * counts[status] / total:.2f}%"></div>'
        for status in ordered
    )
    words = ", ".join(f"{counts[status]} {status}" for status in ordered)
    parts = [
        f"<p><b>Submission</b> <code>{escape(submission_id)}</code>, {total} jobs</p>",
        f'<div role="img" aria-label="{escape(words)}" style="display:flex;height:12px;max-width:480px">{bar}</div>',
        _table(("Status", "Jobs"), [(status, str(counts[status])) for status in ordered]),
    ]
    if failures:
        parts.append(_table(("Failed job", "Reason"), [(str(job_id), reason) for job_id, reason in failures]))
    if warnings:
        parts.append(_table(("Warning",), [(sentence,) for sentence in warnings]))
    return f"<div>{''.join(parts)}</div>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heading = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{lines}</tbody></table>"
