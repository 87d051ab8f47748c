"""The chaos suite: ``python -m tests.chaos``.

It runs the whole system under load, does to it what machines, networks and pilots do, and checks that nothing was lost.
"""

import argparse
import os
import platform
import sys
from pathlib import Path
from typing import Final

from docs.generators.markdown import with_part
from tests.chaos.run import Options, Result, run
from tests.chaos.surroundings import enter_mount_namespace

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
PART: Final = "The last run"


def main(arguments: list[str]) -> int:
    """Run the suite; return 1 if it found a violation."""
    options = _parser().parse_args(arguments)
    enter_mount_namespace("tests.chaos")
    size = Options(
        seconds=options.seconds,
        seed=options.seed,
        pilots=options.pilots,
        submitters=options.submitters,
        agents=options.agents,
        spoiled=options.spoiled,
        log=options.log,
    )
    result = run(size)
    text = _text(result, size, beside=options.beside)
    if options.write:
        PAGE.write_text(with_part(PAGE.read_text(encoding="utf-8"), of=PART, content=text), encoding="utf-8")
    sys.stdout.write(f"{text}\n")
    for violation in result.violations:
        sys.stdout.write(f"VIOLATION {violation}\n")
    return 1 if result.violations else 0


def _text(result: Result, options: Options, *, beside: str) -> str:
    command = f"uv run python -m tests.chaos {_command_of(options)}"
    facts = {
        "seconds of faults": f"{options.seconds:.0f}",
        "simulated pilots, real pilots, submitters": f"{options.pilots}, {options.agents}, {options.submitters}",
        "machine": f"{os.cpu_count()} processors, {platform.system()} {platform.release()}",
        "account": "root" if os.geteuid() == 0 else "an ordinary user",
        "beside it ran": beside,
        "left out": "; ".join(result.left_out) or "nothing",
    }
    tables = result.figures.markdown(facts=facts, violations=result.violations)
    return f"`{command}`\n\n{tables}"


def _command_of(options: Options) -> str:
    return " ".join(
        f"--{name} {getattr(options, name):g}"
        for name in ("seconds", "seed", "pilots", "submitters", "agents", "spoiled")
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="of faults (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (default: %(default)s)")
    parser.add_argument("--pilots", type=int, default=12, help="simulated ones at a time (default: %(default)s)")
    parser.add_argument("--submitters", type=int, default=3, help="users at a time (default: %(default)s)")
    parser.add_argument("--agents", type=int, default=2, help="real pilots at a time (default: %(default)s)")
    parser.add_argument("--spoiled", type=float, default=0.1, help="part of the exchanges (default: %(default)s)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="where the output of the system is kept")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/reliability.md")
    parser.add_argument("--beside", default="not said", help="what else the machine does, for the page")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
