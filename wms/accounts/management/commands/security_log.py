"""`manage.py security_log`: print the security log, oldest first."""

import csv
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from django.core.management.base import BaseCommand, CommandError, CommandParser, OutputWrapper
from django.utils.dateparse import parse_date, parse_datetime

from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import SecurityEvent
from wms.kernel.clock import current_time
from wms.kernel.names import did_you_mean
from wms.kernel.spreadsheets import cell

_COLUMNS = ("at", "kind", "actor_name", "address", "target", "facts", "times")


class Command(BaseCommand):
    help = "Print the security log, oldest first: JSON, one event in each line, or CSV."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--since",
            metavar="WHEN",
            default="1d",
            help="a date, a time in UTC, or a period such as 12h or 30d (default: 1d)",
        )
        parser.add_argument(
            "--kind", action="append", default=[], metavar="KIND", help="only this kind; may be repeated"
        )
        parser.add_argument("--user", default=None, help="only what this user did")
        parser.add_argument("--format", choices=["json", "csv"], default="json", help="default: json")

    def handle(self, *, since: str, kind: list[str], user: str | None, format: str, **_options: object) -> None:  # noqa: A002 - the option's name
        kinds = sorted(SecurityEventKind)
        if unknown := [name for name in kind if name not in kinds]:
            raise CommandError(f'There is no kind "{unknown[0]}".{did_you_mean(unknown[0], kinds)}')
        events = SecurityEvent.objects.filter(at__gte=_moment(since)).order_by("at", "id")
        events = events.filter(kind__in=kind) if kind else events
        events = events if user is None else events.filter(actor_name=user)
        (_as_csv if format == "csv" else _as_json)(self.stdout, events.iterator(chunk_size=1000))


def _moment(since: str) -> datetime:
    """Return the time that *since* stands for.

    Raises:
        CommandError: it is not a time.
    """
    number, unit = since[:-1], since[-1:]
    hours = {"h": 1, "d": 24}.get(unit)
    if hours is not None and number.isascii() and number.isdigit() and len(number) <= 5:
        return current_time() - timedelta(hours=hours * int(number))
    try:
        moment, day = parse_datetime(since), parse_date(since)
    except ValueError:
        moment = day = None
    if moment is None and day is not None:
        moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
    if moment is None:
        raise CommandError(f'"{since}" is not a time; write 2026-06-01, 2026-06-01T12:00:00Z, 12h or 30d.')
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _as_json(output: OutputWrapper, events: Iterable[SecurityEvent]) -> None:
    for event in events:
        row = {name: getattr(event, name) for name in _COLUMNS}
        output.write(json.dumps({**row, "at": event.at.isoformat()}))


def _as_csv(output: OutputWrapper, events: Iterable[SecurityEvent]) -> None:
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for event in events:
        texts = (cell(getattr(event, name)) for name in _COLUMNS[1:5])
        writer.writerow([event.at.isoformat(), *texts, json.dumps(event.facts), event.times])
