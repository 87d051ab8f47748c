"""HTML of submissions in notebooks."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from wms.client.notebook import submission_html

HOSTILE = '</td><script>alert(\'x\')</script><img src=x onerror="alert(1)"> & "more"'


class Parsed(HTMLParser):
    """The elements and the text of a document."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_user_texts_are_escaped_in_html() -> None:
    html = submission_html(HOSTILE, {HOSTILE: 1, "Done": 2}, failures=[(7, HOSTILE)], warnings=[HOSTILE])
    parsed = Parsed(html)
    assert "script" not in parsed.tags
    assert "img" not in parsed.tags
    assert {name for name, _ in parsed.attributes} == {"title", "style", "role", "aria-label"}
    assert f"{HOSTILE}: 1" in [value for name, value in parsed.attributes if name == "title"]
    # The id, the status, the reason and the warning.
    assert parsed.text.count(HOSTILE) == 4


@given(st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]), min_size=1))
def test_any_text_makes_the_same_elements(text: str) -> None:
    plain = Parsed(submission_html("id", {"Done": 1}, failures=[(7, "reason")], warnings=["warning"]))
    parsed = Parsed(submission_html(text, {"Done": 1}, failures=[(7, text)], warnings=[text]))
    assert parsed.tags == plain.tags
    assert parsed.attributes == plain.attributes
    assert parsed.text.count(text) >= 3


def test_the_bar_is_as_wide_as_the_numbers_of_jobs() -> None:
    html = submission_html("id", {"Waiting": 1, "Done": 3})
    assert 'aria-label="3 Done, 1 Waiting"' in html
    assert html.index("width:75.00%") < html.index("width:25.00%")
    assert "id</code>, 4 jobs" in html
