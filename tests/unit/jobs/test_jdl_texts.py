"""Texts in JDL, with and without quotes; the server and the client read the same ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.client.sandbox_names import jdl_with_names
from wms.jobs.domain.cfg import parse_cfg
from wms.jobs.domain.jdl import InvalidJdlError, parse_jdl
from wms.jobs.domain.jdl_attributes import ALL, JdlAttribute, Kind
from wms.wire.jdl_texts import quoted

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=15)


def described(text: str) -> dict[str, object]:
    return parse_jdl(text).description


ATTRIBUTES_WITH_TEXTS = [each for each in ALL if each.has_texts and each.kind in {Kind.TEXT, Kind.LIST}]


@pytest.mark.parametrize("attribute", ATTRIBUTES_WITH_TEXTS, ids=[each.name for each in ATTRIBUTES_WITH_TEXTS])
@pytest.mark.parametrize(
    "text", ["/a/b-1.sh", "LFN:/a//b", "x", "my job", "8GB", "10", "0012", "true", "JobName", "a@b"]
)
def test_a_text_without_quotes_is_read_as_it_stands(attribute: JdlAttribute, text: str) -> None:
    quoted = parse_jdl(f'{attribute.name} = "{text}";')
    for jdl in (f"{attribute.name} = {text};", f"[ {attribute.name} = {text} ]", f"{attribute.name}={text} // c\n;"):
        assert parse_jdl(jdl).description == quoted.description
    if attribute.kind is Kind.LIST:
        several = parse_jdl(f'{attribute.name} = {{ "{text}", "b" }};').description
        for jdl in (f"{{{text},b}}", f"\n    {{\n  {text}, // c\n  b\n  }}", f'{{ {text} /* c */, "b" }}'):
            assert parse_jdl(f"{attribute.name} = {jdl};").description == several


@pytest.mark.parametrize(
    ("jdl", "expected"),
    [
        ("JobName = Dst__{Ganga_(513.0)}, [v2] 'x' & $y | z;", {"job_name": "Dst__{Ganga_(513.0)}, [v2] 'x' & $y | z"}),
        ('StdOutput = JobName; JobName = "x";', {"std_output": "JobName", "job_name": "x"}),
        ("StdOutput = 3 + 4;", {"std_output": "3 + 4"}),
        ('StdOutput = strcat(JobName, ".out"); JobName = my;', {"job_name": "my", "std_output": "my.out"}),
        ('StdOutput = "a" == "b" ? "c" : "d";', {"std_output": "d"}),
        ("Arguments = -l -t %s;", {"arguments": "-l -t %s"}),
        ("Arguments = -o LogLevel=INFO;", {"arguments": "-o LogLevel=INFO"}),
        ("[ JobName = a[1] ]", {"job_name": "a[1]"}),
        ("Platform = ; JobName = a;", {"job_name": "a"}),
        ("InputData = {};", {"input_data": []}),
        ("OutputSandbox = {[a-z]*.log,x};\r\nSite = { A,\r\n B\r\n};",
         {"output_sandbox": ["[a-z]*.log", "x"], "sites": ["A", "B"]}),
        ("InputData = {a,,b, // c,\n}; OutputSandbox = {,}; Site = { , c };",
         {"input_data": ["a", "b"], "output_sandbox": [], "sites": ["c"]}),
        ("Parameters = {one,2,-3,1.50,007,1e5,2.5,true,a\\b};",
         {"parameters": {"values": ["one", 2, -3, "1.50", "007", "1e5", 2.5, "true", "a\\b"]}}),
        ("ExecutionEnvironment = A=TEST;", {"environment": {"A": "TEST"}}),
        ("ExecutionEnvironment = A=1, B=x=y;", {"environment": {"A": "1", "B": "x=y"}}),
        ('Environment = "A=1, 2";', {"environment": {"A": "1, 2"}}),
        ("Parameters = 2; Parameters.n = {a,b}; n = %(n)s;", {"parameters": {"n": {"values": ["a", "b"]}}}),
        ("Parameter.n = a; ParameterNumber = 0; JobName = b;", {"job_name": "b"}),
        ('ParametricInputData = ; StdInput = "";', {}),
        ("\ufeffJobName = a b;", {"job_name": "a b"}),
    ],
)  # fmt: skip
def test_texts_without_quotes_among_other_values(jdl: str, expected: dict[str, object]) -> None:
    assert described(jdl) == expected


def test_a_text_by_an_unknown_function_is_refused() -> None:
    with pytest.raises(InvalidJdlError, match="There is no function `substr`"):
        parse_jdl('StdOutput = substr("abc", 1);')


def test_an_attribute_of_one_value_may_be_given_twice() -> None:
    job = parse_jdl('Type = "Job"; CPUTime = 10; Tags = {a, "b"};\ntype = Job; CPUTime = 10 ; Tags = { "a",b }')
    assert job.description == {"cpu_time_s": 10, "tags": ["a", "b"]}
    assert "type is given twice with one value." in job.warnings
    assert described('Type = "job"; Type = Job; WholeNode = False; WholeNode = "false"; Tags = ""; Tags = "";') == {}
    assert described('JobName = "a"; JobName = "a ";') == {"job_name": "a"}
    with pytest.raises(InvalidJdlError, match="given twice"):
        parse_jdl("CPUTime = 10; CPUTime = 11;")


RAW = st.from_regex(r"[A-Za-z0-9_./*%~-]([A-Za-z0-9_./*%~ -]{0,8}[A-Za-z0-9_])?", fullmatch=True).filter(
    lambda text: "//" not in text and "/*" not in text
)
ELEMENTS = st.lists(RAW | TEXTS.map(quoted), min_size=1, max_size=5)


def read_by_the_client(jdl: str) -> tuple[list[str], str]:
    """Return the names that the client finds, and the JDL that it sends."""
    found: list[str] = []

    def uploaded(name: str) -> str:
        found.append(name)
        return f"sha256:{name}"

    return found, jdl_with_names(jdl, uploaded)


@given(ELEMENTS, st.sampled_from(["{{{}}}", "{{ {} }}", "\n {{\n{}\n}}"]), st.sampled_from([",", " , ", ",\n  "]))
def test_client_and_server_read_the_same_names(elements: list[str], form: str, comma: str) -> None:
    jdl = f"JobName = my {{job}};\nInputSandbox = {form.format(comma.join(elements))};\nOutputSandbox = {{*.log}};"
    found, changed = read_by_the_client(jdl)
    assert found == described(jdl)["input_sandbox"]
    assert described(changed)["input_sandbox"] == [f"sha256:{name}" for name in found]


@given(RAW | TEXTS.map(quoted))
def test_client_and_server_read_the_same_names_in_one_text(text: str) -> None:
    jdl = f"InputSandbox = {text};"
    found, _ = read_by_the_client(jdl)
    assert found == described(jdl).get("input_sandbox", [])


# ---- Blanks, empty values and numbers in quotes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jdl", "expected"),
    [
        ('Executable = " run.sh\t"; JobName = " a b "; OwnerGroup = " g "; Type = " Job ";',
         {"executable": "run.sh", "job_name": "a b"}),
        ('Site = { " A", "B " }; Tags = " x "; OutputSE = " S "; OutputPath = "LFN: /vo/a "; WholeNode = " no ";',
         {"sites": ["A", "B"], "tags": ["x"], "output_se": "S", "output_path": "/vo/a"}),
        ('InputSandbox = { " a.sh ", "lfn: /vo/a ", "" }; InputData = " LFN: /vo/b"; OutputData = { "LFN: /vo/c" };',
         {"input_sandbox": ["a.sh", "LFN:/vo/a"], "input_data": ["/vo/b"], "output_data": ["LFN:/vo/c"]}),
        ('Arguments = " a "; Environment = [ A = " 1 " ];', {"arguments": " a ", "environment": {"A": " 1 "}}),
        ('OutputSE = ""; CPUTime = ; Requirements = ""; OwnerGroup = ""; Setup = ""; Tags = ""; Colour = "";', {}),
        ('Parameters = ""; StalledCPUFraction = ""; WholeNode = ; SystemConfig = " "; Environment = "";', {}),
        ('Executable = ""; Arguments = "";', {"executable": "", "arguments": ""}),
        ("CPUTime = ; CPUTime = 10; JobName = ; JobName = a b;", {"cpu_time_s": 10, "job_name": "a b"}),
        ('CPUTime = "3600.0"; Memory = " 1e4"; Priority = "+5"; StalledCPUFraction = " 0.5 ";',
         {"cpu_time_s": 3600, "memory_mb": 10000, "priority": 5, "stalled_cpu_fraction": 0.5}),
        ('Parameters = "3"; ParameterStart = "1"; ParameterStep = "0.5"; ParameterFactor = " 2 ";',
         {"parameters": {"count": 3, "start": 1, "step": 0.5, "factor": 2}}),
        ("Parameters = 3.0; Parameters.x = 3.; ParameterStart.y = 1;",
         {"parameters": {"x": {"count": 3}, "y": {"count": 3, "start": 1}}}),
    ],
)  # fmt: skip
def test_values_in_quotes_mean_what_they_mean_in_dirac(jdl: str, expected: dict[str, object]) -> None:
    assert described(jdl) == expected


def test_an_empty_value_has_no_warning() -> None:
    assert parse_jdl('SystemConfig = ""; LogLevel = ""; MaxRAM = ; StdInput = ""; OwnerGroup = " ";').warnings == ()


@pytest.mark.parametrize("value", ['"A, B"', "A, B", '{ "A, B" }', '{ "A", "B" }', '{ "", " A", "B" }'])
def test_of_several_storage_elements_the_first_is_used(value: str) -> None:
    job = parse_jdl(f"OutputSE = {value};")
    assert job.description == {"output_se": "A"}
    assert 'OutputSE: of the list only "A" is used; a job has one.' in job.warnings
    assert described('OutputSE = {}; OutputPath = { "", " " };') == {}


@pytest.mark.parametrize("value", ['"1.5"', '"one"', '"1 2"', '"nan"', '"1e400"', "true", '"0x10"'])
def test_what_is_no_whole_number_is_refused(value: str) -> None:
    with pytest.raises(InvalidJdlError, match="`CPUTime` must be an integer"):
        parse_jdl(f"CPUTime = {value};")


@pytest.mark.parametrize(
    ("jdl", "words"),
    [
        (r'Arguments = "--regex \d+\.root a\tb"; Tags = { "a", "\w" };',
         r"In double quotes \d is read as d; for \d as it stands write \\d, in Arguments and Tags."),
        (r'JobName = "a\tb";', r"\t is read as a tab"),
        (r'Environment = [ A = "\101" ];', r"\101 is read as A;"),
        ('StdOutput = "a\\\n";', r"In double quotes \(line end) is read as a line end;"),
        (r'Arguments = "say \"hi\" \\d";', ""),
        (r"Arguments = --regex \d; LogLevel = a;", ""),
    ],
)  # fmt: skip
def test_escapes_in_quotes_are_warned_of(jdl: str, words: str) -> None:
    warnings = [sentence for sentence in parse_jdl(jdl).warnings if "In double quotes" in sentence]
    assert len(warnings) == bool(words)
    assert words in "".join(warnings)


@pytest.mark.parametrize(
    ("jdl", "expected"),
    [
        ('Environment = "A=1 , B = 2";', {"A": "1", "B": "2"}),
        ('Environment = {"A=1 ", " B=2", "C =x = y"};', {"A": "1", "B": "2", "C": "x = y"}),
        ('ExecutionEnvironment = "A = a%20b";', {"A": "a b"}),
        ('Environment = "A=1, B=2, C";', {"A": "1, B=2, C"}),
        ('Environment = "DIRS=/a,/b";', {"DIRS": "/a,/b"}),
    ],
)
def test_assignments_may_have_blanks_around_their_signs(jdl: str, expected: dict[str, str]) -> None:
    assert described(jdl) == {"environment": expected}


def test_a_text_with_some_assignments_is_warned_of() -> None:
    (warning,) = parse_jdl('Environment = "A=1, B=2, C";').warnings
    assert 'A is "1, B=2, C"' in warning
    assert parse_jdl('Environment = "DIRS=/a,/b";').warnings == ()


# ---- Names of files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["InputSandbox", "InputData", "OutputSandbox", "OutputData"])
def test_a_name_of_a_file_may_be_broken_over_lines(name: str) -> None:
    for value in ('"LFN:/a/run/ \n\t x.tar"', '{ "LFN:/a/run/\r\n   x.tar" }'):
        job = parse_jdl(f"{name} = {value};")
        names = next(iter(job.description.values()))
        assert names in (["/a/run/x.tar"], ["LFN:/a/run/x.tar"])
        assert f"{name} has a name of several lines" in job.warnings[0]
    assert len(parse_jdl(f'{name} = "a,\n b\n, c";').warnings) == 1
    jdl = 'InputSandbox = { "run\n   .sh", "b" };\nColour = 1;'
    found, sent = read_by_the_client(jdl)
    assert found == ["run.sh", "b"]
    assert sent.count("\n") == jdl.count("\n")


def test_doubled_slashes_of_logical_names_are_one() -> None:
    jdl = parse_jdl(
        'InputData = { "/vo//a", "LFN://vo/b" }; InputSandbox = { LFN:/vo///c, ".//d" }; '
        'OutputData = { "LFN:/vo//e", "f//g" }; OutputPath = "LFN:/vo//h";'
    )
    assert jdl.description == {
        "input_data": ["/vo/a", "/vo/b"], "input_sandbox": ["LFN:/vo/c", ".//d"],
        "output_data": ["LFN:/vo/e", "f//g"], "output_path": "/vo/h",
    }  # fmt: skip
    assert [each.partition(":")[0] for each in jdl.warnings if "is read as one /" in each] == [
        "InputData", "InputSandbox", "OutputData", "OutputPath"
    ]  # fmt: skip
    cfg = parse_cfg("InputData = /vo//a, LFN:/vo///b")
    assert cfg.description == {"input_data": ["/vo/a", "/vo/b"]}
    assert cfg.warnings == ("InputData: // in a logical name is read as one /.",)


# ---- Lists with signs of lists in their elements ---------------------------------------------------------------------


@pytest.mark.parametrize("comma", [",", ",\n  "])
@pytest.mark.parametrize("element", ["b(2.log", "b).log", "f_{1}.root", "*.{log,txt}", "10^{6}.h5", "f(x)[0] {a{b}}"])
def test_an_element_may_have_brackets_that_do_not_end_it(element: str, comma: str) -> None:
    sandbox = f"InputSandbox = {{a.log{comma}{element}}};"
    jdl = f"{sandbox} Tags = {{ {element}{comma}a }}; Parameters = {{{element}}};"
    names = ["a.log", element]
    assert described(jdl) == {"input_sandbox": names, "tags": [element, "a"], "parameters": {"values": [element]}}
    assert read_by_the_client(sandbox)[0] == names


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("InputSandbox", "{a.log} extra"), ("Site", "{A}, {B}"), ("ExecutionEnvironment", "{A=1} {B=2}"),
        ("OutputSE", "{A}, {B}"), ("OutputData", "{a}{b}"),
    ],
)  # fmt: skip
def test_what_begins_as_a_list_and_is_none_is_refused(name: str, value: str) -> None:
    jdl = f"{name} = {value};"
    with pytest.raises(InvalidJdlError, match="The list cannot be read: write") as refused:
        parse_jdl(jdl)
    assert (refused.value.line, refused.value.column) == (1, len(name) + 4)
    assert read_by_the_client(jdl) == ([], jdl)
    assert described("JobName = {a} b;") == {"job_name": "{a} b"}


@pytest.mark.parametrize("value", ["{a, b{2.log}", "{a} b, {c", '{a.log, b} "c"', "{a,\n b} c", "{a}, \n{b}"])
def test_a_list_with_a_fault_is_refused_and_stays_as_it_is(value: str) -> None:
    jdl = f"InputSandbox = {value};"
    with pytest.raises(InvalidJdlError):
        parse_jdl(jdl)
    assert read_by_the_client(jdl)[1] == jdl


# ---- What a fault is said to be --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jdl", "words", "others"),
    [
        ('Site = "A", "B";', 'A list stands in braces: Site = { "A", "B" };', ""),
        ('JobName = "A", "B";', "`;` is expected", "braces"),
        ('Arguments = "say "hi" you";', 'A quote inside a string is \\".', ""),
        ('OutputSandbox = { "a "b".log" };', 'A quote inside a string is \\".', ""),
        ('OutputSandbox = { "a.log" "b.log" };', "or a comma", "inside a string"),
        ("JobName = my job\nExecutable = a;", "`;` is expected after the value of `JobName`", "double quotes"),
        ("Executable = a; Executable = b;", "given twice", "double quotes"),
        ('JobName = a "b" c;', 'A text stands in double quotes: JobName = "…";', ""),
        ("JobName = `my job';", "straight double quotes", ""),
        ("Tags = { a, ``b'' };", "straight double quotes", ""),
        ('InputSandbox = strcat("a", ".sh");', "write the names of the files: InputSandbox = {", ""),
        ('InputSandbox = { "b", ("a.sh") };', "`InputSandbox` must not be an expression", ""),
        ('InputSandbox = true ? "a" : "b";', "`InputSandbox` must not be an expression", ""),
    ],
)
def test_an_error_says_what_to_write(jdl: str, words: str, others: str) -> None:
    with pytest.raises(InvalidJdlError) as refused:
        parse_jdl(jdl)
    assert words in refused.value.problem
    assert not others or others not in refused.value.problem


@pytest.mark.parametrize("sandbox", ['"a.sh,\n b.sh"', '{ "a.sh",\n "b.sh" }', '"a.sh ,\n\n"'])
def test_an_error_behind_the_names_of_files_keeps_its_line(sandbox: str) -> None:
    jdl = f"InputSandbox = {sandbox};\nColour = 1;"
    _, sent = read_by_the_client(jdl)
    assert "sha256:a.sh" in sent
    lines = []
    for text in (jdl, sent):
        with pytest.raises(InvalidJdlError) as refused:
            parse_jdl(text)
        lines.append(refused.value.line)
    assert lines[0] == lines[1]
