"""Texts that could take long to read, or break a reader: built from the grammar, and changed examples."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from hypothesis import strategies as st

#: Makes a text of about so many characters.
Family: TypeAlias = Callable[[int], str]

MAX_CHARACTERS: Final = 64_000


def filled(part: str, *, before: str = "", after: str = "") -> Family:
    """Return a function that repeats *part* between *before* and *after*."""
    return lambda size: before + part * ((size - len(before) - len(after)) // len(part)) + after


def numbered(part: str, *, before: str = "", after: str = "") -> Family:
    """Return a function that repeats *part* with the numbers from 0 in place of its ``{}``."""

    def made(size: int) -> str:
        count = (size - len(before) - len(after)) // (len(part) + 3)
        return before + "".join(part.format(number) for number in range(count)) + after

    return made


def halves(first: Family, second: Family) -> Family:
    """Return a function that joins the texts of both."""
    return lambda size: first(size // 2) + second(size // 2)


#: Of JDL and ClassAd; each takes a parser, the evaluation or an error to its limits.
CLASSADS: Final[Mapping[str, Family]] = {
    "brackets": filled("("),
    "empty lists": filled("{},", before="Site = {"),
    "minus signs": filled("-", before="CPUTime = "),
    "semicolons": filled(";"),
    "a list of numbers": filled("1,", before="CPUTime = {", after="1};"),
    "a list of strings": filled('"",', before="Site = {", after='""};'),
    "a list without an end": filled("1,", before="Site = {"),
    "a sum": filled("+1", before="CPUTime = 1", after=";"),
    "attributes": numbered("a{}=1;"),
    "sequences": numbered("Parameters.s{}=1;"),
    "a record of attributes": numbered("a{}=1;", before='Executable = "a"; Requirements = [', after="];"),
    "an environment": numbered('"a{}=1",', before='Executable = "a"; Environment = {', after='"a=1"};'),
    "blanks": filled(" ", before="CPUTime", after="= 1;"),
    "lines": filled("\n"),
    "comments": filled("/**/"),
    "comments without an end": filled("/*/"),
    "comments of a line": filled("#\n"),
    "strings": filled('"" '),
    "strings of two lines": filled('"\n"'),
    "strings that swallow attributes": filled('\na="', before='a="'),
    "a string of escapes": filled("\\101", before='Executable = "', after='";'),
    "dots": filled(".b", before="CPUTime = b", after=";"),
    "indices": filled("[0]", before="CPUTime = b", after=";"),
    "names": filled("a "),
    "dotted names": filled("a."),
    "conditionals": filled("1?1:", before="CPUTime = "),
    "one long name": filled("x", after=" = 1;"),
    "a long name that is meant often": halves(
        filled("x", before="CPUTime = Y; Y = ", after=";"), filled("+Y", before="Memory = Y", after=";")
    ),
    "references": numbered("a{0}=a{0}1;"),
    "sums of sums": halves(
        filled("+Memory", before="Priority = Memory", after=";"), filled("+1", before="Memory = 1", after=";")
    ),
    "numbers that are sums": halves(
        filled("+B", before="CurMatches = A; MaxJobs = A; CurrentJobs = A; MaxMatches = A; A = B", after=";"),
        filled("+1", before="B = 1", after=";"),
    ),
    "lists of lists": halves(filled("B,", before="A = {", after="B};"), filled("1,", before="B = {", after="1};")),
    "compared strings": halves(
        filled("x", before='Executable = B; B = "', after='";'), filled("==B", before="A = B", after=";")
    ),
    "members": filled("member(1,{1,2,3}),", before="Tags = {", after="1};"),
    "records in records": lambda size: "X = " + "[a=" * 60 + filled("+B", before="B")(size) + "]" * 60 + "; B = 1;",
    "wrong signs": filled("$"),
    "wide characters": filled("é", before='Executable = "', after='";'),
}
CFGS: Final[Mapping[str, Family]] = {
    "blanks": filled(" ", before="a", after="b"),
    "blanks before a sign": filled(" ", before="Requirements {\na", after="b = 1\n}"),
    "tabs and blanks": filled(" \t", before="a", after="= 1"),
    "signs": filled("="),
    "plus signs": filled("+", before="a"),
    "quotes": filled('"', before="Site = "),
    "empty elements": filled('"",', before="Site = ", after="a"),
    "elements with quotes": filled('"x,""x,', before="Site = "),
    "quotes and blanks": filled('""" ,', before="Site = "),
    "commas": filled(",", before="Site = "),
    "blanks in an element": filled(" ", before="Site = a", after=",b"),
    "comments": filled("#\n"),
    "quotes and comments": filled(' "#', before="a"),
    "empty lines": filled("\n"),
    "lines": numbered("a{} = 1\n"),
    "lines that add": filled("Site += a\n", before="Site = a\n"),
    "a section": numbered("a{} = 1\n", before="Executable = a\nRequirements {\n", after="}"),
    "elements of a section": filled("1,", before="Executable = a\nRequirements {\na = ", after="1\n}"),
    "sections on one line": numbered("a{}{{}}"),
    "sections without names": filled(" {}", before="Requirements"),
    "closing braces": filled("}", before="Requirements {"),
    "an environment": numbered("a{} = 1\n", before="Environment {\n", after="}"),
    "a long number": filled("1", before="Requirements {\na = ", after="\n}"),
    "a long real number": filled("1", before="Requirements {\na = ", after=".5\n}"),
    "one long name": filled("x", after=" = 1"),
}
JSONS: Final[Mapping[str, Family]] = {
    "brackets": filled("["),
    "objects": filled('{"a":'),
    "lists": filled("[],", before="[", after="[]]"),
    "a long number": filled("1"),
    "a long real number": filled("1", before="0."),
    "a long exponent": filled("1", before="1e"),
    "names": numbered('"a{}":1,', before="{", after='"a":1}'),
    "one name": filled('"a":1,', before="{", after='"a":1}'),
    "escapes": filled("\\u0041", before='"', after='"'),
    "halves of surrogate pairs": filled("\\ud800", before='"', after='"'),
    "NUL at the end": filled("0,", before="[", after='"\\u0000"]'),
    "NUL at the end of deep objects": lambda size: (
        ('{"' + "x" * 60 + '":') * 90 + filled("0,", before="[", after='"\\u0000"]')(size // 2) + "}" * 90
    ),
    "blanks": filled(" "),
    "a string without an end": filled("a", before='"'),
    "commas": filled(",", before="["),
}

JDL_EXAMPLES: Final = (
    'Executable = "a"; Site = {"LCG.CERN.ch"}; CPUTime = 60 * 2; Requirements = [Memory = 2000;];',
    '[ Executable = "run_%s.sh"; Arguments = "-n %n %(seed)s"; Parameters.seed = 10; ParameterStart.seed = 1; ]',
    'Executable="a";InputData={"LFN:/lhcb/a"};OutputSandbox={"*.txt","std.out"};Environment={"A=1","B=2"};',
    '# DIRAC\nJobName = "Simu";\n/* two */ Platform = "ANY"; Tag = {"GPU"}; OwnerGroup = "lhcb_user";\n',
    "[ CurMatches = 0; MaxJobs = 2 * 3; WantAdReevaluate = true; Requirements = TARGET.Processors < CurMatches; ]",
    'CurMatches = size({1,2}) ? 1 : 2\nMaxJobs = isundefined(MY.x) && member("a", {"A"}) || !error\n',
    'Executable = a.b[1].c; a = [ b = { 1, [ c = "x" ] } ];',
)
JDL_PARTS: Final = (
    *("[", "]", "{", "}", "(", ")", ";", ",", ".", "=", "==", "=?=", "!=", "<", ">=", "&&", "||", "!", "?", ":"),
    *("+", "-", "*", "/", "%", " ", "\n", "\t", "\r", '"', "\\", "//", "/*", "*/", "#", "\ufeff", "\0", "é", "\u202e"),
    *("Executable", "Site", "CPUTime", "Requirements", "Parameters.a", "TARGET.", "MY.", "undefined", "error", "true"),
    *("member(", "size(", "toLower(", "int(", '"LCG.CERN.ch"', "9223372036854775807", "9223372036854775808", "1e308"),
    *("0.1", "1e999", "\ud800", "is", "isnt", "'", "&", "$", "\x1b[2J", "\\0", "\\777", '"%s"', "-1", "0"),
)
CFG_EXAMPLES: Final = (
    "Executable = a\nSite = LCG.CERN.ch, LCG.RAL.uk\nRequirements { Memory = 2000 }\n",
    'Arguments = "a ""b"" c" # note\nInputData = /lhcb/a\nInputData += /lhcb/b\nEnvironment\n{\n  A = 1\n}\n',
    "Parameters = 3\nParameterStart = 1\nExecutable = run_%s.sh\n",
)
CFG_PARTS: Final = (
    *(
        "=",
        "+=",
        "{",
        "}",
        "\n",
        " ",
        "\t",
        ",",
        '"',
        '""',
        "#",
        " # ",
        ";",
        "\0",
        "\ufeff",
        "\r",
        "é",
        "\x1b",
        "\u2028",
    ),
    *(
        "Executable",
        "Site",
        "Requirements",
        "Environment",
        "Parameters",
        "a",
        "1",
        "-1.5e3",
        "true",
        "1" * 30,
        "\ud800",
    ),
    *("Requirements {", "Environment\n{", "a = 1\n", "a = 1 }", "Site += b\n", "== 1"),
)
JSON_EXAMPLES: Final = (
    '{"jobs": [{"executable": "a", "requirements": {"Memory": 2000}}, {"jdl": "Executable = \\"a\\";"}]}',
    '{"executable": "é\\u00e9", "parameters": {"seed": {"count": 2, "start": 1.5e3}}, "group": null}',
    '[true, false, null, -0.0, 1e-320, 123456789012345678, "\\n\\t\\\\", {"": []}]',
)
JSON_PARTS: Final = (
    *("{", "}", "[", "]", ",", ":", '"', "\\", "\\u0000", "\\ud800", "\\udc00", "\\uD83D\\uDE00", "null", "true"),
    *(
        "NaN",
        "Infinity",
        "-",
        "1e400",
        "9" * 20,
        "9" * 5000,
        "0.",
        "1.5",
        '"a":1',
        "\0",
        "\ufeff",
        "é",
        " ",
        "\n",
        "//",
    ),
)


@st.composite
def changed(draw: st.DrawFn, examples: tuple[str, ...], parts: tuple[str, ...]) -> str:
    """Draw a text: parts in a row, or an example with parts removed, repeated or inserted."""
    text = draw(st.sampled_from(("", *examples)))
    if not text:
        return "".join(draw(st.lists(st.sampled_from(parts) | st.text(max_size=3), max_size=60)))
    for _ in range(draw(st.integers(1, 6))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 12)))
        match draw(st.sampled_from(("take out", "repeat", "put in"))):
            case "take out":
                text = text[:begin] + text[end:]
            case "repeat":
                text = text[:begin] + text[begin:end] * draw(st.sampled_from((2, 3, 70, 5000))) + text[end:]
            case _:
                text = text[:begin] + draw(st.sampled_from(parts)) + text[begin:]
        text = text[:MAX_CHARACTERS]
    return text
