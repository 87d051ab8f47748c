"""The command line of a run."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.workloads import lhcb, uniform
from tests.benchmarks.workloads.shape import Workload

WORKLOADS = ("uniform", "lhcb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Sizes, durations and counts of a run; each benchmark ignores those that do not concern it."""

    names: Sequence[str]
    workload: str
    jobs: int | None
    queues: int | None
    operations: int
    leases: int
    seconds: float
    rate: float
    settle: float
    pilots: int | None
    idle_pilots: int
    open_pages: int
    processes: int
    ces: int
    batch: int
    repeat: int
    warm: int
    heartbeats: int
    explain: bool
    seed: int
    json: Path | None

    @property
    def cpu_segments_s(self) -> tuple[int, ...]:
        """The CPU segments of the workload, for the setting WMS_CPU_SEGMENTS_S."""
        return lhcb.CPU_SEGMENTS_S if self.workload == "lhcb" else uniform.CPU_SEGMENTS_S

    def shape(self) -> Workload:
        """Return the workload in the requested size."""
        if self.workload == "lhcb":
            return lhcb.lhcb(queues=self.queues or lhcb.QUEUES, jobs=self.jobs or lhcb.JOBS, seed=self.seed)
        return uniform.uniform(queues=self.queues or uniform.QUEUES, jobs=self.jobs or uniform.JOBS, seed=self.seed)


def parse(arguments: Sequence[str], *, known: Mapping[str, str]) -> Options:
    """Return the options of the command line; *known* maps each benchmark to its description."""
    lines = "\n".join(f"  {name:12} {what}" for name, what in known.items())
    parser = ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measure this system on servers of its own, which are gone afterwards.",
        epilog=f"benchmarks:\n{lines}\n",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", choices=[*known, "list"], metavar="NAME", help="which; list: name them")
    parser.add_argument("--workload", choices=WORKLOADS, default="uniform", help="shape of what waits (uniform)")
    parser.add_argument("--jobs", type=int, help="waiting jobs (those of the workload)")
    parser.add_argument("--queues", type=int, help="task queues (those of the workload)")
    parser.add_argument("--operations", type=int, default=2000, help="matches, or submissions, one by one (2000)")
    parser.add_argument("--leases", type=int, default=0, help="leases that are open before the first match (0)")
    parser.add_argument("--seconds", type=float, default=60, help="of load over HTTP (60)")
    parser.add_argument("--rate", type=float, default=40, help="requests a second (40; of memory)")
    parser.add_argument("--settle", type=float, default=180, help="seconds in which pilots in turn start, before (180)")
    parser.add_argument("--pilots", type=int, help="that ask at the same time (24; heartbeats: 10000, in turn)")
    parser.add_argument("--idle-pilots", type=int, default=100_000, help="that ask and get nothing (100000)")
    parser.add_argument("--open-pages", type=int, default=500, help="pages of the portal that stay open (500)")
    parser.add_argument("--processes", type=int, help="web workers (2; contention: 8)")
    parser.add_argument("--ces", type=int, default=500, help="computing elements that directors serve (500)")
    parser.add_argument("--batch", type=int, default=10_000, help="jobs of one request (10000; kill: up to 100000)")
    parser.add_argument("--repeat", type=int, default=5, help="how often what takes long is done (5)")
    parser.add_argument("--warm", type=int, default=0, help="readings of a list after a first one, then the median (0)")
    parser.add_argument("--heartbeats", type=int, default=3, help="of a job, in its life (3; of wal)")
    parser.add_argument("--explain", action="store_true", help="show the plan of the slowest statement (of lists)")
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn (1)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    return Options(**vars(parser.parse_args(arguments)))
