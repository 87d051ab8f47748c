"""Tags and filters of all pages: icons, statuses, times, figures, bars."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from taskqueues.services import reverts
from wms.accounts.models import User
from wms.accounts.queries import HistoryEntry
from wms.kernel import time_texts
from wms.portal.pages import NAVIGATION, Header, header_of
from wms.portal.presentation.columns import Cell, CellKind
from wms.portal.presentation.statuses import Segment, badge_of, icon_of

register = template.Library()

_ICONS: Final = Path(__file__).parents[1] / "static/portal/vendor/lucide"


@register.simple_tag
@cache
def icon(name: str) -> SafeString:
    """Return an icon of Lucide as inline SVG, which screen readers skip.

    Raises:
        FileNotFoundError: there is no such icon among the vendored ones.
    """
    drawing = (_ICONS / f"{name}.svg").read_text()
    shapes = "".join(re.findall(r"<(?!svg|!|/)[^>]*/>", drawing))
    attributes = 'viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round"'
    return mark_safe(f'<svg class="icon" {attributes} stroke-linejoin="round" aria-hidden="true">{shapes}</svg>')  # noqa: S308 - our own file


@cache
def _sections() -> frozenset[str]:
    """Return the addresses of the navigation, except that of the first page."""
    return frozenset(reverse(link.url_name) for link in NAVIGATION) - {reverse("portal:home")}


@register.simple_tag(takes_context=True)
def current(context: template.Context, address: str) -> SafeString:
    """Return the attribute of a link to this page, or to the section that it is in."""
    path = getattr(context.get("request"), "path", "")
    if path == address:
        return mark_safe(' aria-current="page"')
    # The nearest section above the page; every page is below the first one, which is none.
    sections = _sections()
    nearest = max((section for section in {address, *sections} if path.startswith(section)), key=len, default="")
    is_within = nearest == address != reverse("portal:home")
    return mark_safe(' aria-current="true"') if is_within else SafeString()


@register.simple_tag
def figure_rows(rows: Sequence[Sequence[str]]) -> SafeString:
    """Return the rows of a table of figures: thousands of cells, which take a template twice as long."""
    cells = ("<td>".join(map(html.escape, row)) for row in rows)
    return mark_safe("".join(f"<tr><td>{line}</tr>" for line in cells))  # noqa: S308 - escaped


@register.simple_tag
@cache
def status(name: str, has_lost_output: bool = False) -> SafeString:  # noqa: FBT001, FBT002 - from templates
    """Return the badge of a job's status: an icon and the status as text; with lost output, Done is not green."""
    if has_lost_output:
        return format_html('<span class="badge held">{}{}, output lost</span>', icon("triangle-alert"), name)
    return format_html('<span class="badge {}">{}{}</span>', badge_of(name), icon(icon_of(name)), name)


@register.filter
def has_revert(entry: HistoryEntry) -> bool:
    """Return whether a change is of a kind that can be reverted."""
    return reverts.has_revert(row_type=entry.row_type, what=entry.what, changes=entry.changed)


@register.simple_tag
def when(moment: datetime | None) -> SafeString:
    """Return a time in UTC, which a script shows relative to now; a dash for None."""
    if moment is None:
        return mark_safe("–")
    utc = moment.astimezone(UTC)
    iso, text = utc.isoformat(timespec="seconds"), f"{utc:%Y-%m-%d %H:%M:%S}"
    return format_html('<time datetime="{}" data-relative>{}</time>', iso, text)


@register.filter
def figure(number: float | None) -> str:
    """Return a number with separators between thousands; a dash for None."""
    return "–" if number is None else f"{number:,}"


@register.filter
def duration(seconds: float | None) -> str:
    """Return a duration as ``time_texts.duration``; a dash for None. A negative one, of clocks that differ, is 0."""
    return "–" if seconds is None else time_texts.duration(max(0, seconds))


@register.simple_tag
def cell(value: Cell) -> SafeString:
    """Return a cell of the list of jobs: a page has hundreds, which take a template four times as long."""
    shown, more = _CELLS[value.kind](value.value), ""
    if value.kind in {CellKind.WHY, CellKind.TEXT}:
        more = format_html(' title="{}"', value.value or "")
    return format_html('<td class="{}" data-label="{}"{}>{}</td>', _CLASSES[value.kind], value.label, more, shown)


@register.simple_tag
def progress(segments: Sequence[Segment]) -> SafeString:
    """Return a bar whose parts are as wide as their counts; its text lists them."""
    shown = [segment for segment in segments if segment.count > 0]
    total = sum(segment.count for segment in shown)
    starts = [sum(segment.count for segment in shown[:position]) for position in range(len(shown))]
    parts = format_html_join(
        "",
        '<rect class="{}" x="{}" width="{}" height="1"><title>{}</title></rect>',
        (
            (segment.kind, f"{100 * start / total:.3f}", f"{100 * segment.count / total:.3f}", _words(segment))
            for segment, start in zip(shown, starts, strict=True)
        ),
    )
    text = ", ".join(map(_words, shown)) or "nothing"
    attributes = mark_safe('class="progress" viewBox="0 0 100 1" preserveAspectRatio="none" role="img"')
    return format_html('<svg {} aria-label="{}">{}</svg>', attributes, text, parts)


def _words(segment: Segment) -> str:
    return f"{segment.count:,} {segment.label}"


_CLASSES: Final[Mapping[CellKind, str]] = {
    CellKind.TEXT: "text",
    CellKind.WHY: "quiet why",
    CellKind.NUMBER: "number",
    CellKind.DURATION: "number",
    CellKind.TIME: "time",
}
_CELLS: Final[Mapping[CellKind, Callable[[Any], str]]] = {
    CellKind.TEXT: lambda text: text or "–",
    CellKind.WHY: str,
    CellKind.NUMBER: figure,
    CellKind.DURATION: duration,
    CellKind.TIME: when,
}


@register.simple_tag(takes_context=True)
def header_of_caller(context: template.Context) -> Header | None:
    """Return the header for the user of the request; None: nobody is logged in."""
    user = getattr(context.get("request"), "user", None)
    return header_of(user) if isinstance(user, User) else None
