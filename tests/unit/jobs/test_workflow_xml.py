"""jobDescription.xml of DIRAC: the steps that are read, and the sentences of what is refused."""

import contextlib
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.jobs.domain.workflow_xml import MAX_XML_BYTES, WorkflowError, WorkflowStep, read_workflow

WORKFLOWS = Path(__file__).parent / "workflows"
ONE = (WORKFLOWS / "one_step.xml").read_text(encoding="utf-8")
THREE = (WORKFLOWS / "three_steps.xml").read_text(encoding="utf-8")


def with_steps(*steps: str, more: str = "") -> bytes:
    """Return a workflow with steps of these parameters, as `name=value` in lines."""
    definition = "<StepDefinition><type>T</type><ModuleInstance><type>Script</type></ModuleInstance></StepDefinition>"
    instances = [
        f"<StepInstance><type>T</type>{''.join(map(_parameter, step.splitlines()))}</StepInstance>" for step in steps
    ]
    return "\n".join(["<Workflow>", more, definition, *instances, "</Workflow>"]).encode()


def _parameter(line: str) -> str:
    name, _, value = line.partition("=")
    return f'<Parameter name="{name}"><value><![CDATA[{value}]]></value></Parameter>'


def test_the_steps_of_dirac_are_read_in_order() -> None:
    one, three = read_workflow(ONE.encode()), read_workflow(THREE.encode())
    log = "Script1_CodeOutput.log"
    assert one.steps == [WorkflowStep(("/bin/echo", "hello", "two words"), takes_arguments=False, log=log)]
    assert [(list(step.words), step.takes_arguments, step.log) for step in three.steps] == [
        (["/bin/ls", "-l"], True, "before.log"),
        (["/home/alice/work/scan.py"], True, "Script2_scan.py.log"),
        (["/bin/date", "-u", "+%s"], False, "after.log"),
    ]
    assert one.arguments == three.arguments == []


@pytest.mark.parametrize(
    ("log", "path"),
    [
        ("", "echo.log"),
        ("out/a b.log", "out/a b.log"),
        ("./x//y.log", "x/y.log"),
        ("-n", "-n"),
        ("é;$x'.log", "é;$x'.log"),
    ],
)
def test_a_log_is_a_file_in_the_directory_of_the_job(log: str, path: str) -> None:
    (step,) = read_workflow(with_steps(f"executable=/bin/echo\napplicationLog={log}")).steps
    assert step.log == path


def test_the_last_value_of_a_parameter_counts_and_defaults_are_those_of_the_definition() -> None:
    default = _parameter("executable=/bin/true")
    workflow = with_steps("arguments=5").decode().replace("<ModuleInstance>", f"{default}<ModuleInstance>")
    assert read_workflow(workflow.encode()).steps[0].words == ("/bin/true", "5")
    (step,) = read_workflow(with_steps("executable=a\nexecutable=b")).steps
    assert step.words == ("b",)


def test_comments_a_declaration_and_other_encodings_are_xml() -> None:
    declared = f"<?xml version='1.0' encoding='latin-1'?><!-- é -->{ONE.replace('hello', 'é')}"
    assert read_workflow(declared.encode("latin-1")).steps[0].words == ("/bin/echo", "é", "two words")


_BOMB = "<!DOCTYPE b [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;'>]>"
_NOT_RUN = "is not run here, only Script is; let a step run its work as a program (Job.setExecutable)"
_REFUSED = [
    ("", "1: it is not XML that can be read: no element found"),
    ("no XML", "1: it is not XML that can be read: syntax error"),
    (
        ONE.replace("Job Type", "a < b"),
        "8: it is not XML that can be read: not well-formed (invalid token)",
    ),
    (ONE + ONE, "45: it is not XML that can be read: junk after document element"),
    (_BOMB + ONE, "1: it has a DOCTYPE, which DIRAC does not write; leave it out"),
    (
        "<!DOCTYPE Workflow SYSTEM 'file:///etc/passwd'>" + ONE,
        "1: it has a DOCTYPE, which DIRAC does not write; leave it out",
    ),
    (ONE.replace("hello", "]]>&b;"), None),
    ("<html/>", "1: <html> is not expected as the whole"),
    ("<Workflow></Workflow>", "1: it has no steps"),
    (with_steps(*["executable=a"] * 101).decode(), "1: it has 101 steps, and at most 100 are run"),
    ("<Workflow>\n<loop/></Workflow>", "2: <loop> is not expected in <Workflow>"),
    ("<Workflow>\nhello</Workflow>", '2: the text "hello" is not expected in <Workflow>'),
    ("<Workflow><name><b/></name></Workflow>", "1: <b> is not expected in <name>"),
    (
        ONE.replace("<type>Script</type>", "<type>UserAnalysis</type>", 1),
        f'10: the module "UserAnalysis" {_NOT_RUN}',
    ),
    (
        ONE.replace("<type>Script</type>\n</ModuleInstance>", "<type>Other</type>\n</ModuleInstance>"),
        f'30: the module "Other" {_NOT_RUN}',
    ),
    (
        ONE.replace("from DIRAC.Workflow", "from LHCbDIRAC.Workflow"),
        "10: the module Script has code of its own, which is not run here; write it as a program of a step",
    ),
    (ONE.replace("<ModuleInstance>", "<ModuleInstance/><ModuleInstance>"), None),
    (
        THREE.replace("<ModuleInstance>", "<ModuleInstance><type>Script</type></ModuleInstance><ModuleInstance>", 1),
        '15: steps of the type "ScriptStep1" have 2 modules; what can be run has one, Script',
    ),
    (
        ONE.replace("<type>ScriptStep1</type>", "<type>S</type>", 1),
        '36: step 1 is of the type "ScriptStep1", which the file does not define',
    ),
    (with_steps("executable=a", "arguments=b").decode(), "5: step 2 has no executable"),
    (with_steps("executable=''").decode(), "4: step 1 has no executable"),
    (
        with_steps("executable=a\narguments=it's").decode(),
        '4: a quote in "it\'s" is not closed, or a backslash is its last character',
    ),
    (
        with_steps("executable=a\nretries=3").decode(),
        '4: a step has the parameter "retries", which is not known here (known: executable, arguments, applicationLog)',
    ),
    (
        with_steps("executable=a\narguments=@{NUMBER}").decode(),
        '4: the parameter "arguments" takes its value from another one, which is not done here; write the value',
    ),
    (
        ONE.replace('name="executable" type="string" linked_module=""', 'name="executable" linked_module="self"'),
        '27: the parameter "executable" takes its value from another one, which is not done here; write the value',
    ),
    *(
        (
            with_steps(f"executable=a\napplicationLog={log}").decode(),
            f'4: the log file "{log}" of step 1 is not a file in the job\'s directory; name one there',
        )
        for log in ("/tmp/a.log", "../a.log", "a/../../b", "..", ".", "logs/", "/")
    ),
]


@pytest.mark.parametrize(("xml", "sentence"), _REFUSED)
def test_what_is_not_of_the_format_is_refused_with_its_line(xml: str, sentence: str | None) -> None:
    with pytest.raises(WorkflowError) as refused:
        read_workflow(xml.encode())
    if sentence is not None:
        assert f"{refused.value.line}: {refused.value.problem}" == sentence


def test_a_file_that_is_too_large_is_not_parsed() -> None:
    with pytest.raises(WorkflowError, match=f"more than {MAX_XML_BYTES} bytes"):
        read_workflow(ONE.encode() + b" " * MAX_XML_BYTES)
    with pytest.raises(WorkflowError, match="has more than 32768 characters"):
        read_workflow(with_steps(f"executable={'a' * 32_769}"))
    shared = _parameter(f"arguments={'a ' * 10_000}")
    many = with_steps(*["executable=a"] * 100).decode().replace("<ModuleInstance>", f"{shared}<ModuleInstance>")
    with pytest.raises(WorkflowError, match=f"its steps have more than {MAX_XML_BYTES} characters in all"):
        read_workflow(many.encode())


@given(st.integers(), st.sampled_from([ONE, THREE]), st.sampled_from(["", "<", "]]>", "&", "'", "\0", "<value>", "é"]))
def test_damaged_files_are_read_or_refused(seed: int, text: str, inserted: str) -> None:
    chance = random.Random(seed)
    begin = chance.randrange(len(text))
    damaged = text[:begin] + inserted + text[begin + chance.choice([0, 1, 50, 2000]) :]
    with contextlib.suppress(WorkflowError):
        assert read_workflow(damaged.encode()).steps


@given(st.binary())
def test_any_content_is_refused_with_a_sentence(content: bytes) -> None:
    with pytest.raises(WorkflowError):
        read_workflow(content)
