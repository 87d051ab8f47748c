"""Results of a simulation, as tables."""

from collections.abc import Iterator, Sequence

from matching.domain.simulation.outcome import Delivered, SimulationResult

_JOBS = ("submitted", "started", "finished", "running", "waiting")
_WAITS = ("wait median", "p95", "longest", "oldest waiting")
_SHARES = ("VO", "group", "configured", "CPU", "starts", "had jobs waiting", "CPU then", "starts then")
_NOTHING = "–"


def tables(outcome: SimulationResult) -> Iterator[str]:
    """Yield each table as a text of several lines, with its title first."""
    yield _table("Shares of groups, within their VO", _SHARES, _shares_of_groups(outcome))
    yield _table(
        "Jobs of groups",
        ("VO", "group", *_JOBS, *_WAITS),
        [(each.vo, each.group, *_jobs(each.delivered)) for each in outcome.groups],
    )
    if outcome.users:
        yield _table(
            "Users, in groups that do not share jobs",
            ("group", "user", "CPU", "starts", *_JOBS, *_WAITS),
            [(each.group, each.user, *_got(each.delivered), *_jobs(each.delivered)) for each in outcome.users],
        )
    yield _table(
        "CPU segments",
        ("VO", "segment", "CPU", "starts", *_JOBS, *_WAITS),
        [
            (each.vo, f"{each.cpu_segment_s} s", *_got(each.delivered), *_jobs(each.delivered))
            for each in outcome.segments
        ],
    )
    yield _table(
        "Sites",
        ("site", "slots", "busy", "processors busy", "started"),
        [
            (
                each.site,
                str(each.slots),
                _percent(each.utilization),
                _percent(each.processor_utilization),
                str(each.started),
            )
            for each in outcome.sites
        ],
        names=1,
    )


def _shares_of_groups(outcome: SimulationResult) -> list[tuple[str, ...]]:
    return [
        (
            each.vo,
            each.group,
            _percent(each.configured_share),
            *_got(each.delivered),
            _percent(each.contended.time_fraction),
            _percent(each.contended.cpu_share),
            _percent(each.contended.start_share),
        )
        for each in outcome.groups
    ]


def _got(delivered: Delivered) -> tuple[str, str]:
    return _percent(delivered.cpu_share), _percent(delivered.start_share)


def _jobs(delivered: Delivered) -> tuple[str, ...]:
    waits = delivered.waits
    times = (None, None, None) if waits is None else (waits.median_s, waits.p95_s, waits.max_s)
    return (
        *(str(getattr(delivered, name)) for name in _JOBS),
        *(_duration(time_s) for time_s in times),
        _duration(delivered.oldest_waiting_s),
    )


def _percent(part: float | None) -> str:
    return _NOTHING if part is None else f"{part:.1%}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return _NOTHING
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.0f} s"


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 2) -> str:
    """Return the rows in columns: the first *names* aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if position < names else cell.rjust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (header, *rows)
    ]
    return "\n".join([title, *(f"  {line.rstrip()}" for line in lines)])
