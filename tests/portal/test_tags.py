"""Template tags of all pages."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.template import Context, Template

from wms.jobs.domain.lifecycle import JobStatus
from wms.portal.presentation.statuses import BADGES, ICONS, Segment
from wms.portal.templatetags.portal import duration, figure, icon, progress, when


def test_every_status_has_an_icon_that_is_there_and_its_own_text() -> None:
    assert ICONS.keys() == BADGES.keys() == set(JobStatus)
    assert len(set(ICONS.values())) == len(ICONS)
    for status in JobStatus:
        badge = Template("{% load portal %}{% status name %}").render(Context({"name": status}))
        assert f"</svg>{status}</span>" in badge
        assert "<path" in badge or "<circle" in badge or "<rect" in badge


def test_an_icon_has_its_shapes_and_nothing_that_runs_or_styles() -> None:
    drawing = icon("search")
    assert drawing.count("<svg") == drawing.count("</svg>") == 1
    assert "<circle" in drawing
    assert "style=" not in drawing
    with pytest.raises(FileNotFoundError):
        icon("no-such-icon")


def test_a_time_is_in_utc_for_readers_and_machines() -> None:
    moment = datetime(2026, 11, 26, 1, 30, tzinfo=timezone(timedelta(hours=1)))
    assert when(moment) == '<time datetime="2026-11-26T00:30:00+00:00" data-relative>2026-11-26 00:30:00</time>'
    assert when(None) == "–"
    assert when(datetime(2026, 1, 1, tzinfo=UTC)).count("2026-01-01") == 2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3599, "59 min 59 s"),
        (7500, "2 h 05 min"),
        (90000, "25 h"),
        (-5, "0 s"),
        (None, "–"),
    ],
)
def test_a_duration_is_in_words(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_figures_have_separators() -> None:
    assert [figure(1234567), figure(0), figure(None)] == ["1,234,567", "0", "–"]


def test_a_bar_is_as_wide_as_its_counts_and_names_them() -> None:
    segments = [Segment(kind="done", label="<b>done</b>", count=3), Segment(kind="failed", label="failed", count=1)]
    bar = progress([*segments, Segment(kind="held", label="held", count=0)])
    assert 'aria-label="3 &lt;b&gt;done&lt;/b&gt;, 1 failed"' in bar
    assert '<rect class="done" x="0.000" width="75.000"' in bar
    assert '<rect class="failed" x="75.000" width="25.000"' in bar
    assert "held" not in bar
    assert 'aria-label="nothing"' in progress([])
