"""`manage.py simulate FILE [--days 7] [--seed 1] [--json FILE]`: simulate the effect of shares and sites."""

import json
from argparse import ArgumentTypeError
from dataclasses import asdict
from math import isfinite
from os import environ
from pathlib import Path
from random import Random

from django.core.management.base import BaseCommand, CommandError, CommandParser

from matching.domain.simulation.places import unserved
from matching.domain.simulation.simulator import simulate
from taskqueues.services import queueing
from wms.simulation.scenario import scenario_of
from wms.simulation.scenario_file import ScenarioError, read_scenario
from wms.simulation.tables import tables

MAX_DAYS = 366


class Command(BaseCommand):
    help = "Simulate what groups, users and sites would get; a what-if for VO managers. The database is not used."
    # It runs without any server or secrets.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="YAML, see docs/simulation.example.yaml")
        parser.add_argument(
            "--days", type=_number, default=7.0, help=f"simulated days; above 0, at most {MAX_DAYS} (7)"
        )
        parser.add_argument(
            "--seed",
            type=_whole_number,
            default=1,
            help="seed of random numbers; the same seed gives the same outcome (1)",
        )
        parser.add_argument(
            "--json", dest="json_file", type=Path, metavar="FILE", help="write the outcome to this file, too"
        )

    def handle(self, *, file: Path, days: float, seed: int, json_file: Path | None, **_options: object) -> None:
        if not (isfinite(days) and 0 < days <= MAX_DAYS):
            raise CommandError(f"--days must be above 0 and at most {MAX_DAYS}.")
        try:
            entries, load = read_scenario(file, environ=environ)
        except ScenarioError as error:
            raise CommandError(error.detail) from error
        scenario = scenario_of(entries, load, rounding=queueing.rounding())
        for number in unserved(scenario):
            self.stderr.write(f"warning: {load[number].source.path}: fits no slot of any site; these jobs only wait")
        outcome = simulate(scenario, days=days, chance_of=lambda name: Random(f"{seed} {name}"))  # noqa: S311 - no secret
        self.stdout.write(f"{days:g} simulated days, seed {seed}")
        for table in tables(outcome):
            self.stdout.write(f"\n{table}")
        if json_file is not None:
            _write(json_file, {"days": days, "seed": seed, **asdict(outcome)})


# NB: for a ValueError the parser would print the name of the type.
def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is not a number; give one such as 7.") from error


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is not a whole number; give one such as 1.") from error


def _write(path: Path, result: dict[str, object]) -> None:
    try:
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
