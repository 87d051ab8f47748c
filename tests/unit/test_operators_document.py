"""Numbers and tables of the guide for operators, compared with the settings, the agent and the events of the log."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from django.conf import settings

from pilots.agent.job.completion import OUTPUT_S
from pilots.agent.job.heartbeat import LONGEST_CALL_S, RETRY_LIMIT_S
from wms.jobs.services.transitions import EVENTS
from wms.kernel.life import LifeEvent

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
#: Backoff prolongs a delay by up to one half.
LONGEST_PAUSE_S: Final = RETRY_LIMIT_S * 1.5


def number(pattern: str) -> int:
    """Return the number that the page names once, by its pattern."""
    (found,) = re.findall(pattern, PAGE)
    return int(found)


def test_an_interruption_of_the_stated_length_ends_before_a_pilot_stops_a_payload() -> None:
    stated_s = number(r"an interruption of less than (\d+) minutes costs no running job") * 60
    since_report_s = settings.WMS_HEARTBEAT_S + stated_s + LONGEST_PAUSE_S + LONGEST_CALL_S
    assert since_report_s < settings.WMS_LEASE_S - settings.WMS_LEASE_GRACE_S
    # Nor is its pilot counted as lost, or without a token, when the server is back.
    assert since_report_s < settings.WMS_PILOT_LOST_S
    assert since_report_s < settings.WMS_PILOT_TOKEN_S - settings.WMS_HEARTBEAT_S
    assert since_report_s < OUTPUT_S


def test_the_settings_behind_the_length_are_those_of_the_page() -> None:
    assert number(r"ends (\d+) minutes after the pilot's last report \(`WMS_LEASE_S`\)") * 60 == settings.WMS_LEASE_S
    assert "stops the payload a minute before that end (`WMS_LEASE_GRACE_S`)" in PAGE
    assert settings.WMS_LEASE_GRACE_S == 60
    assert LONGEST_PAUSE_S + LONGEST_CALL_S <= 60
    assert number(r"is rescheduled after (\d+) minutes \(`WMS_LEASE_FIRST_S`\)") * 60 == settings.WMS_LEASE_FIRST_S


def told() -> Iterator[tuple[str, set[str]]]:
    """Yield the events, and their fields, of each call of ``tell`` in the product."""
    for package in ("matching", "pilots", "wms"):
        for path in (ROOT / package).rglob("*.py"):
            if "tell(" not in (text := path.read_text(encoding="utf-8")):
                continue
            for node in ast.walk(ast.parse(text)):
                match node:
                    case ast.Call(func=ast.Name(id="tell"), args=[ast.Attribute(attr=name)], keywords=fields):
                        yield LifeEvent[name].value, {str(field.arg) for field in fields}
                    case ast.Call(func=ast.Name(id="tell"), keywords=fields):  # by the status
                        yield from ((event.value, {str(field.arg) for field in fields}) for event in EVENTS.values())


def test_the_events_and_their_fields_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| `((?:job|pilot)\.\w+)` \|[^|]*\|([^|]*)\|$", PAGE, flags=re.MULTILINE)
    fields_of: defaultdict[str, set[str]] = defaultdict(set)
    for event, fields in told():
        fields_of[event] |= fields
    assert {event: set(re.findall(r"`(\w+)`", fields)) for event, fields in rows} == fields_of
    assert {event for event, _ in rows} == set(LifeEvent)
