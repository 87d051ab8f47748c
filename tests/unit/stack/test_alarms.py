"""Alarms reach a command of the operators, and their mail."""

from pathlib import Path

import pytest
from django.core import mail
from pytest_django import Settings

from tests.pace import wait_for
from wms.stack.alarms import ring

SENTENCE = "sites ended with signal SIGKILL; $(touch /tmp/never) it is started again in 0.5 s."


def test_a_sentence_is_the_last_argument_of_the_command_and_is_mailed(settings: Settings, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    settings.WMS_ALARM_COMMAND = f"""sh -c 'printf "%s %s" "$0" "$1" > {heard}' wms"""
    settings.WMS_ALARM_EMAIL = ["ops@example.org"]
    settings.WMS_EMAIL_FROM = "wms@example.org"
    ring(SENTENCE)
    wait_for(lambda: mail.outbox)
    assert heard.read_text() == f"wms {SENTENCE}"
    (message,) = mail.outbox
    assert (message.to, message.body) == (["ops@example.org"], SENTENCE)
    assert message.subject == f"[wms] {SENTENCE[:70]}"


@pytest.mark.parametrize("command", ["/nowhere/alarm", "false", "logger 'wms"])
def test_an_alarm_that_fails_is_logged(command: str, settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    settings.WMS_ALARM_COMMAND = command
    ring(SENTENCE)
    wait_for(lambda: caplog.records)
    assert caplog.records[0].message == "alarms.failed"
