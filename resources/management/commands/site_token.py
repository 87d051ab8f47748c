"""`manage.py site_token SITE --for advertise|register`: print a token of a site."""

from django.core.management.base import BaseCommand, CommandError, CommandParser

from resources.domain.enums import SiteTokenPurpose
from resources.models import Site
from resources.services import site_tokens
from wms.kernel.clock import current_time
from wms.kernel.errors import WmsError
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

        parser.add_argument(
            "--setup", default="", help="setup of pilots that register with it; default: that of their queue, CE or VO"
        )

    def handle(self, *, site: str, purpose: str, setup: str, **options: object) -> None:  # noqa: ARG002 - Django's signature
        row = Site.objects.filter(name=site).first()
        if row is None:
            names = Site.objects.order_by("name").values_list("name", flat=True)
            raise CommandError(f'There is no site "{site}".{did_you_mean(site, names)}')
        now = current_time()
        if setup and purpose != SiteTokenPurpose.REGISTER:
            raise CommandError("A setup is for tokens by which pilots register; leave --setup out.")
        try:
            token = site_tokens.issue_site_token(row, purpose=SiteTokenPurpose(purpose), setup=setup, now=now)
        except WmsError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(token)
