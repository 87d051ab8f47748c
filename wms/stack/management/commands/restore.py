"""`manage.py restore`: restore a backup into an empty database."""

import os
from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from wms.kernel.names import counted
from wms.stack.backups import backups_in, restore
from wms.stack.directory import environment_of_running
from wms.stack.errors import StackError
from wms.stack.listening import Listener
from wms.stack.services import StackOptions, run_beside_servers


class Command(BaseCommand):
    help = (
        "Restore a backup into the empty database of WMS_DATABASE_URL, or a new embedded one, and its files into the "
        "directory of sandboxes. "
        "Ids go on beyond those that were given, and matching is paused until no pilot of before runs a job."
    )
    # The checks need tables.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "backup", type=Path, metavar="BACKUP", help="a directory of backups (its newest), or one of them"
        )
        parser.add_argument(
            "--without-mark",
            action="store_true",
            help="the mark of the highest ids is lost: go on 100,000,000 beyond those of the backup",
        )
        parser.add_argument(
            "--with-another-key",
            action="store_true",
            help="the secret key of the backup is lost: restore what it has encrypted unread",
        )

    def handle(self, *, backup: Path, without_mark: bool, with_another_key: bool, **_options: object) -> None:
        backup = backup.absolute()
        if not (backup / "manifest.json").exists():
            backups = backups_in(backup)
            if not backups:
                raise CommandError(f"There is no whole backup in {backup}.")
            backup = backups[-1]
        try:
            if not _names_database():
                chosen = {"--without-mark": without_mark, "--with-another-key": with_another_key}
                wanted = [option for option, is_wanted in chosen.items() if is_wanted]
                run_beside_servers(_embedded(), "restore", str(backup), *wanted)
                return
            manifest = restore(backup, without_mark=without_mark, with_another_key=with_another_key)
        except StackError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"The backup of {manifest.made_at:%Y-%m-%d %H:%M:%S %Z} is restored: the database, and "
            f"{counted(manifest.sandboxes - len(manifest.missing), 'file')} of sandboxes. Start the server, and run "
            "`verify`. What was changed since is lost, also suspensions and revoked tokens: repeat them."
        )


def _names_database() -> bool:
    """Return whether the environment, or a running system, names a database; else the embedded one is started."""
    return "WMS_DATABASE_URL" in {**environment_of_running(settings.FOUND_DATA_DIR), **os.environ}


def _embedded() -> StackOptions:
    return StackOptions(
        project=settings.BASE_DIR, data=settings.WMS_DATA_DIR, listener=Listener(), web_workers=1, stay=False
    )
