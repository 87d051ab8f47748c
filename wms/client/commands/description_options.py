"""The options of ``submit`` that describe jobs, in place of a file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import WrongUsageError
from .arguments import whole_number


class DescriptionOption(NamedTuple):
    """An option of ``submit`` that is a field of the description."""

    field: str
    metavar: str
    about: str
    is_number: bool = False
    #: May be repeated; the field is a list.
    is_list: bool = False


#: {option: field of the description}.
OPTIONS: Mapping[str, DescriptionOption] = {
    "--executable": DescriptionOption("executable", "PROGRAM", "program that the job runs"),
    "--arguments": DescriptionOption("arguments", "TEXT", "its arguments, as the shell reads them"),
    "--input": DescriptionOption(
        "input_sandbox", "FILE", "file of this computer that goes along; may be repeated", is_list=True
    ),
    "--output": DescriptionOption(
        "output_sandbox", "NAME", "file or pattern to bring back; may be repeated", is_list=True
    ),
    "--cpu-time": DescriptionOption("cpu_time_s", "S", "CPU time in reference-core seconds per core", is_number=True),
    "--wall-time": DescriptionOption("wall_time_s", "S", "longest time from start to end, in seconds", is_number=True),
    "--processors": DescriptionOption("processors", "N", "cores", is_number=True),
    "--memory": DescriptionOption("memory_mb", "MB", "memory of all its processes", is_number=True),
    "--disk": DescriptionOption("disk_mb", "MB", "disk space for what it writes", is_number=True),
    "--gpus": DescriptionOption("gpus", "N", "whole GPUs", is_number=True),
    "--site": DescriptionOption("sites", "SITE", "may run there; may be repeated", is_list=True),
    "--banned-site": DescriptionOption("banned_sites", "SITE", "must not run there; may be repeated", is_list=True),
    "--platform": DescriptionOption("platforms", "NAME", "platform on which it runs; may be repeated", is_list=True),
    "--tag": DescriptionOption("tags", "TAG", "tag that the queue must offer; may be repeated", is_list=True),
    "--container": DescriptionOption("container", "IMAGE", "container image in which it runs"),
    "--input-data": DescriptionOption(
        "input_data", "LFN", "file on storage elements that it reads; may be repeated", is_list=True
    ),
    "--name": DescriptionOption("job_name", "NAME", "name of the job"),
    "--label": DescriptionOption("job_group", "LABEL", "free label, by which jobs are found"),
    "--type": DescriptionOption("job_type", "TYPE", "job type"),
    "--priority": DescriptionOption("priority", "N", "user priority, 0 to 10", is_number=True),
}


def add_description(parser: ArgumentParser) -> None:
    """Add the options that describe jobs."""
    group = parser.add_argument_group("description, in place of a file")
    for option, each in OPTIONS.items():
        dest, about = f"description_{each.field}", each.about
        if each.is_number:
            group.add_argument(option, dest=dest, metavar=each.metavar, help=about, type=whole_number)
        elif each.is_list:
            group.add_argument(option, dest=dest, metavar=each.metavar, help=about, action="append")
        else:
            group.add_argument(option, dest=dest, metavar=each.metavar, help=about)
    group.add_argument(
        "--environment", action="append", metavar="NAME=VALUE", help="variable of the program; may be repeated"
    )
    about = "so many jobs; %%s is the number of each, from 0, and %%n the same with leading zeros"
    group.add_argument("--count", type=whole_number, metavar="N", help=about)


def described(options: Namespace) -> dict[str, Any]:
    """Return the description that the options make; empty: none is given.

    Raises:
        WrongUsageError: a variable has no name.
    """
    found: dict[str, Any] = {}
    for each in OPTIONS.values():
        value = getattr(options, f"description_{each.field}")
        if value is not None:
            found[each.field] = value
    if options.environment is not None:
        pairs = [text.partition("=") for text in options.environment]
        for name, sign, _ in pairs:
            if not name or not sign:
                raise WrongUsageError(f'"{name}" is not a variable; write NAME=VALUE.')
        found["environment"] = {name: value for name, _, value in pairs}
    if options.count is not None:
        found["parameters"] = {"count": options.count}
    return found
