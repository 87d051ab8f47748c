"""The tables of docs/jdl.md, made from the table of attributes."""

from typing import Final

from docs.generators.markdown import table
from wms.jobs.domain.jdl_attributes import IN_EXPRESSIONS, SECTIONS, JdlAttribute, Kind
from wms.kernel.rest.error_codes import as_sentence


def attributes() -> str:
    """Return a table of attributes for each section."""
    parts = []
    for heading, listed in SECTIONS.items():
        # NB: a sentence continues a warning or an error if it begins with a small letter.
        rows = [[f"`{each.name}`", _becomes(each), as_sentence(each.sentence)] for each in listed]
        parts.append(f"## {heading}\n\n{table(['attribute', 'becomes', 'meaning'], rows)}")
    return "\n\n".join(parts)


def words_of_expressions() -> str:
    """Return the table of words of expressions, with the attributes to write."""
    rows = [[f"`other.{word}`", f"`{attribute}`"] for word, attribute in IN_EXPRESSIONS.items()]
    return table(["in an expression", "write"], rows)


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
    "SMPGranularity": "ignored",
    "HostNumber": "ignored",
    "NodeNumber": "ignored",
    "DisableDataScheduling": "`input_sandbox`",
    "Type": "ignored",
}
