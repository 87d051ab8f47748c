"""`manage.py reset_second_factor USER`: remove the second factors of a user who lost them."""

from django.core.management.base import BaseCommand, CommandError, CommandParser

from wms.accounts.models import User
from wms.accounts.services.second_factors import reset_second_factors
from wms.kernel.names import did_you_mean


class Command(BaseCommand):
    help = "Remove the second factors of a user, who logs in by password alone until a new one is set up."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="user name")

    def handle(self, *, user: str, **_options: object) -> None:
        row = User.objects.filter(username=user).first()
        if row is None:
            names = User.objects.order_by("username").values_list("username", flat=True)
            raise CommandError(f'There is no user "{user}".{did_you_mean(user, names)}')
        reset = reset_second_factors([row])
        self.stdout.write(f"The second factor of {user} is removed." if reset else f"{user} has no second factor.")
