"""`manage.py pilot_token --vo V [--site S [--ce C [--queue Q]]] [--owner U --group G]`: print a pilot's credential."""

from argparse import ArgumentTypeError
from datetime import timedelta

from django.core.management.base import BaseCommand, CommandError, CommandParser

from pilots.services.registration import WantedPlace, make_by_hand
from wms.kernel.clock import current_time
from wms.kernel.errors import WmsError

MAX_HOURS = 31 * 24


class Command(BaseCommand):
    help = (
        "Print the token of a new pilot made by hand; private when --group is given. Without --queue, it gets only "
        "jobs that every queue where it may be could run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--vo", required=True, help="virtual organisation whose jobs it runs")
        parser.add_argument("--site", help="site of the pilot; its offers may name no other site")
        parser.add_argument("--ce", help="computing element of the site")
        parser.add_argument("--queue", help="queue of the computing element")
        parser.add_argument("--group", help="group of a private pilot, which runs only its jobs")
        parser.add_argument("--owner", help="owner of a private pilot; optional if the group shares jobs")
        parser.add_argument("--setup", default="", help="setup of the pilot; default: that of queue, CE or VO")
        parser.add_argument("--hours", type=_hours, default=24, help="how long the token is valid (default: 24)")

    def handle(
        self, *, vo: str, group: str | None, owner: str | None, setup: str, hours: int, **options: str | None
    ) -> None:
        lifetime = timedelta(hours=hours)
        try:
            registered = make_by_hand(
                vo_name=vo,
                owner_name=owner,
                group_name=group,
                lifetime=lifetime,
                now=current_time(),
                at=WantedPlace(site=options["site"], ce=options["ce"], queue=options["queue"]),
                setup=setup,
            )
        except WmsError as error:
            raise CommandError(error.detail) from error
        # Only the token on standard output, so that a shell can take it: TOKEN=$(manage.py pilot_token …)
        self.stdout.write(registered.token)
        self.stderr.write(f"pilot {registered.pilot.pk}, until {registered.expires_at:%Y-%m-%d %H:%M %Z}")


def _hours(text: str) -> int:
    hours = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_HOURS)) else 0
    if not 1 <= hours <= MAX_HOURS:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MAX_HOURS}.")
    return hours
