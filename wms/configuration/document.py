"""The file of a configuration: its size, its trust, and its YAML."""

from pathlib import Path
from typing import Final

from wms.configuration.problems import ConfigurationError, Remark
from wms.kernel import yaml_text
from wms.kernel.trusted_paths import require_trusted
from wms.kernel.yaml_text import Node, YamlTextError

MAX_BYTES: Final = 4 * 1024 * 1024


def content_of(file: Path) -> bytes:
    """Return the content of a file, of one that is too long only a part that is too long as well.

    Raises:
        OSError: it cannot be read.
        UntrustedPathError: another account could have written it, and so choose the programs of computing elements.
    """
    require_trusted(file)
    with file.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def parse(source: bytes) -> Node:
    """Return the tree of *source*, a single YAML document in UTF-8 of at most MAX_BYTES.

    Raises:
        ConfigurationError: it is none, with the line (``yaml_text.parse``).
    """
    if len(source) > MAX_BYTES:
        raise _refused(1, f"the file is larger than {MAX_BYTES // 1024**2} MB")
    text = decoded(source)
    try:
        node = yaml_text.parse(text)
    except YamlTextError as error:
        raise _refused(error.line, error.sentence) from error
    if node is None:
        raise _refused(1, "the file holds no configuration")
    return node


def decoded(source: bytes) -> str:
    """Return the text of a file.

    Raises:
        ConfigurationError: not UTF-8, or with characters that a text has not; with the line.
    """
    try:
        return yaml_text.decoded(source)
    except YamlTextError as error:
        raise _refused(error.line, error.sentence) from error


def _refused(line: int, sentence: str) -> ConfigurationError:
    return ConfigurationError([Remark(line, "", sentence)])
