"""Downtimes in the XML of GOCDB: what is read, and what is refused."""

from datetime import UTC, datetime

import pytest

from resources.domain.gocdb import MAX_BYTES, AnnouncementError, parse

ROW = """
  <DOWNTIME ID="36001" PRIMARY_KEY="109454G0" CLASSIFICATION="SCHEDULED">
    <PRIMARY_KEY>109454G0</PRIMARY_KEY>
    <HOSTNAME>ce01.cern.ch</HOSTNAME>
    <SERVICE_TYPE>org.opensciencegrid.htcondorce</SERVICE_TYPE>
    <HOSTED_BY>CERN-PROD</HOSTED_BY>
    <AFFECTED_ENDPOINTS><ENDPOINT><HOSTNAME>other.cern.ch</HOSTNAME></ENDPOINT></AFFECTED_ENDPOINTS>
    <SEVERITY>OUTAGE</SEVERITY>
    <DESCRIPTION>Kernel
      update &amp; reboot\x7f</DESCRIPTION>
    <START_DATE>{begin}</START_DATE>
    <END_DATE>{end}</END_DATE>
  </DOWNTIME>"""


def document(*, begin: object = 1764576000, end: object = 1764590400) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<results>{ROW.format(begin=begin, end=end)}\n</results>'


def test_an_outage_of_a_computing_service_is_read() -> None:
    (found,) = parse(document()).downtimes
    assert (found.external_id, found.site, found.host) == ("109454G0", "CERN-PROD", "ce01.cern.ch")
    assert (found.is_outage, found.may_run_jobs, found.reason) == (True, True, "Kernel update & reboot")
    assert found.begins_at == datetime(2025, 12, 1, 8, tzinfo=UTC)
    assert found.ends_at == datetime(2025, 12, 1, 12, tzinfo=UTC)
    assert parse(document().encode()) == parse(document())


@pytest.mark.parametrize(
    ("begin", "end", "why"),
    [
        ("soon", 1764590400, "START_DATE is not a time"),
        ("", 1764590400, "START_DATE is not a time"),
        (1764576000, "9" * 30, "END_DATE is not a time"),
        (1764576000, "-5", "END_DATE is not a time"),
        ("١٧٦٤", 1764590400, "START_DATE is not a time"),
        (1764590400, 1764576000, "does not end after its begin"),
        (1764576000, 1764576000, "does not end after its begin"),
        (0, 1764576000, "longer than ten years"),
    ],
)
def test_a_downtime_with_wrong_times_is_named_and_left_out(begin: object, end: object, why: str) -> None:
    found = parse(document(begin=begin, end=end))
    assert (found.downtimes, found.unreadable_ids) == ([], {"109454G0"})
    (words,) = found.unreadable
    assert why in words


BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha"}">' for n in range(10))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"<!DOCTYPE results [{BOMB}]><results>&e9;</results>", "document type or entities"),
        ('<!DOCTYPE r [<!ENTITY f SYSTEM "file:///etc/passwd">]><results>&f;</results>', "document type or entities"),
        ('<!DOCTYPE results SYSTEM "https://evil.example/x.dtd"><results/>', "document type or entities"),
        ("<results>&unknown;</results>", "not well-formed"),
        ("<results><DOWNTIME></results>", "not well-formed"),
        ("", "not well-formed"),
        ("<html><body>Log in</body></html>", "not with <results>"),
        (f"<results>{'<a>' * 20}{'</a>' * 20}</results>", "levels of elements"),
        ("<results>" + "<DOWNTIME/>" * 20_001 + "</results>", "more than 20,000 downtimes"),
        ("<results>" + " " * MAX_BYTES + "</results>", "more than 5,000,000 bytes"),
    ],
    ids=["bomb", "file", "DTD", "entity", "open", "empty", "HTML", "deep", "many", "large"],
)
def test_a_hostile_document_is_refused(text: str, why: str) -> None:
    with pytest.raises(AnnouncementError, match=why):
        parse(text)


def test_a_document_in_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(AnnouncementError):
        parse(b'<?xml version="1.0" encoding="no-such"?><results/>')
    with pytest.raises(AnnouncementError):
        parse(b"<results>\xff\xfe</results>")
