"""The pages of pilots."""

import re

import pytest
from django.test import Client

from pilots.domain.logs import LogPart
from pilots.models import Pilot
from pilots.services import logs
from taskqueues.domain.conditions import CONDITIONS
from tests.admin.conftest import RowsOfVO, change, changelist
from tests.factories import NOW

pytestmark = pytest.mark.django_db


def test_the_page_shows_the_last_empty_match_and_its_last_condition(manager: Client, mine: RowsOfVO) -> None:
    left = {name: 12 if number < 9 else 0 for number, name in enumerate(CONDITIONS)}
    Pilot.objects.update(nothing_at=NOW, nothing_left=left)
    page = manager.get(change(mine.pilot)).content.decode()
    assert re.findall(r"<div>(\w+: \d+)</div>", page) == [f"{name}: {count}" for name, count in left.items()]
    assert "<td>last empty match</td><td>2026-06-01 12:00:00 UTC</td>" in page
    assert "2026-06-01 12:00:00 UTC" in manager.get(changelist(Pilot)).content.decode()


def test_the_page_says_when_a_pilot_had_no_empty_match(manager: Client, mine: RowsOfVO) -> None:
    page = manager.get(change(mine.pilot)).content.decode()
    assert not re.findall(r"<div>(\w+: \d+)</div>", page)


def test_the_page_shows_times_node_check_and_log_as_plain_text(manager: Client, mine: RowsOfVO) -> None:
    checks = [{"name": "disk", "ok": True, "detail": "40 GB"}, {"name": "clock", "ok": False, "detail": "<i>late</i>"}]
    node = {"ok": False, "batch_id": "4711", "cores": 8, "checks": checks}
    Pilot.objects.update(started_at=NOW, node=node)
    logs.append(LogPart(offset=0, text="one <script>\n"), pilot_id=mine.pilot.pk, now=NOW)
    logs.keep_output("two <script>\n", pilot_id=mine.pilot.pk, now=NOW)
    page = manager.get(change(mine.pilot)).content.decode()
    assert "<td>started</td><td>2026-06-01 12:00:00 UTC</td>" in page
    assert "<td>ended</td>" not in page
    assert "<td>disk</td><td>fit</td><td>40 GB</td>" in page
    assert "<td>clock</td><td>not fit</td><td>&lt;i&gt;late&lt;/i&gt;</td>" in page
    assert "<td>Cores</td><td>8</td>" in page
    assert "<pre>one &lt;script&gt;\n</pre></div>" in page
    assert "<pre>two &lt;script&gt;\n</pre></div>" in page


def test_a_pilot_without_a_log_or_a_node_check_has_a_page(manager: Client, mine: RowsOfVO) -> None:
    page = manager.get(change(mine.pilot)).content.decode()
    assert "pilot-log" not in page
    assert '<div class="readonly">None</div>' not in page
    assert "<td>submitted</td>" in page


def test_the_page_shows_sizes_lists_and_missing_requirements_in_words(manager: Client, mine: RowsOfVO) -> None:
    flaws = [{"name": "software", "detail": "missing: <b>", "at": "2026-06-01T12:00:00+00:00"}]
    scratch = [{"variable": "TMPDIR", "path": "/scratch", "free_mb": 77814.6, "flaw": None}]
    node = {"memory_mb": 24105.1484375, "scratch": scratch, "container_runtime": None, "flaws": flaws}
    Pilot.objects.update(node=node, slot={"queue": "grid", "wall_time_s": 86400, "gpus": 0, "tags": []})
    page = manager.get(change(mine.pilot)).content.decode()
    assert "<td>Memory</td><td>24 GB</td>" in page
    assert "<td>Scratch directories</td><td>/scratch (TMPDIR): 76 GB free</td>" in page
    assert "<td>Container runtime</td><td>–</td>" in page
    assert "<td>2026-06-01 12:00:00 UTC</td><td>software</td><td>missing: &lt;b&gt;</td>" in page
    assert '<table class="facts"><tr><td>Queue</td><td>grid</td></tr>\n<tr><td>Wall time</td><td>24 h</td></tr>' in page
