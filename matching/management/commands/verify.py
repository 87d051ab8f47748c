"""`manage.py verify`: check the invariants of the live system."""

from django.core.management.base import BaseCommand, CommandError

from matching.queries.invariants import INVARIANTS, violations
from wms.kernel.secrets import secrets_by_key


class Command(BaseCommand):
    help = "Check the invariants on a live system, and which keys stored secrets need; changes nothing."

    def handle(self, *args: object, **options: object) -> None:  # noqa: ARG002 - Django's signature
        violated = list(violations())
        for violation in violated:
            self.stdout.write(f"{violation.invariant}, but not {violation.row}.")
        secrets = secrets_by_key()
        for name in secrets.previous:
            self.stdout.write(f"The {name} needs a key of WMS_SECRET_KEY_FALLBACKS; run `wms-server rotate_key`.")
        for name in secrets.unreadable:
            self.stdout.write(f"The {name} cannot be read with any key; add its key to WMS_SECRET_KEY_FALLBACKS.")
        if violated or secrets.unreadable:
            raise CommandError(f"{len(violated) + len(secrets.unreadable)} violations of invariants.")
        self.stdout.write(f"{len(INVARIANTS)} invariants hold.")
