"""The tables of docs/jdl.md."""

from docs.generators.jdl_tables import attributes
from wms.jobs.domain.jdl_attributes import ALL


def test_each_attribute_has_a_row() -> None:
    rows = [line for line in attributes().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [attribute.name for attribute in ALL]
