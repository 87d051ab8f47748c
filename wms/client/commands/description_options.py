"""The options of ``submit`` that describe jobs, in place of a file."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import WrongUsageError
from .arguments import megabytes, seconds, whole_number

#: An entry of an input sandbox that may contain the program.
_ARCHIVE = re.compile(r"\.(tar(\.[a-z0-9]+)?|tgz|tbz2|txz|zip)$|^(sha256|sb|lfn):", re.IGNORECASE)


class DescriptionOption(NamedTuple):
    """An option of ``submit`` that is a field of the description."""

    field: str
    metavar: str
    about: str
    #: Reads a number; None: the field is a text, or a list of texts.
    reads: Callable[[str], int] | None = None
    #: May be repeated; the field is a list.
    is_list: bool = False
    #: Has no value; the field is true.
    is_flag: bool = False


#: {option: field of the description}.
OPTIONS: Mapping[str, DescriptionOption] = {
    "--executable": DescriptionOption(
        "executable", "PROGRAM", "program that the job runs; a file of this computer goes along"
    ),
    "--arguments": DescriptionOption("arguments", "TEXT", "its arguments, as the shell reads them"),
    "--input": DescriptionOption(
        "input_sandbox", "FILE", "file of this computer that goes along; may be repeated", is_list=True
    ),
    "--output": DescriptionOption(
        "output_sandbox", "NAME", "file or pattern to bring back; may be repeated", is_list=True
    ),
    "--cpu-time": DescriptionOption(
        "cpu_time_s", "S", "CPU time per core, in reference-core seconds, or as 24h", seconds
    ),
    "--wall-time": DescriptionOption(
        "wall_time_s", "S", "longest time from start to end, in seconds, or as 24h", seconds
    ),
    "--processors": DescriptionOption("processors", "N", "cores", whole_number),
    "--memory": DescriptionOption("memory_mb", "MB", "memory of all its processes, in MB, or as 2GB", megabytes),
    "--disk": DescriptionOption("disk_mb", "MB", "disk space for what it writes, in MB, or as 20GB", megabytes),
    "--gpus": DescriptionOption("gpus", "N", "whole GPUs", whole_number),
    "--site": DescriptionOption("sites", "SITE", "may run there; may be repeated", is_list=True),
    "--banned-site": DescriptionOption("banned_sites", "SITE", "must not run there; may be repeated", is_list=True),
    "--platform": DescriptionOption("platforms", "NAME", "platform on which it runs; may be repeated", is_list=True),
    "--tag": DescriptionOption("tags", "TAG", "tag that the queue must offer; may be repeated", is_list=True),
    "--container": DescriptionOption("container", "IMAGE", "container image in which it runs"),
    "--input-data": DescriptionOption(
        "input_data", "LFN", "file on storage elements that it reads; may be repeated", is_list=True
    ),
    "--overwrite": DescriptionOption(
        "overwrite", "", "its output data may replace registered files of yours", is_flag=True
    ),
    "--name": DescriptionOption("job_name", "NAME", "name of the job"),
    "--label": DescriptionOption("job_group", "LABEL", "free label, by which jobs are found"),
    "--type": DescriptionOption("job_type", "TYPE", "job type"),
    "--priority": DescriptionOption("priority", "N", "user priority, 0 to 10", whole_number),
}


def add_description(
    parser: ArgumentParser, *, title: str = "description, in place of a file", several: bool = True
) -> None:
    """Add the options that describe jobs, with the one that makes several jobs of a description if *several*."""
    group = parser.add_argument_group(title)
    for option, each in OPTIONS.items():
        dest, about = f"description_{each.field}", each.about
        if each.is_flag:
            group.add_argument(option, dest=dest, help=about, action="store_true", default=None)
        elif each.reads is not None:
            group.add_argument(option, dest=dest, metavar=each.metavar, help=about, type=each.reads)
        elif each.is_list:
            group.add_argument(option, dest=dest, metavar=each.metavar, help=about, action="append")
        else:
            group.add_argument(option, dest=dest, metavar=each.metavar, help=about)
    group.add_argument(
        "--environment", action="append", metavar="NAME=VALUE", help="variable of the program; may be repeated"
    )
    if several:
        about = "so many jobs; %%s is the number of each, from 0, and %%n the same with leading zeros"
        group.add_argument("--count", type=whole_number, metavar="N", help=about)


def described(options: Namespace) -> dict[str, Any]:
    """Return the description that the options make; empty: none is given.

    Raises:
        WrongUsageError: a variable has no name.
    """
    found = {}
    for each in OPTIONS.values():
        value = getattr(options, f"description_{each.field}")
        if value is not None:
            found[each.field] = value
    _let_program_go_along(found)
    if options.environment is not None:
        pairs = [text.partition("=") for text in options.environment]
        for name, sign, _ in pairs:
            if not name or not sign:
                raise WrongUsageError(f'"{name}" is not a variable; write NAME=VALUE.')
        found["environment"] = {name: value for name, _, value in pairs}
    if getattr(options, "count", None) is not None:
        found["parameters"] = {"count": options.count}
    return found


def _let_program_go_along(description: dict[str, Any]) -> None:
    """Add a program of this computer to the input sandbox, unless another entry may bring it.

    An absolute path is that of a program on the node.
    """
    program = description.get("executable", "")
    path = Path(program)
    if not program or path.is_absolute() or not path.is_file():
        return
    entries = description.get("input_sandbox", [])
    if any(Path(entry).name == path.name or _ARCHIVE.search(entry) for entry in entries):
        return
    description["input_sandbox"] = [*entries, program]
    # In the job's directory it has no other directory around it.
    description["executable"] = f"./{path.name}"
