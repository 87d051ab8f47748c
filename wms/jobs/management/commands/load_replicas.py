"""`manage.py load_replicas FILE.csv [--vo V]`: register replicas of files, by the million."""

from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser

from resources.services.loading import COLUMNS, ReplicaFileError, load
from wms.jobs.tasks import reevaluate_input_data
from wms.kernel.after_commit import send_after_commit


class Command(BaseCommand):
    help = (
        f"Take in the replicas of a CSV file with the columns {', '.join(COLUMNS)}, of which the last two may be left "
        "out; a first line may name them in another order. All replicas are loaded, or none: errors name their lines."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--vo", help="VO of the files; default: the VO that is the first part of each path")

    def handle(self, *, file: Path, vo: str | None, **options: object) -> None:  # noqa: ARG002 - Django's signature
        try:
            # Some programs write a byte order mark, which is no part of the first name.
            with file.open(encoding="utf-8-sig", newline="") as lines:
                loaded = load(lines, vo_name=vo)
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}.") from error
        except ReplicaFileError as error:
            sentences = "\n".join(sentence for of_line in error.errors.values() for sentence in of_line)
            raise CommandError(f"Nothing was loaded.\n{sentences}") from error
        if loaded.new:
            send_after_commit(reevaluate_input_data)
        self.stdout.write(f"{loaded.read} replicas read: {loaded.new} new, {loaded.changed} changed.")
