"""The environment of a payload: what docs/jdl.md says, and what a payload prints of its own."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

_DOCUMENT = Path(__file__).parents[1] / "docs" / "jdl.md"
_ROW = re.compile(r"^\| (?P<names>`[A-Za-z_`, ]+`) \| (?P<value>.+) \|$", re.MULTILINE)
#: Of the shell that prints, and of container runtimes.
_OF_OTHERS = re.compile(r"_|SHLVL|OLDPWD|APPTAINER_\w+|SINGULARITY_\w+")
#: A job that prints its umask and its variables, each of which ends with NUL.
EXECUTABLE, ARGUMENTS = "/bin/sh", f"-c {shlex.quote('umask; cat /proc/$$/environ')}"


def documented() -> Mapping[str, bool]:
    """Return {variable: whether each payload has it}."""
    section = _DOCUMENT.read_text().partition("\n## Environment\n")[2].partition("\n## ")[0]
    return {
        name: not row["value"].startswith("*If ")
        for row in _ROW.finditer(section)
        for name in re.findall(r"[A-Za-z_]+", row["names"])
    }


def check_environment(printed: str, **expected: str) -> Mapping[str, str]:
    """Compare what a payload printed with the document, and some of its variables with *expected*; return all."""
    umask, _, rest = printed.partition("\n")
    variables = dict(variable.split("=", 1) for variable in rest.split("\0") if variable)
    names = {name for name in variables if not _OF_OTHERS.fullmatch(name)}
    has = documented()
    assert umask == "0022"
    assert {name for name, always in has.items() if always} <= names <= has.keys()
    assert {name: variables[name] for name in expected} == expected
    assert variables["USER"] == variables["LOGNAME"] != ""
    assert variables["HOME"] == variables["PWD"]
    for names_of_one in (("WMS_JOB_ID", "DIRACJOBID", "JOBID"), ("WMS_SITE", "DIRACSITE")):
        assert len({variables[name] for name in names_of_one}) == 1
    processors = {variables[f"{prefix}_PROCESSORS"] for prefix in ("WMS", "DIRAC", "DIRAC_JOB")}
    assert len(processors) == 1
    return variables
