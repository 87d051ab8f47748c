"""Recipes on the page of help: job descriptions that run as they are, each with what it is for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A description in JDL, which the form of submissions can begin with."""

    name: str
    title: str
    #: What one should know of it, in one or two sentences.
    note: str
    jdl: str


_ALL: Final[Sequence[Recipe]] = (
    Recipe(
        name="one",
        title="One program",
        note="Every job needs an executable. What it prints is in std.out and std.err, which are brought back.",
        jdl='Executable = "/bin/echo";\nArguments  = "Hello from the grid";\nJobName    = "hello";\n',
    ),
    Recipe(
        name="many",
        title="Many jobs from one description",
        note="Two sequences of three values, read in step, make three jobs; %(mass)s and %(seed)s stand for their "
        "values, %n for the number of the job.",
        jdl='Executable      = "/bin/echo";\nArguments       = "mass %(mass)s, seed %(seed)s";\n'
        'JobName         = "scan-%n";\nJobGroup        = "scan";\n'
        "Parameters.mass = { 100, 125, 150 };\nParameters.seed = { 11, 12, 13 };\n",
    ),
    Recipe(
        name="files",
        title="Bring files back",
        note="Files that OutputSandbox names, or patterns such as *.txt, are stored with the job when it ends.",
        jdl='Executable    = "/bin/sh";\nArguments     = "-c \'date > result.txt\'";\nJobName       = "with-output";\n'
        'OutputSandbox = { "std.out", "std.err", "result.txt" };\n',
    ),
    Recipe(
        name="resources",
        title="Ask for time, memory and cores",
        note="CPU time is in seconds for each core, memory in MB for the whole job. Ask for what it needs: less fits "
        "more queues, and a job that uses more is stopped.",
        jdl='Executable         = "/bin/sh";\nArguments          = "-c \'sleep 10\'";\nJobName            = "larger";\n'
        "CPUTime            = 3600;\nMemory             = 2000;\nNumberOfProcessors = 2;\n",
    ),
)
#: {name: recipe}, in the order of the page.
RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType({recipe.name: recipe for recipe in _ALL})
