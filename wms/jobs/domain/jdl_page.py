"""The page docs/jdl.md, made from the table of attributes."""

from typing import Final

from wms.jobs.domain.jdl_attributes import SECTIONS, JdlAttribute, Kind
from wms.jobs.domain.jdl_reasons import IN_EXPRESSIONS
from wms.kernel.protocol import API_V1

_BEGINNING: Final = """# JDL, as DIRAC's users know it

For people who bring job descriptions from DIRAC or gLite. Every attribute that they use is listed here: it is read as
a field of the description ([rest.md](rest.md#submission)), or ignored with a warning, or refused with a sentence on
what to write instead; none is dropped in silence. Warnings are in the answer to a submission, and beside the form of
the portal before it. CFG has the same attributes. Letter case does not matter in names of attributes.

<!-- Made from wms/jobs/domain/jdl_attributes.py by `manage.py document_jdl`; do not edit. -->

## Form

- `[` and `]` around the whole may be left out; each attribute ends with `;`, the last one need not.
- A comment begins with `//`, or with `#` at the start of a line; `/* … */` may have several lines. So may a text.
- Lists are `{ "a", "b" }`; where a list is expected, one text is a list of one. Names of sites, computing elements,
  platforms, tags and pools may stand in one text, separated by commas: `"A, B"`. Names of files may not.
- A value may be computed: `CPUTime = 3600 * 24`.
- A text stands in double quotes. A word such as `INFO` or `std.out` without them is read as it stands, with a
  warning; other texts without quotes, such as paths, are refused with their place.
- One meaning is given once: two attributes for one field with different values are refused.
- An unknown attribute is refused, with the nearest name. DIRAC keeps any name; here a misspelt requirement would be
  one that nobody checks.

## Files of your own

`InputSandbox = { "run.sh" }` names a file on your machine, which the server does not have. By REST, upload it first:
`POST {sandboxes}` with the file, or with an archive of several, answers its name, and
`InputSandbox = { "sha256:…" }` says that it goes along. A name that was not uploaded is refused. In the portal, drop
the file on the page: the name in the JDL then means that file, whatever its directory.

## Units

`CPUTime` counts seconds of a reference core, for each core; DIRAC's documentation counts HS06 seconds. Ask the
operators of the server for the factor between them. `Memory` and `Disk` are megabytes.
"""
_EXPRESSIONS: Final = """
## Expressions in Requirements

`Requirements = other.GlueCEPolicyMaxCPUTime > 720;` is refused: each job states what it needs, and the server compares
that with what queues offer. `Requirements = [ SoftwareTag = { "v1", "v2" }; Memory = 4000; ]`, a record of constants,
names parameters of resources. The error names these attributes for the words of an expression:

| in an expression | write |
|---|---|
"""


def page() -> str:
    """Return the Markdown page."""
    parts = [_BEGINNING.replace("{sandboxes}", f"{API_V1}sandboxes/")]
    for heading, attributes in SECTIONS.items():
        rows = [f"| `{attribute.name}` | {_becomes(attribute)} | {_cell(attribute)} |" for attribute in attributes]
        parts.append("\n".join([f"\n## {heading}\n", "| attribute | becomes | meaning |", "|---|---|---|", *rows, ""]))
    words = [f"| `other.{word}` | `{attribute}` |" for word, attribute in IN_EXPRESSIONS.items()]
    return "".join([*parts, _EXPRESSIONS, "\n".join(words), "\n"])


def _becomes(attribute: JdlAttribute) -> str:
    if attribute.kind is Kind.IGNORED:
        return "ignored"
    if attribute.kind is Kind.REFUSED:
        return "refused"
    if attribute.kind is Kind.SEQUENCE:
        return "`parameters`"
    return f"`{attribute.field}`" if attribute.field else _OWN[attribute.name]


_OWN: Final = {
    "OwnerGroup": "`group`",
    "WholeNode": "`tags`",
    "WholeNodes": "`tags`",
    "MaxNumberOfProcessors": "ignored",
    "Type": "ignored",
}


def _cell(attribute: JdlAttribute) -> str:
    """Return the sentence, which continues a warning or an error if it begins with a small letter."""
    sentence = attribute.sentence.replace("|", "\\|")
    return sentence[:1].upper() + sentence[1:]
