"""`manage.py token USER`: print a bearer token of a user."""

from datetime import timedelta

from django.core.management.base import BaseCommand, CommandError, CommandParser

from wms.accounts import services
from wms.accounts.domain import MAX_TOKEN_DAYS, TokenScope
from wms.accounts.models import User
from wms.kernel.clock import current_time
from wms.kernel.errors import WmsError
from wms.kernel.names import did_you_mean


class Command(BaseCommand):
    help = "Print a new bearer token of a user; it is shown only once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="user name")
        parser.add_argument(
            "--scope",
            choices=[str(scope) for scope in TokenScope],
            default=str(TokenScope.MANAGE),
            help="read: everything that the user may see; submit: also to submit jobs and act on the user's own; "
            "manage: everything that the user may do (default)",
        )
        parser.add_argument("--name", default="", help="name in the list of tokens")
        parser.add_argument("--days", type=int, help="lifetime in days; default: WMS_USER_TOKEN_S")

    def handle(self, *, user: str, scope: str, name: str, days: int | None, **_options: object) -> None:
        row = User.objects.filter(username=user).first()
        if row is None:
            names = User.objects.order_by("username").values_list("username", flat=True)
            raise CommandError(f'There is no user "{user}".{did_you_mean(user, names)}')
        if len(name) > 100:
            raise CommandError("The name of a token has at most 100 characters.")
        if days is not None and not 1 <= days <= MAX_TOKEN_DAYS:
            raise CommandError(f"Give 1 to {MAX_TOKEN_DAYS} days.")
        lifetime = None if days is None else timedelta(days=days)
        try:
            issued = services.issue_token(
                row, now=current_time(), scope=TokenScope(scope), name=name, lifetime=lifetime
            )
        except WmsError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(issued.token)
