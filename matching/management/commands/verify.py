"""`manage.py verify`: check the invariants of the live system."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from matching.queries.invariants import INVARIANTS, violations
from wms.jobs.models import Sandbox
from wms.jobs.services.sandbox_check import wrong_files
from wms.kernel.secrets import secrets_by_key


class Command(BaseCommand):
    help = (
        "Check the invariants on a live system, the files of sandboxes, and which keys stored secrets need; changes "
        "nothing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--contents", action="store_true", help="also read each file, and compare its content with its SHA-256"
        )

    def handle(self, *_args: object, contents: bool, **_options: object) -> None:
        wrong = [f"{violation.invariant}, but not {violation.row}" for violation in violations()]
        unseen = ["files of no sandbox", "files on storage elements", "messages in the broker"]
        try:
            wrong += wrong_files(with_contents=contents)
        except PermissionError as error:
            unseen.insert(0, f"files of sandboxes ({error.filename} is another account's: run it as the server's)")
        else:
            unseen = unseen if contents else ["contents of sandboxes (--contents reads them)", *unseen]
        for sentence in wrong:
            self.stdout.write(f"{sentence}.")
        secrets = secrets_by_key()
        for name in secrets.previous:
            self.stdout.write(f"The {name} needs a key of WMS_SECRET_KEY_FALLBACKS; run `wms-server rotate_key`.")
        for name in secrets.unreadable:
            self.stdout.write(f"The {name} cannot be read with any key; add its key to WMS_SECRET_KEY_FALLBACKS.")
        if wrong or secrets.unreadable:
            raise CommandError(f"{len(wrong) + len(secrets.unreadable)} violations of invariants.")
        self.stdout.write(f"{len(INVARIANTS)} invariants hold.")
        self.stdout.write(f"{Sandbox.objects.count()} sandboxes; not looked at: {', '.join(unseen)}.")
