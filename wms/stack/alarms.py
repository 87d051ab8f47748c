"""Alarms: sentences about parts of the system that reach its operators, also where nothing scrapes metrics."""

import logging
import shlex
import subprocess
from threading import Thread
from typing import Final

from django.conf import settings
from django.core.mail import send_mail

logger = logging.getLogger(__name__)

_COMMAND_WITHIN_S: Final = 60


def ring(sentence: str) -> None:
    """Run WMS_ALARM_COMMAND with the sentence as its last argument, and mail it to WMS_ALARM_EMAIL, in a thread."""
    if settings.WMS_ALARM_COMMAND or settings.WMS_ALARM_EMAIL:
        Thread(target=_ring, args=(sentence,), name="alarm", daemon=True).start()


def _ring(sentence: str) -> None:
    try:
        if settings.WMS_ALARM_COMMAND:
            command = [*shlex.split(settings.WMS_ALARM_COMMAND), sentence]
            subprocess.run(command, stdin=subprocess.DEVNULL, timeout=_COMMAND_WITHIN_S, check=True)  # noqa: S603 - the operator's
        if settings.WMS_ALARM_EMAIL:
            send_mail(f"[wms] {sentence[:70]}", sentence, settings.WMS_EMAIL_FROM, settings.WMS_ALARM_EMAIL)
    except (OSError, ValueError, subprocess.SubprocessError):  # a ValueError: an odd number of quotes
        logger.exception("alarms.failed", extra={"sentence": sentence})
