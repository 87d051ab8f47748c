"""`manage.py archived`: print a removed job out of the archive."""

import json
from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError

from matching.services import job_archive


class Command(BaseCommand):
    help = "Print a removed job out of the archive, as JSON with all that was known about it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("job", type=int, metavar="JOB", help="id of the job")

    def handle(self, *, job: int, **_options: object) -> None:
        if not job_archive.is_on():
            raise CommandError("There is no archive: WMS_ARCHIVE_DIR is empty.")
        try:
            found = job_archive.archived(job)
        except job_archive.JobArchiveError as error:
            raise CommandError(str(error)) from error
        if found is None:
            raise CommandError(f"Job {job} is not in the archive.")
        self.stdout.write(json.dumps(found, indent=2, default=str))
