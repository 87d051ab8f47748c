"""Usage of groups between two times, computed from the leases."""

from datetime import datetime

from django.db.models import Count, F, FloatField, Q, Sum, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Extract, Greatest, Least

from matching.models import Match
from taskqueues.domain.usage import UsageAmount


def delivered_by_leases(
    *, since: datetime, until: datetime, vo_id: int | None = None
) -> dict[tuple[int, int], UsageAmount]:
    """Return the usage of each CPU segment by each group, in one VO or all.

    Args:
        since: leases made from then on count as matches, and time under lease counts from then on.
        until: end of the period; open leases are counted up to it.
        vo_id: of the jobs.

    Returns:
        {(group id, CPU segment of the task queue): usage}. Time counts once for each required processor, used or not
        (ADR 13).
    """
    # Uses indexes: match_open, match_ended (every lease that began in this time is open, or ended in it).
    leases = Match.objects.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=since), leased_at__lt=until)
    if vo_id is not None:
        leases = leases.filter(job__vo=vo_id)
    # NB: LEAST ignores nulls (leases that have not ended).
    held = Least(F("ended_at"), Value(until)) - Greatest(F("leased_at"), Value(since))
    processors = Cast(KeyTextTransform("processors", "job__stored_description__description"), FloatField())
    rows = (
        leases.values_list("job__group_id", "cpu_segment_s")
        .annotate(
            matches=Count("pk", filter=Q(leased_at__gte=since)),
            processor_s=Sum(Extract(held, "epoch") * processors, output_field=FloatField()),
        )
        .order_by("job__group_id", "cpu_segment_s")
    )
    return {
        (group_id, segment_s): UsageAmount(matches, processor_s) for group_id, segment_s, matches, processor_s in rows
    }
