"""The command line: ``python -m tests.benchmarks NAME …``."""

import sys
from collections.abc import Callable

from django.utils.module_loading import import_string

from tests.benchmarks.catalogue import MEASURES
from tests.benchmarks.machine import describe_machine
from tests.benchmarks.measuring import Report, print_report, say, write_json
from tests.benchmarks.options import Options, parse
from tests.benchmarks.surroundings import Surroundings, surroundings

Benchmark = Callable[[Surroundings, Options], Report]


def main(arguments: list[str]) -> int:
    """Run the benchmarks that are named, one after another, each on a database of its own."""
    options = parse(arguments, known=MEASURES)
    if "list" in options.names:
        for name, what in MEASURES.items():
            say(f"{name:12} {what}")
        return 0
    reports = []
    settings = {"WMS_CPU_SEGMENTS_S": ",".join(map(str, options.cpu_segments_s))}
    with surroundings(settings=settings) as ready:
        for name in options.names:
            # Only now: what it imports has models, for which Django had to be set up.
            benchmark: Benchmark = import_string(f"tests.benchmarks.{name.replace('-', '_')}.run")
            with ready.empty_database():
                machine = describe_machine()
                reports.append(benchmark(ready, options))
            print_report(reports[-1])
    say(f"\n{', '.join(f'{name} {value}' for name, value in machine.items())}")
    if options.json is not None:
        write_json(options.json, machine=machine, reports=reports)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
