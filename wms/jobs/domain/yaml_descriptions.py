"""Descriptions in YAML: the fields of the REST interface, one description or a list of them."""

from collections.abc import Mapping
from typing import Any, Final

from wms.jobs.domain.description import InvalidDescriptionError
from wms.kernel.yaml_text import YamlTextError, parse, plain

#: Characters of a text: it takes a second to read so many. JSON may be longer.
MOST_CHARACTERS: Final = 1_000_000


def body_of_yaml(text: str) -> Mapping[str, Any]:
    """Return the body of a submission that a YAML text means: fields, or several descriptions under ``jobs``.

    Raises:
        InvalidDescriptionError: it is no YAML, with the line, or no description, or longer than MOST_CHARACTERS.
    """
    if len(text) > MOST_CHARACTERS:
        sentence = f"Line 1: the text has more than {MOST_CHARACTERS:,} characters; write it as JSON."
        raise InvalidDescriptionError({"yaml": [sentence]})
    try:
        node = parse(text.removeprefix("\ufeff"))
        content = {} if node is None else plain(node)
    except YamlTextError as error:
        raise InvalidDescriptionError({"yaml": [f"Line {error.line}: {error.sentence}."]}) from error
    if isinstance(content, list):
        content = {"jobs": content}
    if not isinstance(content, dict) or not content:
        raise InvalidDescriptionError(
            {"yaml": ["Line 1: write fields, such as executable: run.sh, or a list of them."]}
        )
    return content
