"""Presentation of the resources that a job asked for and has used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from wms.jobs.domain.samples import Sample
from wms.jobs.models import Job, UsageSamples
from wms.kernel.time_texts import duration
from wms.portal.presentation.charts import Axis, Chart, Look, Series
from wms.wire.amounts import AMOUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One resource."""

    label: str
    asked: str
    #: Empty: not reported yet.
    used: str
    #: What was used of what was asked for, in percent, for a gauge; None: one of them is not known.
    percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCharts:
    """The charts of one attempt."""

    #: From 1.
    number: int
    charts: Sequence[Chart]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageView:
    """The resources of a job."""

    rows: Sequence[UsageRow]
    #: In percent of the cores that it asked for; empty: not known.
    efficiency: str
    #: Of the newest attempt with samples; None: there is none.
    newest: AttemptCharts | None
    earlier: Sequence[AttemptCharts]


def usage_view(job: Job, *, samples: Sequence[UsageSamples]) -> UsageView:
    """Return the resources of *job*, which has its description.

    Args:
        job: any.
        samples: of its attempts, the oldest first.
    """
    asked = _Asked(job.description)
    charts = [
        AttemptCharts(number=of_attempt.attempt + 1, charts=_charts(of_attempt, asked)) for of_attempt in samples[::-1]
    ]
    drawn = [of_attempt for of_attempt in charts if of_attempt.charts]
    return UsageView(
        rows=_rows(job, asked),
        efficiency=_efficiency(job, asked),
        newest=drawn[0] if drawn else None,
        earlier=drawn[1:],
    )


class _Asked:
    """The amounts of a description."""

    def __init__(self, description: Mapping[str, object]) -> None:
        amounts = {name: amount.least for name, amount in AMOUNT.items()}
        amounts |= {name: value for name in amounts if isinstance(value := description.get(name), int)}
        self.processors = max(1, amounts["processors"])
        self.wall_time_s, self.memory_mb, self.disk_mb = (
            amounts[name] for name in ("wall_time_s", "memory_mb", "disk_mb")
        )
        per_core = description.get("cpu_time_s")
        self.cpu_s = self.processors * per_core if isinstance(per_core, int) else 0


def _rows(job: Job, asked: _Asked) -> list[UsageRow]:
    return [
        _row("CPU time", asked.cpu_s, job.cpu_s, unit="s"),
        _row("Wall-clock time", asked.wall_time_s, job.wall_s, unit="s"),
        _row("Memory, highest", asked.memory_mb, job.max_memory_mb, unit="MB"),
        _row("Disk, highest", asked.disk_mb, job.max_disk_mb, unit="MB"),
    ]


def _row(label: str, asked: float, used: float | None, *, unit: str) -> UsageRow:
    return UsageRow(
        label=label,
        asked=_amount(asked, unit, digits=0) if asked else "not limited",
        used="" if used is None else _amount(used, unit, digits=1),
        percent=100 * used / asked if asked and used is not None else None,
    )


def _amount(value: float, unit: str, *, digits: int) -> str:
    text = f"{value:,.{digits}f} {unit}"
    return f"{text} ({duration(value)})" if unit == "s" and value >= 60 else text


def _efficiency(job: Job, asked: _Asked) -> str:
    if not job.wall_s or job.cpu_s is None:
        return ""
    return f"{100 * job.cpu_s / (job.wall_s * asked.processors):.0f} %"


def _charts(of_attempt: UsageSamples, asked: _Asked) -> list[Chart]:
    """Return the charts of one attempt; none, if it has no samples yet."""
    samples = of_attempt.taken
    if len(samples) < 2:
        return []
    at, number = [sample.at_s for sample in samples], of_attempt.attempt + 1
    cores = Series(label="Cores in use", unit="", values=_cores(samples), color="--running-mark", look=Look.AREA)
    memory = Series(label="Memory", unit="MB", values=[sample.memory_mb for sample in samples], color="--done-mark")
    disk = Series(label="Disk", unit="MB", values=[sample.disk_mb for sample in samples], color="--held-mark")
    return [
        Chart(
            id=f"cpu-{number}",
            title="CPU",
            axis=Axis.ELAPSED,
            at=at,
            series=[cores, _limit("Cores asked for", asked.processors, unit="", length=len(at))],
        ),
        Chart(
            id=f"memory-{number}",
            title="Memory and disk",
            axis=Axis.ELAPSED,
            at=at,
            series=[
                memory,
                disk,
                *([_limit("Memory asked for", asked.memory_mb, unit="MB", length=len(at))] if asked.memory_mb else []),
            ],
        ),
    ]


def _limit(label: str, value: float, *, unit: str, length: int) -> Series:
    return Series(label=label, unit=unit, values=[value] * length, color="--failed-mark", look=Look.DASHED)


def _cores(samples: Sequence[Sample]) -> list[float | None]:
    """Return the mean number of cores in use between each sample and the one before it."""
    start = Sample(at_s=0, cpu_s=0, memory_mb=None, disk_mb=None)
    return [_mean_cores(before, sample) for before, sample in pairwise([start, *samples])]


def _mean_cores(before: Sample, sample: Sample) -> float | None:
    seconds = sample.at_s - before.at_s
    if before.cpu_s is None or sample.cpu_s is None or seconds <= 0:
        return None
    return max(0.0, sample.cpu_s - before.cpu_s) / seconds
