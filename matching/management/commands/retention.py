"""`manage.py retention`: show which ended jobs are old enough to be removed, and allow their removal."""

from argparse import ArgumentParser
from collections.abc import Sequence

from django.core.management.base import BaseCommand, CommandError

from matching.queries.retention import Due
from matching.services import removal_permits
from wms.accounts.models import VO, User
from wms.jobs.models import RemovalPermit
from wms.kernel.clock import current_time
from wms.kernel.errors import WmsError


class Command(BaseCommand):
    help = (
        "Show for each VO which ended jobs are old enough to be removed; removes nothing. With --permit the server "
        "removes them from then on."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--vo", help="only this VO")
        parser.add_argument(
            "--permit", action="store_true", help="remove the jobs of this VO at the ages that were shown before"
        )
        parser.add_argument("--by", metavar="USER", help="user name of the operator who permits it")
        parser.add_argument("--stop", action="store_true", help="remove no more jobs of this VO")

    def handle(self, *, vo: str | None, permit: bool, by: str | None, stop: bool, **_options: object) -> None:
        vos = list(VO.objects.order_by("name") if vo is None else VO.objects.filter(name=vo))
        if not vos:
            raise CommandError(f'There is no VO "{vo}".' if vo else "There is no VO.")
        if (permit or stop) and vo is None:
            raise CommandError("Name the VO: --vo NAME.")
        if permit and stop:
            raise CommandError("Give one of --permit and --stop.")
        if permit:
            self._permit(vos[0], by=by)
        elif stop:
            removal_permits.withdraw(vos[0])
            self.stdout.write(f"Jobs of {vos[0]} are not removed.")
        else:
            for each in vos:
                self._show(each, removal_permits.look(each, now=current_time()))

    def _permit(self, vo: VO, *, by: str | None) -> None:
        operator = User.objects.filter(username=by).first()
        if operator is None:
            raise CommandError(f'There is no user "{by}".' if by else "Name the operator: --by USER.")
        try:
            removal_permits.permit(vo, by=operator, now=current_time())
        except WmsError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(f"Jobs of {vo} are removed at these ages from the next minute on.")

    def _show(self, vo: VO, found: Sequence[Due]) -> None:
        permit = RemovalPermit.objects.get(vo=vo)
        state = (
            f"permitted by {permit.permitted_by} on {permit.permitted_at:%Y-%m-%d}"
            if permit.permitted_at
            else "not permitted"
        )
        self.stdout.write(f"{vo}: removal {state}")
        for each in found:
            if each.age_days == 0:
                self.stdout.write(f"  {each.kind:8} kept for ever")
                continue
            oldest = f", the oldest of {each.oldest:%Y-%m-%d}" if each.oldest else ""
            self.stdout.write(
                f"  {each.kind:8} kept for {each.age_days} days; older: {each.number:,}, about "
                f"{each.size_bytes / 1e6:,.1f} MB{oldest}"
            )
        allowed = permit.permitted_days or {}
        for each in found:
            if allowed and not 0 < allowed.get(each.kind, 0) <= each.age_days and each.age_days:
                self.stdout.write(f"  {each.kind}: not removed, as their age is shorter than what was permitted.")
