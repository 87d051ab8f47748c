"""`manage.py token USER`: print a bearer token of a user."""

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from wms.accounts import services
from wms.accounts.models import User
from wms.kernel.errors import WmsError
from wms.kernel.names import did_you_mean


class Command(BaseCommand):
    help = "Print a new bearer token of a user; it is shown this once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="user name")

    def handle(self, *, user: str, **options: object) -> None:  # noqa: ARG002 - Django's signature
        row = User.objects.filter(username=user).first()
        if row is None:
            names = User.objects.order_by("username").values_list("username", flat=True)
            raise CommandError(f'There is no user "{user}".{did_you_mean(user, names)}')
        try:
            issued = services.issue_token(row, now=timezone.now())
        except WmsError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(issued.token)
