"""JDL: DIRAC's job descriptions, translated into those of this system."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.domain.classad import ClassAdError
from wms.jobs.domain import description, parametric
from wms.jobs.domain.jdl import ATTRIBUTES, InvalidJdlError, parse_jdl
from wms.wire.jdl_texts import file_name


def described(text: str) -> dict[str, object]:
    return parse_jdl(text).description


def test_a_job_of_every_attribute_is_understood() -> None:
    job = parse_jdl(
        """
        # how a physicist of 2009 writes it
        [
            Executable = "run.sh"; Arguments = "-n 10"; jobname = "MC"; JobGroup = "2009"; JobType = "MCSimulation";
            CPUTime = 3600 * 24;  // a day
            Priority = 5; Site = "LCG.CERN.ch"; BannedSites = { "LCG.A.org", "LCG.B.org" }; GridCE = "ce01.cern.ch";
            Platform = "x86_64-el9"; PilotTypes = { "private" }; GridMiddleware = "gLite";
            DIRACSetup = "LHCb-Production"; Tag = { "GPU" };
            NumberOfProcessors = 4; Memory = 2000; WallTime = 2 * 3600; NumberOfGPUs = 2; Disk = 5000;
            StalledTime = 2 * 3600; StalledCPUFraction = 0.02;
            Container = "docker://alpine";
            Software = "/cvmfs/lhcb.cern.ch";
            InputData = { "LFN:/lhcb/a", "lfn:/lhcb/b", "/lhcb/c" }; OutputSandbox = { "std.out", "*.root" };
            OutputData = "hist.root"; StdOutput = "o"; StdError = "e"; Environment = { "A=1", "B=x=y" };
            Requirements = [ SoftwareTag = { "v1", "v2" }; Memory = 2 * 2000; ]; OwnerGroup = "lhcb_prod";
            InputDataPolicy = "in_place"; OutputSE = "CERN-DST"; OutputPath = "/lhcb/lhcb_prod/run1";
        ]
        """
    )
    assert job.group == "lhcb_prod"
    assert job.description == {
        "executable": "run.sh", "arguments": "-n 10", "job_name": "MC", "job_group": "2009",
        "job_type": "MCSimulation", "cpu_time_s": 86400, "priority": 5, "sites": ["LCG.CERN.ch"],
        "banned_sites": ["LCG.A.org", "LCG.B.org"], "grid_ces": ["ce01.cern.ch"], "platforms": ["x86_64-el9"],
        "pilot_types": ["private"], "grid_middlewares": ["gLite"], "setup": "LHCb-Production", "tags": ["GPU"],
        "processors": 4, "memory_mb": 2000, "wall_time_s": 7200, "gpus": 2, "disk_mb": 5000,
        "stalled_s": 7200, "stalled_cpu_fraction": 0.02,
        "container": "docker://alpine", "software": ["/cvmfs/lhcb.cern.ch"],
        "input_data": ["/lhcb/a", "/lhcb/b", "/lhcb/c"], "output_sandbox": ["std.out", "*.root"],
        "output_data": ["hist.root"], "std_output": "o", "std_error": "e", "environment": {"A": "1", "B": "x=y"},
        "requirements": {"SoftwareTag": ["v1", "v2"], "Memory": 4000}, "input_data_policy": "in_place",
        "output_se": "CERN-DST", "output_path": "/lhcb/lhcb_prod/run1",
    }  # fmt: skip
    assert description.parse(job.description).cpu_time_s == 86400


@pytest.mark.parametrize("name", ["BannedSite", "BannedSites", "bannedsites", "BANNEDSITE"])
def test_names_ignore_case_and_have_singular_and_plural(name: str) -> None:
    assert described(f'{name} = "LCG.A.org";') == {"banned_sites": ["LCG.A.org"]}


def test_any_is_no_restriction() -> None:
    assert description.parse(described('Executable = "x"; Site = "ANY";')).sites == ()
    assert description.parse(described('Executable = "x"; SubmitPool = "Any";')).submit_pools == ()
    # A requirement may stand beside it: no pool is named.
    assert description.parse({"executable": "x", "submit_pools": ["ANY"], "requirements": {"Memory": 1}}).requirements


@pytest.mark.parametrize(
    ("jdl", "parameters"),
    [
        ('Parameters = { 1, 2.5, "a" };', {"values": [1, 2.5, "a"]}),
        ("Parameters = 20; ParameterStart = 1; ParameterStep = 2; ParameterFactor = 1;",
         {"count": 20, "start": 1, "step": 2, "factor": 1}),
        ("ParameterStep = .02; Parameters = 5;", {"count": 5, "step": 0.02}),
        ("Parameters.Energy = { 7, 8 }; Parameters.seed = 2; parameterstart.SEED = 9;",
         {"Energy": {"values": [7, 8]}, "seed": {"count": 2, "start": 9}}),
        ("Parameters = 2; Parameters.x = 2;", {"x": {"count": 2}}),
        (
            "Parameters = 2; Parameters.x = {a,b}; ParameterStart.y = 5; ParameterStep.Y = 10;",
            {"x": {"values": ["a", "b"]}, "y": {"count": 2, "start": 5, "step": 10}},
        ),
        (
            "Parameters = 2; ParameterStart = 1; ParameterStep = 3; Parameters.x = { 1, 2 };",
            {"": {"count": 2, "start": 1, "step": 3}, "x": {"values": [1, 2]}},
        ),
        ("Parameters = {a, b}; Parameters.x = {1, 2};", {"": {"values": ["a", "b"]}, "x": {"values": [1, 2]}}),
        ("Parameters = 3; Parameters.x = {1, 2};", {"": {"count": 3}, "x": {"values": [1, 2]}}),
        ('Parameters.f = {{LFN:/a, "b c"}, {}, {1}};', {"f": {"values": [["LFN:/a", "b c"], [], [1]]}}),
    ],
)  # fmt: skip
def test_parameters_are_lists_or_counted_named_or_not(jdl: str, parameters: object) -> None:
    assert described(jdl) == {"parameters": parameters}


def test_a_parametric_jdl_makes_the_jobs_it_describes() -> None:
    jobs = parametric.parse_all(described('Executable = "x"; Arguments = "%s"; JobName = "%n"; Parameters = 3;'))
    assert [(job.arguments, job.job_name) for job in jobs] == [("0", "0"), ("1", "1"), ("2", "2")]


def test_a_value_may_refer_to_another_attribute() -> None:
    assert described("Priority = 5; CPUTime = Priority * 1000")["cpu_time_s"] == 5000


def test_integers_may_stand_in_quotes_as_in_dirac() -> None:
    assert described('CPUTime = "5000"; Priority = "1"') == {"cpu_time_s": 5000, "priority": 1}


def test_whole_numbers_may_be_written_as_reals() -> None:
    assert described("CPUTime = 17800.0; Memory = 2e3") == {"cpu_time_s": 17800, "memory_mb": 2000}


def test_a_list_of_arguments_stays_a_list_and_a_number_becomes_text() -> None:
    assert described('Arguments = { "a b", "c" }')["arguments"] == ["a b", "c"]
    assert described("Arguments = 17")["arguments"] == "17"


def test_the_environment_may_be_a_record() -> None:
    assert described('Environment = [ A = "1"; B = 2 ]') == {"environment": {"A": "1", "B": "2"}}


@pytest.mark.parametrize(
    ("jdl", "line", "column", "words"),
    [
        ('Executable = "a";\nExecutble = "b";', 2, 1, 'Did you mean "Executable"?'),
        ("CPUTime = 3600 * Hours;", 1, 11, "not a constant"),
        ("CPUTime = 1 / 0;", 1, 11, "not a constant"),
        ("CPUTime = 1.5;", 1, 11, "must be an integer"),
        ("CPUTime = true;", 1, 11, "must be an integer"),
        ("CPUTime = CPUTime;", 1, 11, "not a constant"),
        ("Executable = [ a = 1 ];", 1, 14, "must be a string"),
        ('Site = { "a" == "b" };', 1, 8, "must be a string or a list of strings"),
        ("JobName = a b;\nCPUTime = 5 6;", 2, 13, "`;` is expected"),
        ('JobName = my job\nExecutable = "a";', 2, 1, "`;` is expected after the value of `JobName`"),
        ("JobName = a Executable = b;", 1, 13, "`;` is expected after the value of `JobName`"),
        ("OutputSandbox = { a.txt;\nExecutable = b;", 1, 24, "`}` is expected"),
        ("Executble = /bin/ls;", 1, 1, 'Did you mean "Executable"?'),
        ('Requirements =\n  other.Site == "LCG.CERN.ch";', 2, 3, "must be a record"),
        ("Requirements = true;", 1, 16, "must be a record"),
        ("Requirements = [ Memory = 3 * nowhere ];", 1, 16, "not a constant"),
        ("Requirements = [ Memory = 3 Site = 4 ];", 1, 29, "`;` is expected"),
        ('BannedSite = "a"; BannedSites = "b";', 1, 19, "mean the same"),
        ("Setup.x = 1;", 1, 1, "There is no attribute `Setup.x`"),
        ("ParameterStart = 1;", 1, 1, "requires `Parameters`"),
        ("ParameterStart.x = 1; Parameters = { 1 };", 1, 1, "requires `Parameters.x`"),
        ("ParameterStart.x = 1; Parameters.y = { 1 };", 1, 1, "requires `Parameters.x`"),
        ('Environment = { "A" };', 1, 15, "assignments"),
        ('Environment = { "A=1", "A=2" };', 1, 15, "each variable once"),
        ('OwnerGroup = { "a" };', 1, 14, "must be a string"),
        ("parameters = 2; Executable = 'x'", 1, 30, "double quotes"),
        ("OutputSandbox = { 'a.txt' };", 1, 19, "double quotes"),
        ("JobName = “my job”;", 1, 11, "straight double quotes"),
    ],
)
def test_an_error_has_its_position_and_reason(jdl: str, line: int, column: int, words: str) -> None:
    with pytest.raises(InvalidJdlError) as caught:
        parse_jdl(jdl)
    assert caught.value.code == "invalid_jdl"
    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in caught.value.detail


def printed(value: object) -> str:
    """Return a JSON value in the syntax of ClassAds."""
    if isinstance(value, list):
        return "{ " + ", ".join(map(printed, value)) + " }"
    if isinstance(value, dict):
        return "[ " + "; ".join(f"{name} = {printed(item)}" for name, item in value.items()) + " ]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return repr(value)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=15)
NAMES = TEXTS.map(file_name).filter(bool)
LISTS = st.lists(NAMES, min_size=1, max_size=4)
WORDS = st.from_regex(r"[A-Z][a-z]{3,8}", fullmatch=True).filter(
    lambda word: word.lower() not in {"true", "false", "error", "isnt", "undefined"}
)
SCALARS = TEXTS | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(-1e9, 1e9)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "Executable": NAMES, "JobName": NAMES, "StdOutput": NAMES, "Arguments": TEXTS | LISTS,
        "CPUTime": st.integers(-9, 10**9), "Priority": st.integers(0, 10), "Site": LISTS, "OutputSandbox": LISTS,
        "Requirements": st.dictionaries(WORDS.map(str.title), SCALARS | st.lists(SCALARS, max_size=3), max_size=3),
        "Parameters": st.lists(TEXTS | st.integers(-9, 9), min_size=1, max_size=3) | st.integers(1, 9),
    },
)  # fmt: skip
FIELD_OF = {
    "Executable": "executable", "JobName": "job_name", "StdOutput": "std_output", "Arguments": "arguments",
    "CPUTime": "cpu_time_s", "Priority": "priority", "Site": "sites", "OutputSandbox": "output_sandbox",
    "Requirements": "requirements",
}  # fmt: skip


@given(FIELDS, st.booleans())
def test_printed_jdl_is_read_back_equal(values: dict[str, object], bracketed: bool) -> None:
    text = "\n".join(f"{name} = {printed(value)};" for name, value in values.items())
    expected = {FIELD_OF[name]: value for name, value in values.items() if name != "Parameters"}
    parameters = values.get("Parameters")
    if parameters is not None:
        expected["parameters"] = {"values" if isinstance(parameters, list) else "count": parameters}
    assert described(f"[\n{text}\n]" if bracketed else text) == expected


PARTS = st.sampled_from(
    [*ATTRIBUTES, "x", "=", "=", ";", ";", '"a"', "1", "{", "}", "[", "]", ",", "MY.Site", "\n", "#", "+"]
)


@given(
    st.lists(PARTS, max_size=25).map(" ".join)
    | st.text(max_size=30)
    | st.binary(max_size=30).map(lambda raw: raw.decode("latin-1"))
)
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    try:
        job = parse_jdl(text)
    except ClassAdError as refused:
        error = refused
    else:
        json.dumps(job.description)
        return
    assert isinstance(error, InvalidJdlError)
    error.detail.encode()


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('[\nExecutable = "/bin/echo;\nArguments = "hello";\n]', 2, 14),
        ('Executable = "a";\nStdOutput = "b;\nStdError = "c;\nCPUTime = 5;', 2, 13),
        ('Executable = "a;\nArguments = "";\n', 1, 14),
        ('Executable = "a;\nArguments = "x & y";\nCPUTime = 5;', 1, 14),
        ('Site = { "A", "B };\nTags = { "c" };', 1, 15),
        # What is wrong behind a text of several lines is told where it is.
        ('Arguments = "a\nb\n"; CPUTime = 5 6;', 3, 16),
    ],
)
def test_an_unterminated_string_is_reported_at_its_beginning(text: str, line: int, column: int) -> None:
    with pytest.raises(InvalidJdlError) as refused:
        parse_jdl(text)
    assert (refused.value.line, refused.value.column) == (line, column), refused.value.detail


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('Site = "LCG.A.org, LCG.B.org";', "sites"),
        ('Site = "LCG.A.org;LCG.B.org";', "sites"),
        ('BannedSite = "LCG.A.org , LCG.B.org,";', "banned_sites"),
        ('GridCE = "LCG.A.org, LCG.B.org";', "grid_ces"),
        ('Platform = "LCG.A.org, LCG.B.org";', "platforms"),
        ('Tag = "LCG.A.org; LCG.B.org";', "tags"),
    ],
)
def test_names_in_one_string_are_separated_as_dirac_separates_them(text: str, field: str) -> None:
    assert described(text) == {field: ["LCG.A.org", "LCG.B.org"]}


def test_names_in_a_list_are_not_separated() -> None:
    assert described('Site = { "LCG.A.org, LCG.B.org" };') == {"sites": ["LCG.A.org, LCG.B.org"]}


@pytest.mark.parametrize("name", ["InputSandbox", "OutputSandbox", "InputData", "OutputData"])
def test_files_in_one_text_are_separated_at_commas_as_in_dirac(name: str) -> None:
    job = parse_jdl(f'{name} = "a, b c ,";')
    assert list(job.description.values()) == [["a", "b c"]]
    (warning,) = job.warnings
    assert warning.startswith(f"{name} is one text with commas; it is read as 2 entries")
    assert list(described(f'{name} = {{ "a,b.txt" }};').values()) == [["a,b.txt"]]
    assert list(described(f"{name} = a, b c ,;").values()) == [["a", "b c"]]


@pytest.mark.parametrize(("written", "expected"), [("0.02", 0.02), ("1", 1.0), ('"0.5"', 0.5)])
def test_a_part_of_a_core_need_not_be_whole(written: str, expected: float) -> None:
    assert described(f"StalledCPUFraction = {written};") == {"stalled_cpu_fraction": expected}


def test_a_part_of_a_core_must_be_a_number() -> None:
    with pytest.raises(InvalidJdlError, match="must be a number"):
        parse_jdl('[ StalledCPUFraction = "5 %" ]')


def test_a_dotted_name_is_no_longer_than_any_other() -> None:
    name = ".".join(["ParameterStart", *["name" * 50] * 8])
    with pytest.raises(InvalidJdlError, match="is too long: at most 255 characters") as error:
        parse_jdl(f'Executable = "a"; {name} = 1;')
    assert len(str(error.value)) < 200
