"""`manage.py recount_jobs`: count all jobs anew."""

from django.core.management.base import BaseCommand

from wms.jobs.services import counting


class Command(BaseCommand):
    help = (
        "Count all jobs anew, if `verify` says that the numbers of jobs are wrong. It takes about a second for a "
        "million jobs; meanwhile no job changes its status: submissions and pilots wait."
    )

    def handle(self, **options: object) -> None:  # noqa: ARG002 - Django's signature
        counting.recount()
        self.stdout.write("All jobs are counted.")
