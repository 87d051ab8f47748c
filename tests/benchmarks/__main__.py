"""The command line: ``python -m tests.benchmarks NAME …``."""

import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final

from django.utils.module_loading import import_string

from tests.benchmarks.catalogue import MEASURES
from tests.benchmarks.measuring import NotMeasurableError, Report, print_report, say, write_json
from tests.benchmarks.options import Options, parse
from tests.benchmarks.surroundings import Surroundings, surroundings

#: What one user or machine may do in a minute, or day.
BOUNDS: Final = (
    "WMS_MAX_CHANGES_PER_MINUTE",
    "WMS_MAX_DESCRIPTION_BYTES_PER_DAY",
    "WMS_MAX_JOBS_PER_DAY",
    "WMS_MAX_MACHINE_REQUESTS_PER_MINUTE",
    "WMS_MAX_REQUESTS_PER_MINUTE",
    "WMS_MAX_SUBMISSIONS_PER_MINUTE",
)


def main(arguments: list[str]) -> int:
    """Run the benchmarks that are named, one after another, each on a database of its own."""
    options = parse(arguments, known=MEASURES)
    if "list" in options.names:
        for name, what in MEASURES.items():
            say(f"{name:12} {what}")
        return 0
    reports: list[Report] = []
    settings = {"WMS_CPU_SEGMENTS_S": ",".join(map(str, options.cpu_segments_s))}
    # One user asks as fast as it can. Requests are counted all the same: that is part of what they take.
    settings |= dict.fromkeys(BOUNDS, "1000000000")
    with surroundings(settings=settings) as ready:
        for name in options.names:
            say(f"{name}: {MEASURES[name]} …")
            with ready.empty_database():
                report = _measured_by_a_child(name, ready, options)
            if report is None:
                return 1
            print_report(report)
            reports.append(report)
        say(f"\n{', '.join(f'{name} {value}' for name, value in ready.machine.items())}")
        if options.json is not None:
            write_json(options.json, machine=ready.machine, reports=reports)
    return 0


def _measured_by_a_child(name: str, ready: Surroundings, options: Options) -> Report | None:
    """Return what the benchmark found; None when it failed, which it has said.

    A process for each: what one remembers of its rows is not true of those of the next.
    """
    forking = get_context("fork")
    receiver, sender = forking.Pipe(duplex=False)
    child = forking.Process(target=_measure, args=(name, ready, options, sender))
    child.start()
    sender.close()
    try:
        report: Report | None = receiver.recv()
    except EOFError:
        report = None
    child.join()
    return report


def _measure(name: str, ready: Surroundings, options: Options, sender: Connection) -> None:
    # Imported by name, and only now: it has models, for which Django had to be set up.
    run: Callable[[Surroundings, Options], Report] = import_string(f"tests.benchmarks.{name.replace('-', '_')}.run")
    try:
        sender.send(run(ready, options))
    except NotMeasurableError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
