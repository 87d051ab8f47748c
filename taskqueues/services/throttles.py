"""Throttles of sites as people and programs set them: mistakes, consequences, and the entry in the security log."""

from collections.abc import Collection, Mapping, Sequence

from django.utils.text import capfirst

from resources.domain.throttles import mistakes_in
from resources.models import Site
from resources.services.states import full_name
from resources.services.throttles import COLUMNS, recompute
from taskqueues.services.consequences import closes, of_expression, of_throttle
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import User
from wms.accounts.security_log import record
from wms.kernel.consequences import Consequence, require_confirmed
from wms.kernel.db import database_now, transaction_required
from wms.kernel.errors import RejectedError
from wms.kernel.names import change_in_words


class ThrottleError(RejectedError):
    """The policy of the throttle lacks a value, or its expression is not valid."""

    code = "bad_throttle"


def consequences_of(site: Site) -> Sequence[Consequence]:
    """Return what the settings of a site's throttle stop at once; those that are stored already stop nothing.

    Args:
        site: with the new settings, before it is saved.
    """
    stored = Site.objects.filter(pk=site.pk).first()
    if stored is not None and all(getattr(stored, column) == getattr(site, column) for column in COLUMNS.values()):
        return ()
    now = database_now()
    was_open = stored is None or not closes(stored, now=now)
    return [*of_throttle(site, was_open=was_open, now=now), *of_expression(site)]


@transaction_required
def set_throttle(
    site: Site, *, settings: Mapping[str, object], confirmed: Collection[str], by: User, reason: str = ""
) -> None:
    """Give a site other settings of its throttle, which apply to its last advertisement; *site* is updated too.

    Args:
        site: the site.
        settings: all of them, by the names of COLUMNS; the present ones change nothing.
        confirmed: sentences of consequences that are meant.
        by: the acting user.
        reason: for the history; may be empty.

    Raises:
        ThrottleError: they are not valid.
        ConfirmationNeededError: the site would get no jobs, and that is not confirmed.
    """
    before = Site.objects.select_for_update(of=("self",), no_key=True).get(pk=site.pk)
    columns = {column: settings[name] for name, column in COLUMNS.items()}
    if mistakes := {name: [f"{capfirst(sentence)}."] for name, sentence in mistakes_in(settings)}:
        raise ThrottleError(" ".join(f"{name}: {words}" for name, (words,) in mistakes.items()), errors=mistakes)
    for column, value in columns.items():
        setattr(site, column, value)
    changes: dict[str, object] = {
        column: change_in_words(getattr(before, column), value)
        for column, value in columns.items()
        if getattr(before, column) != value
    }
    if not changes:
        return
    sentences = require_confirmed(consequences_of(site), confirmed)
    site.save(update_fields=[*columns])
    recompute(site)
    if sentences:
        changes["confirmed"] = [f"+{sentence}" for sentence in sentences]
    if reason:
        changes["reason"] = reason
    kind = SecurityEventKind.CONFIGURATION_CHANGED
    record(kind, actor=by, target=full_name(site), row=site, what="changed", changes=changes)
