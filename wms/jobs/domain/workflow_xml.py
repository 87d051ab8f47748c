"""DIRAC's ``jobDescription.xml``: a workflow, whose steps each run one program (ADR 80).

Only what ``Job.setExecutable`` of DIRAC's API writes is read. Everything else would need DIRAC's own modules.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import basename
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias
from xml.parsers import expat

from wms.jobs.domain.archives import flaw_of_name
from wms.jobs.domain.description_checks import MAX_ARGUMENTS_BYTES
from wms.jobs.domain.fields import shown
from wms.wire.archives import components

MAX_XML_BYTES: Final = 1024 * 1024
MAX_STEPS: Final = 100
#: The only module that is run.
MODULE: Final = "Script"
#: Its code in each file, as DIRAC's API writes it.
_BODY: Final = f"from DIRAC.Workflow.Modules.{MODULE} import {MODULE}"
_WORDS: Final = frozenset({"name", "type", "version", "origin", "descr_short", "description"})
#: {element: elements that it may contain}; others contain text only.
_CHILDREN: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "": frozenset({"Workflow"}),
        "Workflow": _WORDS | {"Parameter", "ModuleDefinition", "StepDefinition", "StepInstance"},
        "ModuleDefinition": _WORDS | {"body", "required", "Parameter"},
        "StepDefinition": _WORDS | {"Parameter", "ModuleInstance"},
        "ModuleInstance": _WORDS | {"Parameter"},
        "StepInstance": _WORDS | {"Parameter"},
        "Parameter": frozenset({"value"}),
    }
)
_STEP_PARAMETERS: Final = ("executable", "arguments", "applicationLog")

#: {parameter of a step: (value, line)}.
_Values: TypeAlias = dict[str, tuple[str, int]]


class WorkflowStep(NamedTuple):
    """One program of a workflow."""

    #: The program and the arguments of the step.
    words: Sequence[str]
    #: Whether it has no arguments of its own: it gets those of the workflow.
    takes_arguments: bool
    #: Path in the job's directory.
    log: str


class Workflow(NamedTuple):
    """The steps of a ``jobDescription.xml``, in order."""

    steps: Sequence[WorkflowStep]
    #: Arguments of the workflow, unless the command line has others.
    arguments: Sequence[str]


class WorkflowError(Exception):
    """The file is not a workflow that can be run here."""

    def __init__(self, problem: str, *, line: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


@dataclass(slots=True, kw_only=True)
class _Element:
    """An element of the XML."""

    name: str
    line: int
    attributes: Mapping[str, str]
    children: "list[_Element]" = field(default_factory=list)
    text: str = ""

    def all(self, name: str) -> "list[_Element]":
        """Return the children of this name."""
        return [child for child in self.children if child.name == name]

    def text_of(self, name: str) -> str:
        """Return the text of the last child of this name, without blanks around it."""
        return next((child.text.strip() for child in reversed(self.children) if child.name == name), "")


def read_workflow(xml: bytes) -> Workflow:
    """Return the workflow in a ``jobDescription.xml``.

    Raises:
        WorkflowError: it is not XML, or has more than steps that run a program.
    """
    if len(xml) > MAX_XML_BYTES:
        raise WorkflowError(f"the file has more than {MAX_XML_BYTES} bytes", line=1)
    workflow = _tree(xml)
    for definition in workflow.all("ModuleDefinition"):
        _refuse_other_code(definition)
    defaults = {definition.text_of("type"): _defaults(definition) for definition in workflow.all("StepDefinition")}
    instances = workflow.all("StepInstance")
    if not 1 <= len(instances) <= MAX_STEPS:
        problem = f"it has {len(instances)} steps, and at most {MAX_STEPS} are run" if instances else "it has no steps"
        raise WorkflowError(problem, line=workflow.line)
    valued = [(each, _values_of_step(number, each, defaults)) for number, each in enumerate(instances, start=1)]
    # Steps may share long values of their definition.
    if sum(len(value) for _, values in valued for value, _ in values.values()) > MAX_XML_BYTES:
        raise WorkflowError(f"its steps have more than {MAX_XML_BYTES} characters in all", line=workflow.line)
    steps = [_step(number, values, line=each.line) for number, (each, values) in enumerate(valued, start=1)]
    arguments = [each for each in workflow.all("Parameter") if each.attributes.get("name") == "arguments"]
    return Workflow(steps, _split(_value(arguments[-1]), line=arguments[-1].line) if arguments else ())


def _refuse_other_code(definition: _Element) -> None:
    """Refuse the definition of another module than DIRAC's own Script; the code in it is compared, and never run."""
    module = definition.text_of("type")
    if module != MODULE:
        raise _other_module(module, line=definition.line)
    lines = [line.strip() for line in definition.text_of("body").splitlines()]
    if any(line not in {"", _BODY} and not line.startswith("#") for line in lines):
        problem = f"the module {MODULE} has code of its own, which is not run here; write it as a program of a step"
        raise WorkflowError(problem, line=definition.line)


def _other_module(module: str, *, line: int) -> WorkflowError:
    problem = (
        f"the module {shown(module)} is not run here, only {MODULE} is; let a step run its work as a program "
        "(Job.setExecutable)"
    )
    return WorkflowError(problem, line=line)


def _defaults(definition: _Element) -> _Values:
    """Return the values of a kind of steps, which has the one module that is run."""
    modules = definition.all("ModuleInstance")
    for module in modules:
        if module.text_of("type") != MODULE:
            raise _other_module(module.text_of("type"), line=module.line)
    if len(modules) != 1:
        kind = shown(definition.text_of("type"))
        problem = f"steps of the type {kind} have {len(modules)} modules; what can be run has one, {MODULE}"
        raise WorkflowError(problem, line=definition.line)
    return _values(definition)


def _values_of_step(number: int, instance: _Element, defaults: Mapping[str, _Values]) -> _Values:
    kind = instance.text_of("type")
    if kind not in defaults:
        problem = f"step {number} is of the type {shown(kind)}, which the file does not define"
        raise WorkflowError(problem, line=instance.line)
    return {**defaults[kind], **_values(instance)}


def _step(number: int, values: _Values, *, line: int) -> WorkflowStep:
    executable, arguments, log = (values.get(name, ("", line)) for name in _STEP_PARAMETERS)
    program = _split(executable[0], line=executable[1])
    if not program or not program[0]:
        raise WorkflowError(f"step {number} has no executable", line=executable[1])
    own = _split(arguments[0], line=arguments[1])
    return WorkflowStep((*program, *own), takes_arguments=not own, log=_log(number, *log, program=program[0]))


def _values(element: _Element) -> _Values:
    """Return the parameters of a step; of those with one name the last counts."""
    values: _Values = {}
    for parameter in element.all("Parameter"):
        name, value = parameter.attributes.get("name", ""), _value(parameter)
        if name in _STEP_PARAMETERS:
            values[name] = value, parameter.line
        elif value:
            known = ", ".join(_STEP_PARAMETERS)
            problem = f"a step has the parameter {shown(name)}, which is not known here (known: {known})"
            raise WorkflowError(problem, line=parameter.line)
    return values


def _value(parameter: _Element) -> str:
    """Return the value of a parameter, which stands in the file itself."""
    value = parameter.text_of("value")
    links = [parameter.attributes.get(name, "") for name in ("linked_module", "linked_parameter")]
    if any(links) or "@{" in value:
        name = shown(parameter.attributes.get("name", ""))
        problem = f"the parameter {name} takes its value from another one, which is not done here; write the value"
        raise WorkflowError(problem, line=parameter.line)
    return value


def _split(text: str, *, line: int) -> list[str]:
    if len(text) > MAX_ARGUMENTS_BYTES:  # shlex takes quadratic time for long words
        raise WorkflowError(f"{shown(text)} has more than {MAX_ARGUMENTS_BYTES} characters", line=line)
    try:
        return shlex.split(text)
    except ValueError as error:
        problem = f"a quote in {shown(text)} is not closed, or a backslash is its last character"
        raise WorkflowError(problem, line=line) from error


def _log(number: int, log: str, line: int, *, program: str) -> str:
    """Return the path of a log file; without a name it is that of the program."""
    log = log or f"{basename(program)}.log"
    path = components(log)
    if log.startswith("/") or log.endswith("/") or not path or any(map(flaw_of_name, path)):
        problem = f"the log file {shown(log)} of step {number} is not a file in the job's directory; name one there"
        raise WorkflowError(problem, line=line)
    return "/".join(path)


# ---- XML -------------------------------------------------------------------------------------------------------------


def _tree(xml: bytes) -> _Element:
    """Return the element Workflow, in which every element stands where the format has it.

    There is no DOCTYPE, so there are no entities that grow or are read from elsewhere.
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True
    top = _Element(name="", line=1, attributes={})
    open_elements = [top]

    def problem(sentence: str) -> WorkflowError:
        return WorkflowError(sentence, line=parser.CurrentLineNumber)

    def refuse_doctype(*_: object) -> None:
        raise problem("it has a DOCTYPE, which DIRAC does not write; leave it out")

    def start(name: str, attributes: dict[str, str]) -> None:
        parent = open_elements[-1]
        if name not in _allowed(parent):
            place = f"in <{parent.name}>" if parent.name else "as the whole"
            raise problem(f"<{name[:60]}> is not expected {place}")
        element = _Element(name=name, line=parser.CurrentLineNumber, attributes=attributes)
        parent.children.append(element)
        open_elements.append(element)

    def text(characters: str) -> None:
        if open_elements[-1].name in _CHILDREN and characters.strip():
            raise problem(f"the text {shown(characters.strip())} is not expected in <{open_elements[-1].name}>")
        open_elements[-1].text += characters

    parser.StartDoctypeDeclHandler = refuse_doctype
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: open_elements.pop()
    parser.CharacterDataHandler = text
    try:
        parser.Parse(xml, True)  # noqa: FBT003 - that it is the end, which has no name
    except (expat.ExpatError, ValueError, LookupError) as error:
        flaw = expat.ErrorString(error.code) if isinstance(error, expat.ExpatError) else error
        raise problem(f"it is not XML that can be read: {flaw}") from error
    return top.children[0]


def _allowed(element: _Element) -> Collection[str]:
    return _CHILDREN.get(element.name, ())
