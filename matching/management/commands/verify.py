"""Look whether what must always be true is true now: `manage.py verify`."""

from django.core.management.base import BaseCommand, CommandError

from matching.queries.invariants import INVARIANTS, violations


class Command(BaseCommand):
    help = "Check the invariants on a live system; changes nothing."

    def handle(self, *args: object, **options: object) -> None:  # noqa: ARG002 - Django's signature
        found = list(violations())
        for violation in found:
            self.stdout.write(f"{violation.invariant}, but not {violation.row}.")
        if found:
            raise CommandError(f"{len(found)} exceptions to what must always be true.")
        self.stdout.write(f"{len(INVARIANTS)} invariants hold.")
