"""Files that pages of the documentation show whole, for tests that use them with other addresses and paths."""

import re
from pathlib import Path

_DOCS = Path(__file__).parents[2] / "docs"


def titled(page: str, title: str) -> str:
    """Return the content of the block of a page that has this title."""
    pattern = rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```$'
    block = re.search(pattern, (_DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    assert block is not None, f"{page} has no block with the title {title}"
    return block[1]
