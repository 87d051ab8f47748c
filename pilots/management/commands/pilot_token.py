"""`manage.py pilot_token --vo V [--owner U --group G]`: print the credential of a pilot made by hand."""

from datetime import timedelta

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from pilots.services.registration import make_by_hand
from wms.kernel.errors import WmsError

MAX_HOURS = 31 * 24


class Command(BaseCommand):
    help = "Print the token of a new pilot that is bound to no queue; private when --group is given."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--vo", required=True, help="whose jobs it runs")
        parser.add_argument("--group", help="a private pilot: runs jobs of this group only")
        parser.add_argument("--owner", help="of a private pilot; may be left out when the group shares jobs")
        parser.add_argument("--hours", type=int, default=24, help="how long the token is valid (default: 24)")

    def handle(self, *, vo: str, group: str | None, owner: str | None, hours: int, **options: object) -> None:  # noqa: ARG002 - Django's signature
        if not 1 <= hours <= MAX_HOURS:
            raise CommandError(f"--hours must be 1 to {MAX_HOURS}.")
        lifetime = timedelta(hours=hours)
        try:
            made = make_by_hand(vo_name=vo, owner_name=owner, group_name=group, lifetime=lifetime, now=timezone.now())
        except WmsError as error:
            raise CommandError(error.detail) from error
        # Only the token on standard output, so that a shell can take it: TOKEN=$(manage.py pilot_token …)
        self.stdout.write(made.token)
        self.stderr.write(f"pilot {made.pilot.pk}, until {made.expires_at:%Y-%m-%d %H:%M %Z}")
