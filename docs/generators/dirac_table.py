"""The table of docs/jdl.md of what DIRAC does and what is done here; what is done is computed from the example."""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from docs.generators.markdown import table
from wms.jobs.domain import parametric
from wms.jobs.domain.description import InvalidDescriptionError, described
from wms.jobs.domain.jdl import InvalidJdlError, parse_jdl
from wms.jobs.domain.placeholders import id_warning, unknown_placeholders
from wms.jobs.domain.submission_warnings import CheckedJob, Surroundings, findings_about


class Example(NamedTuple):
    """One line of a JDL, and what DIRAC makes of it."""

    jdl: str
    in_dirac: str


EXAMPLES: Final = (
    Example("JobName = my first job;", "A text needs no quotes; it ends at `;`."),
    Example("InputSandbox = {run.sh,a b.txt};", "Nor do texts in a list; blanks in them are dropped."),
    Example("JobGroup = 00012345;", "Every value is a text."),
    Example('StdOutput = JobName; JobName = "a";', "The text “JobName”."),
    Example("CPUTime = 3600 * 24;", "Nothing is computed: as if it were absent."),
    Example('InputData = "LFN:/vo/a, LFN:/vo/b";', "Two files."),
    Example('InputData = "/vo//a";', "The file `/vo/a`."),
    Example('Type = "Job"; Type = "Job";', "The last one counts."),
    Example("CPUTime = 10; CPUTime = 20;", "The last one counts."),
    Example("Colour = blue;", "Unknown attributes are kept."),
    Example('Platform = ; OutputSE = "";', "As if they were absent."),
    Example('Site = { " A ", "" };', "Blanks at the ends and empty elements are dropped."),
    Example('CPUTime = "3600.0";', "3600."),
    Example("ExecutionEnvironment = {A=two%20words};", "The node decodes percent-encoded values."),
    Example('Environment = "A=1 , B = 2";', "Two variables."),
    Example(r'Arguments = "[a-z]\d";', "There are no escapes: a backslash is one."),
    Example('InputSandbox = strcat("run", ".sh");', "Nothing is computed: a file of that name."),
    Example("InputSandbox = LFN:/vo/soft.tgz;", "Fetched from any site, and unpacked."),
    Example('InputSandbox = "SB:SE|/a.tar";', "A sandbox of DIRAC's own store."),
    Example("InputData = /vo/a; DisableDataScheduling = True;", "The data do not choose the site."),
    Example("OutputPath = myjobs/output;", "Below the home directory of the owner."),
    Example("OutputPath = /vo/a;", "Likewise: the leading `/` is dropped."),
    Example("MinNumberOfProcessors = 2; MaxNumberOfProcessors = 8;", "2 to 8 processors, as the slot has them."),
    Example("MinNumberOfProcessors = 8; MaxNumberOfProcessors = 4;", "Refused."),
    Example("NumberOfProcessors = 4; SmpGranularity = 4;", "`SmpGranularity` is not read."),
    Example("MaxRAM = 4;", "Gigabytes since DIRAC 9."),
    Example("WholeNode = True;", "The whole node, as tags."),
    Example("OutputSE = {CERN-USER,CNAF-USER};", "The first one that works."),
    Example('OutputSE = "CERN-USER, CNAF-USER";', "The same."),
    Example("Parameters = 2; Parameters.n = {a,b}; n = %(n)s;", "Two jobs; the API writes `n` beside its sequence."),
    Example("Parameters = 3; ParameterStart = 1;", "The default step is 0."),
    Example("Parameters = 2; Parameters.x = {a,b}; ParameterStart.y = 5; ParameterStep.y = 2;", "Two jobs: a 5, b 7."),
    Example(
        "InputData = %(f)s; Parameters.f = {{/vo/a,/vo/b},{/vo/c}};", "The files of each job, with `Parameters = 2`."
    ),
    Example("CPUTime = %s; Parameters = {600,1200};", "A CPU time for each job."),
    Example('Arguments = "%j";', "The id of the job."),
    Example('Arguments = "+%s %%j";', "The id of the job after `%`; there is no way to write `%j`."),
    Example("Site = LCG.%j.ch;", "The id of the job."),
    Example("StdOutput = r_PARAM_.out; Parameters = 2;", "`_PARAM_` is gLite's; it stays."),
    Example("Parameter.x = a; ParameterNumber = 0;", "Added to a stored job: its values."),
    Example('Executable = "$HOME/run.sh";', "Variables of the node are replaced."),
    Example('Arguments = "$HOME *.txt > out.txt";', "A shell reads them; in steps of `dirac-jobexec` none does."),
)
_SURROUNDINGS: Final = Surroundings(
    middlewares=frozenset(), longest_segment_s=10**6, stores_output=True, elements=frozenset(), job_types=frozenset()
)
_ELSE: Final[Mapping[str, object]] = {
    "executable": "a",
    "arguments": "",
    "priority": 1,
    "cpu_time_s": 1,
    "job_type": "User",
    "output_se": None,
    "input_data_policy": "download",
    **dict.fromkeys(("grid_middlewares", "input_data", "input_sandbox", "output_data"), ()),
}


def differences() -> str:
    """Return the table."""
    rows = [[f"`{example.jdl}`", example.in_dirac, here(example.jdl)] for example in EXAMPLES]
    return table(["in a JDL", "DIRAC", "here"], rows)


def here(jdl: str) -> str:
    """Return the fields that a JDL is read as, with its warnings other than that of missing quotes, or its error."""
    try:
        job = parse_jdl(jdl)
    except InvalidJdlError as error:
        return f"Refused: {error.problem}"
    fields = [f"`{name}: {json.dumps(value, ensure_ascii=False)}`" for name, value in job.description.items()]
    told = [sentence for sentence in job.warnings if not sentence.startswith("Texts without double quotes")]
    found = findings_about([CheckedJob({**_ELSE, **_judged(job.description)})], _SURROUNDINGS)
    told += [finding.text for finding in found]
    told += _of_placeholders(job.description)
    return " ".join([f"{', '.join(fields) or 'Nothing'}.", *told])


def _of_placeholders(description: Mapping[str, object]) -> list[str]:
    """Return the warnings about placeholders, or why the description is refused because of one."""
    is_parametric = parametric.is_parametric(description)
    told = list(unknown_placeholders(description, parametric=is_parametric))
    if is_parametric or "%" not in str(description):
        return told
    try:
        [job] = parametric.parse_all({"executable": "a", **description})
    except InvalidDescriptionError as refused:
        return [f"Refused: {refused.detail}"]
    return [*filter(None, [id_warning(described(job))]), *told]


def _judged(description: Mapping[str, object]) -> Mapping[str, object]:
    return {name: description[name] for name in ("executable", "arguments") if name in description}
