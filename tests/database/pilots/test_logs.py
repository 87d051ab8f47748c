"""Logs of pilots: stored and omitted parts, repeated uploads, gaps and ends."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from pytest_django import Settings

from pilots.domain.logs import HEAD_LENGTH, MAX_OUTPUT_LENGTH, PART_LENGTH, TAIL_LENGTH, LogPart
from pilots.models import Pilot, PilotLog, PilotLogPart
from pilots.queries import stored_log
from pilots.services import logs
from pilots.services.reports import PilotRevokedError
from pilots.tasks import remove_old_logs
from tests.factories import NOW, make_pilot
from wms.wire.protocol import MAX_LOG_CHUNK

pytestmark = pytest.mark.django_db


def send(pilot: Pilot, text: str, *, offset: int) -> int:
    return logs.append(LogPart(offset=offset, text=text), pilot_id=pilot.pk, now=NOW)


def test_chunks_become_one_text() -> None:
    pilot = make_pilot()
    assert send(pilot, "one\n", offset=0) == 4
    assert send(pilot, "two\n", offset=4) == 8
    log = stored_log(pilot)
    assert (log.text, log.received, log.changed_at, log.batch_output) == ("one\ntwo\n", 8, NOW, "")


def test_a_pilot_that_never_sent_anything_has_an_empty_log() -> None:
    log = stored_log(make_pilot())
    assert (log.text, log.received, log.changed_at) == ("", 0, None)


def test_a_repeated_chunk_changes_nothing() -> None:
    pilot = make_pilot()
    send(pilot, "one\n", offset=0)
    send(pilot, "two\n", offset=4)
    before = list(PilotLogPart.objects.values())
    assert send(pilot, "one\n", offset=0) == 8
    assert send(pilot, "other", offset=0) == 8
    assert send(pilot, "", offset=3) == 8
    assert list(PilotLogPart.objects.values()) == before


def test_a_repeated_longer_chunk_appends_only_its_new_part() -> None:
    pilot = make_pilot()
    send(pilot, "one\n", offset=0)
    assert send(pilot, "one\ntwo\n", offset=0) == 8
    assert stored_log(pilot).text == "one\ntwo\n"


def test_an_empty_chunk_returns_the_position() -> None:
    pilot = make_pilot()
    assert send(pilot, "", offset=0) == 0
    assert stored_log(pilot).text == ""


def test_lost_log_lines_are_marked_by_a_line() -> None:
    pilot = make_pilot()
    send(pilot, "one\n", offset=0)
    assert send(pilot, "later\n", offset=1004) == 1010
    assert stored_log(pilot).text == "one\n[… 1,000 characters left out …]\nlater\n"
    send(pilot, "forgotten\n", offset=4)
    assert "forgotten" not in stored_log(pilot).text


def test_few_lines_at_a_time_make_few_rows() -> None:
    pilot = make_pilot()
    line = "x" * 99 + "\n"
    for number in range(60):
        send(pilot, line, offset=100 * number)
    assert PilotLogPart.objects.count() == 60 * 100 // PART_LENGTH
    assert stored_log(pilot).text == line * 60


def test_the_beginning_and_the_end_of_a_long_log_are_kept() -> None:
    pilot = make_pilot()
    chunk = MAX_LOG_CHUNK
    chunks = (HEAD_LENGTH + TAIL_LENGTH) // chunk + 10
    for number in range(chunks):
        send(pilot, f"{number:08}\n".ljust(chunk - 1) + "\n", offset=number * chunk)
    text = stored_log(pilot).text
    assert text.startswith("00000000")
    assert f"\n{chunks - 1:08}\n" in text
    missing = chunks * chunk - (HEAD_LENGTH + TAIL_LENGTH)
    assert f"[… {missing:,} characters left out …]\n" in text
    assert len(text) < HEAD_LENGTH + TAIL_LENGTH + chunk
    newest = stored_log(pilot, newest=1000).text
    assert newest.startswith("[… ")
    assert len(newest) < 1100
    assert text.endswith(newest.partition("\n")[2])


def test_logs_of_revoked_and_unknown_pilots_are_refused() -> None:
    pilot = make_pilot()
    Pilot.objects.update(revoked_at=NOW)
    with pytest.raises(PilotRevokedError):
        send(pilot, "x", offset=0)
    with pytest.raises(PilotRevokedError):
        logs.append(LogPart(offset=0, text="x"), pilot_id=10**15, now=NOW)
    assert not PilotLog.objects.exists()
    assert not PilotLogPart.objects.exists()


def test_a_pilot_revoked_after_its_first_chunk_is_refused() -> None:
    pilot = make_pilot()
    send(pilot, "x", offset=0)
    Pilot.objects.update(revoked_at=NOW)
    with pytest.raises(PilotRevokedError):
        send(pilot, "y", offset=1)
    assert stored_log(pilot).text == "x"


def test_a_part_is_kept_once() -> None:
    pilot = make_pilot()
    send(pilot, "x", offset=0)
    with pytest.raises(IntegrityError, match="a_part_of_a_pilots_log_is_kept_once"), transaction.atomic():
        PilotLogPart.objects.create(log_id=pilot.pk, offset=0, text="y")


# ---- what the batch system kept --------------------------------------------------------------------------------------


def test_batch_system_output_is_stored_beside_the_log_and_replaced() -> None:
    pilot = make_pilot()
    logs.keep_output("python3: not found\n", pilot_id=pilot.pk, now=NOW)
    logs.keep_output("curl: (6) Could not resolve host\n", pilot_id=pilot.pk, now=NOW)
    send(pilot, "one\n", offset=0)
    log = stored_log(pilot)
    assert (log.text, log.batch_output) == ("one\n", "curl: (6) Could not resolve host\n")


def test_output_with_unstorable_characters_is_stored_with_replacements() -> None:
    pilot = make_pilot()
    logs.keep_output("a\0b\ud800c\n" + "x" * MAX_OUTPUT_LENGTH + "end", pilot_id=pilot.pk, now=NOW)
    output = stored_log(pilot).batch_output
    assert output.startswith("a\N{REPLACEMENT CHARACTER}b?c\n")
    assert output.endswith("xend")
    assert "[… 9 characters left out …]" in output


# ---- removal ---------------------------------------------------------------------------------------------------------


def test_logs_are_removed_some_time_after_their_last_change(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_BATCH", 2)
    old = [make_pilot() for _ in range(5)]
    for pilot in old:
        send(pilot, "old\n", offset=0)
    kept = make_pilot()
    logs.append(LogPart(offset=0, text="new\n"), pilot_id=kept.pk, now=NOW + timedelta(seconds=1))
    end = NOW + timedelta(seconds=settings.WMS_PILOT_LOG_S)
    assert logs.remove_old(now=end) == 0
    assert logs.remove_old(now=end + timedelta(seconds=1)) == 5
    assert list(PilotLog.objects.values_list("pk", flat=True)) == [kept.pk]
    assert list(PilotLogPart.objects.values_list("text", flat=True)) == ["new\n"]
    assert Pilot.objects.count() == 6


def test_the_task_removes_logs_by_the_current_time() -> None:
    logs.append(LogPart(offset=0, text="x"), pilot_id=make_pilot().pk, now=NOW.replace(year=2020))
    remove_old_logs()
    assert not PilotLog.objects.exists()


def test_a_removed_log_continues_with_a_gap() -> None:
    pilot = make_pilot()
    send(pilot, "one\n", offset=0)
    logs.remove_old(now=NOW + timedelta(days=365))
    assert send(pilot, "two\n", offset=4) == 8
    assert stored_log(pilot).text == "[… 4 characters left out …]\ntwo\n"
