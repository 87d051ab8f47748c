"""`manage.py site_token SITE --for advertise|register`: print a token of a site."""

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from resources.domain.enums import SiteTokenPurpose
from resources.models import Site
from resources.services import site_tokens
from wms.kernel.names import did_you_mean


class Command(BaseCommand):
    help = "Print a new token of a site; it is shown only once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("site", metavar="SITE", help="name of the site")
        parser.add_argument(
            "--for",
            dest="purpose",
            required=True,
            choices=[str(purpose) for purpose in SiteTokenPurpose],
            help="advertise: report the site's load; register: let pilots register themselves",
        )

    def handle(self, *, site: str, purpose: str, **options: object) -> None:  # noqa: ARG002 - Django's signature
        row = Site.objects.filter(name=site).first()
        if row is None:
            names = Site.objects.order_by("name").values_list("name", flat=True)
            raise CommandError(f'There is no site "{site}".{did_you_mean(site, names)}')
        self.stdout.write(site_tokens.issue_site_token(row, purpose=SiteTokenPurpose(purpose), now=timezone.now()))
