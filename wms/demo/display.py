"""Output of the demonstration: its progress, and a table of its results; pure functions."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import fmean

from wms.demo.job_table import ENDED, ListedJob, WatchedJob
from wms.jobs.domain.lifecycle import JobStatus

#: Window of the matches per second.
_RATE_OVER = timedelta(seconds=5)
_BAR = 40
_ORDER = [*(status for status in JobStatus if status not in ENDED), *(s for s in JobStatus if s in ENDED)]
_PI = re.compile(r"pi = (\d\.\d+)")
_OUTPUT_WIDTH = 44


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of the demonstration at one time.

    Args:
        elapsed_s: since the submission.
        jobs: by status, in the order of a job's life.
        pilots: living ones.
        busy_pilots: those of them with a job.
        matches: since the start.
        matches_per_s: in the last seconds.
    """

    elapsed_s: float
    jobs: Sequence[tuple[str, int]]
    pilots: int
    busy_pilots: int
    matches: int
    matches_per_s: float

    @property
    def total(self) -> int:
        """All jobs."""
        return sum(count for _, count in self.jobs)

    @property
    def ended(self) -> int:
        """Jobs with a final status."""
        return sum(count for status, count in self.jobs if status in ENDED)


def progress_of(rows: Iterable[ListedJob], *, elapsed_s: float, pilots: int) -> Progress:
    """Return the progress from the rows of all jobs."""
    rows = list(rows)
    count = Counter(row.status for row in rows)
    matched = [row.matched_at for row in rows if row.matched_at is not None]
    # The newest match ends the window, so that the clocks of server and client need not agree.
    lately = [moment for moment in matched if moment > max(matched) - _RATE_OVER]
    over_s = min(_RATE_OVER.total_seconds(), max(elapsed_s, 1.0))
    waiting = count[JobStatus.WAITING] > 0
    return Progress(
        elapsed_s=elapsed_s,
        jobs=[(status, count[status]) for status in _ORDER if count[status]],
        pilots=pilots,
        busy_pilots=len({row.pilot for row in rows if row.pilot is not None and row.status not in ENDED}),
        matches=len(matched),
        matches_per_s=len(lately) / over_s if waiting else 0.0,
    )


def line_of(progress: Progress) -> str:
    """Return the progress as one line."""
    jobs = ", ".join(f"{count} {status}" for status, count in progress.jobs)
    return (
        f"{progress.elapsed_s:3.0f} s: {progress.ended} of {progress.total} jobs ended ({jobs}); "
        f"{progress.pilots} pilots, {progress.busy_pilots} with a job; {progress.matches_per_s:.1f} matches/s"
    )


def block_of(progress: Progress) -> list[str]:
    """Return the progress as lines to be redrawn in place."""
    total = max(1, progress.total)
    bars = [
        f"  {status:<12} {count:>4}  {'█' * max(1, round(_BAR * count / total))}" for status, count in progress.jobs
    ]
    ended = f"  {progress.ended} of {progress.total} jobs have ended after {progress.elapsed_s:.0f} s"
    pilots = f"  {progress.pilots} pilots, {progress.busy_pilots} of them with a job"
    matches = f"  {progress.matches} matches, {progress.matches_per_s:.1f} per second"
    return ["", ended, *bars, pilots, matches, ""]


def table_of(jobs: Iterable[WatchedJob]) -> str:
    """Return one line for each job: id, name, owner, site, status, wall time and the last line of its output."""
    lines = [("job", "name", "owner", "site", "status", "wall time", "output")]
    lines += [
        (
            str(job.row.id),
            job.row.name,
            job.owner,
            job.row.site or "-",
            job.row.status,
            "-" if job.row.wall_s is None else f"{job.row.wall_s:.1f} s",
            _output_of(job),
        )
        for job in sorted(jobs, key=lambda job: job.row.id)
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    to_the_right = {0, 5}
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in to_the_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _output_of(job: WatchedJob) -> str:
    """Return the last line of standard output, and the names of further files."""
    if job.output is None:
        return "-"
    lines = job.output.get("std.out", "").splitlines()
    further = sorted(name for name, text in job.output.items() if name not in {"std.out", "std.err"} and text)
    shown = "".join(character if character.isprintable() else "?" for character in lines[-1]) if lines else ""
    return "; ".join(filter(None, [shown[:_OUTPUT_WIDTH], ", ".join(further)]))


def pi_of(jobs: Iterable[WatchedJob]) -> str:
    """Return the mean of π over all Monte Carlo jobs; empty without results."""
    estimates = [match for job in jobs for match in _PI.findall((job.output or {}).get("std.out", ""))]
    return f"π is about {fmean(map(float, estimates)):.4f}, say {len(estimates)} jobs together." if estimates else ""
