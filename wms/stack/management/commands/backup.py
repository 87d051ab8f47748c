"""`manage.py backup`: write the database and the files that it names into a directory of backups."""

from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from wms.kernel.names import counted
from wms.stack.backups import back_up
from wms.stack.errors import StackError
from wms.stack.management.commands.up import positive


class Command(BaseCommand):
    help = (
        "Write a backup of the database, and of the files of sandboxes that it names, into a directory of backups; the "
        "system goes on meanwhile. A file that is there is not written again. The secret key is in no backup."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("directory", type=Path, metavar="DIRECTORY", help="of the backups; made if missing")
        parser.add_argument("--keep", type=positive, metavar="N", help="remove all but the newest N backups in it")

    def handle(self, *, directory: Path, keep: int | None, **_options: object) -> None:
        try:
            made = back_up(directory.absolute(), keep=keep)
        except StackError as error:
            raise CommandError(str(error)) from error
        manifest = made.manifest
        self.stdout.write(
            f"{made.path}: database, {manifest.dump_bytes:,} bytes; {counted(manifest.sandboxes, 'file')} of sandboxes "
            f"({manifest.sandbox_bytes:,} bytes), of which {made.new_files:,} were not in {directory} yet."
        )
        if made.removed:
            self.stdout.write(f"Removed: {', '.join(made.removed)}.")
        if manifest.missing:
            raise CommandError(
                f"The backup is whole, but {counted(len(manifest.missing), 'file')} that the database names cannot be "
                "read in the store of sandboxes: `verify` names their jobs."
            )
