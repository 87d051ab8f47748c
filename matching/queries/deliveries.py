"""What groups got between two moments, from the leases themselves."""

from collections import defaultdict
from datetime import datetime

from django.db.models import BigIntegerField, Count, F, FloatField, Q, Sum, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Extract, Greatest, Least

from matching.models import Match
from taskqueues.domain.deliveries import Amount, total
from taskqueues.domain.segments import cpu_segment_s
from taskqueues.services.queueing import rounding


def delivered_by_leases(*, since: datetime, until: datetime, vo_id: int | None = None) -> dict[tuple[int, int], Amount]:
    """Return what each group got of each CPU segment, of one VO or all.

    Args:
        since: leases made from then on count as matches, and time under lease counts from then on.
        until: until when; a lease that is open then has lasted so long.
        vo_id: of the jobs.

    Returns:
        {(group id, CPU segment): amount}; the segment is that of the job's own description, for its task queue may be
        gone. Time counts as often as the job asked for processors, whether or not it used them (ADR 13).
    """
    # Uses indexes: match_open, match_ended (every lease that began in this time is open, or ended in it).
    leases = Match.objects.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=since), leased_at__lt=until)
    if vo_id is not None:
        leases = leases.filter(job__vo=vo_id)
    # NB: of nulls, of a lease that has not ended, LEAST takes no notice.
    held = Least(F("ended_at"), Value(until)) - Greatest(F("leased_at"), Value(since))
    processors = Cast(KeyTextTransform("processors", "job__description"), FloatField())
    rows = (
        leases.annotate(cpu_time_s=Cast(KeyTextTransform("cpu_time_s", "job__description"), BigIntegerField()))
        .values_list("job__group_id", "cpu_time_s")
        .annotate(
            matches=Count("pk", filter=Q(leased_at__gte=since)),
            processor_s=Sum(Extract(held, "epoch") * processors, output_field=FloatField()),
        )
        .order_by("job__group_id", "cpu_time_s")
    )
    amounts: defaultdict[tuple[int, int], list[Amount]] = defaultdict(list)
    segments_s = rounding().cpu_segments_s
    for group_id, cpu_time_s, matches, processor_s in rows:
        amounts[group_id, cpu_segment_s(cpu_time_s, segments_s=segments_s)].append(Amount(matches, processor_s))
    return {key: total(parts) for key, parts in amounts.items()}
