"""``dirac-jobexec jobDescription.xml``: its command line, and the script that runs the steps instead (ADR 80)."""

import shlex
from collections.abc import Collection
from getopt import GetoptError, gnu_getopt
from posixpath import basename
from typing import Final, NamedTuple

from wms.jobs.domain.submission_warnings import quotes_are_closed
from wms.jobs.domain.workflow_xml import Workflow, WorkflowStep

PROGRAM: Final = "dirac-jobexec"
_SHORT: Final = "o:s:c:dp:"
_LONG: Final = ("option=", "section=", "cert=", "debug", "cfg=", "parameter=")
#: Options that concern only the log of DIRAC's program.
_OF_ITS_LOG: Final = frozenset({"-o", "--option", "-d", "--debug"})
_PARAMETER: Final = frozenset({"-p", "--parameter"})
# NB: the variables have names that no job gives to its own, which are exported: the steps would get changed values.
_SCRIPT: Final = """\
#!/bin/sh
# The steps of {name}, made from it when the job was submitted (docs/jdl.md, Jobs of dirac-jobexec).
# A failed step does not stop the next one; the exit code is that of the first that failed.
jobexec_exit=0

# jobexec_step NUMBER LOG PROGRAM ARGUMENT...; an empty LOG: the output of the job is its log.
jobexec_step() {{
    jobexec_number=$1 jobexec_log=$2 jobexec_program=$3
    shift 3
    jobexec_name=${{jobexec_program##*/}}
    # A file of the job's directory comes first, whatever its directory was.
    if [ -f "./$jobexec_name" ]; then
        jobexec_program=./$jobexec_name
        chmod u+x "$jobexec_program"
    fi
    case $jobexec_program in
    *.py)
        jobexec_line=
        [ "$jobexec_program" != "./$jobexec_name" ] || IFS= read -r jobexec_line <"$jobexec_program"
        case $jobexec_line in
        '#!'*) ;;
        *)
            set -- "$jobexec_program" "$@"
            jobexec_program=python3
            ;;
        esac
        ;;
    esac
    if [ -z "$jobexec_log" ]; then
        (exec "$jobexec_program" "$@")
        jobexec_code=$?
    else
        mkdir -p "${{jobexec_log%/*}}"
        printf '==== %s: standard output ====\\n' "$jobexec_name" >>"$jobexec_log"
        jobexec_begin=$(($(wc -c <"$jobexec_log") + 1))
        (exec "$jobexec_program" "$@") >>"$jobexec_log" 2>"$jobexec_log.stderr"
        jobexec_code=$?
        tail -c "+$jobexec_begin" "$jobexec_log"
        cat "$jobexec_log.stderr" >&2
        printf '==== %s: standard error ====\\n' "$jobexec_name" >>"$jobexec_log"
        cat "$jobexec_log.stderr" >>"$jobexec_log"
        rm -f "$jobexec_log.stderr"
    fi
    if [ "$jobexec_code" -ne 0 ]; then
        printf 'Step %s (%s) failed with exit code %s.\\n' "$jobexec_number" "$jobexec_name" "$jobexec_code" >&2
        [ "$jobexec_exit" -ne 0 ] || jobexec_exit=$jobexec_code
    fi
}}

{steps}
exit "$jobexec_exit"
"""


class Invocation(NamedTuple):
    """A command line of dirac-jobexec."""

    #: Name of the workflow's file.
    file_name: str
    #: Arguments for steps without their own; empty: those in the file.
    arguments: str
    #: Options that have no effect here.
    unused: tuple[str, ...]


class InvocationError(Exception):
    """The command line of dirac-jobexec is wrong."""


def is_jobexec(executable: str) -> bool:
    """Return whether an executable is DIRAC's program: by its name, or by a path outside of the job's directory."""
    return executable == PROGRAM or (executable.startswith(("/", "$")) and basename(executable) == PROGRAM)


def invocation_of(arguments: str) -> Invocation:
    """Return what the arguments of dirac-jobexec say.

    Raises:
        InvocationError: they do not name one file, or have an unknown option.
    """
    _refuse_open_quotes(arguments)
    try:
        options, words = gnu_getopt(shlex.split(arguments), _SHORT, list(_LONG))
    except GetoptError as error:
        raise InvocationError(f"{PROGRAM}: {error.msg}.") from error
    # DIRAC reads words that end with .cfg as its configuration.
    names = [word for word in words if not word.endswith(".cfg")]
    if len(names) != 1:
        raise InvocationError(f"{PROGRAM} runs one file, such as jobDescription.xml; arguments name {len(names)}.")
    given, unused = "", [word for word in words if word not in names]
    for option, value in options:
        name, _, text = value.partition("=")
        if option in _PARAMETER and name == "arguments":
            given = text
        elif option in _PARAMETER:
            unused.append(f"{option} {name}")
        elif option not in _OF_ITS_LOG:
            unused.append(option)
    _refuse_open_quotes(given)
    return Invocation(names[0].removeprefix("./"), given, tuple(dict.fromkeys(unused)))


def _refuse_open_quotes(arguments: str) -> None:
    if not quotes_are_closed(arguments):
        raise InvocationError("A quote in arguments is not closed, or a backslash is the last character. Close it.")


def script_of(workflow: Workflow, *, file_name: str, outputs: Collection[str]) -> bytes:
    """Return a script for any POSIX shell that runs the steps of a workflow.

    Args:
        workflow: the workflow.
        file_name: its file, for a comment.
        outputs: files of the job's standard output and standard error, which are not written by a second name.
    """
    steps = [_call(number, step, outputs) for number, step in enumerate(workflow.steps, start=1)]
    if workflow.arguments:
        steps.insert(0, f"[ $# -gt 0 ] || set -- {shlex.join(workflow.arguments)}")
    return _SCRIPT.format(name=file_name, steps="\n".join(steps)).encode()


def _call(number: int, step: WorkflowStep, outputs: Collection[str]) -> str:
    log = "" if step.log in outputs else f"./{step.log}"
    arguments = ' "$@"' if step.takes_arguments else ""
    return f"jobexec_step {number} {shlex.join([log, *step.words])}{arguments}"
