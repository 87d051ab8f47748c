"""The fenced blocks of a page of the documentation: commands with their output, files, and descriptions of jobs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

PROJECT = Path(__file__).resolve().parents[3]
#: ```console, ```{ .console exit=1 }, ```yaml title="wms.yaml"
_INFO = re.compile(
    r'(?:(?P<language>\w+)(?: title="(?P<title>[^"]+)")?|\{ \.(?P<braced>\w+) exit=(?P<exit>\d+) \})', re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of a console block, and the lines shown below it."""

    text: str
    shown: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fenced block.

    Args:
        place: page and line, for messages.
        language: after the backticks.
        title: name of the file that its content is; else empty.
        exit_code: of the last command of a console block.
        content: the lines between the backticks.
    """

    place: str
    language: str
    title: str
    exit_code: int
    content: str

    @property
    def commands(self) -> list[Command]:
        """Return the commands of a console block: ``$`` begins one, and ``>`` goes on after a backslash."""
        found: list[tuple[list[str], list[str]]] = []
        for line in self.content.splitlines():
            if line.startswith("$ "):
                found.append(([line[2:]], []))
                continue
            if not found:
                raise AssertionError(f"{self.place}: a console block begins with a command, after `$ `.")
            command, shown = found[-1]
            if line.startswith("> ") and not shown and command[-1].endswith("\\"):
                command.append(line[2:])
            else:
                shown.append(line)
        return [Command(text="\n".join(command), shown=tuple(shown)) for command, shown in found]


def fences_of(page: Path) -> Iterator[Fence]:
    """Yield the blocks of a page in their order.

    Raises:
        AssertionError: a block is not fenced, or has no language, or an unknown form of its first line.
    """
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        place = f"{page.relative_to(PROJECT)}:{token.map[0] + 1}" if token.map else page.name
        assert token.type != "code_block", f"{place}: a block is fenced, and says its language."
        if token.type != "fence":
            continue
        info = _INFO.fullmatch(token.info.strip())
        assert info, (
            f'{place}: ```{token.info} is none of ```LANGUAGE, ```LANGUAGE title="FILE", ```{{ .console exit=N }}'
        )
        yield Fence(
            place=place,
            language=info["language"] or info["braced"],
            title=info["title"] or "",
            exit_code=int(info["exit"] or 0),
            content=token.content,
        )


def titled(page: str, title: str) -> str:
    """Return the content of the file of this title on a page below docs/."""
    (content,) = [fence.content for fence in fences_of(PROJECT / "docs" / page) if fence.title == title]
    return content


def differs(shown: tuple[str, ...], real: str) -> str:
    """Return how a real output differs from the one that is shown, or nothing.

    ``…`` stands for any characters of its line, and a line of it alone for any lines.
    """
    pattern = "".join(map(_pattern, shown))
    lines = "".join(f"{line.rstrip()}\n" for line in real.strip("\n").splitlines())
    if re.fullmatch(pattern, lines):
        return ""
    return "\n".join(["shown:", *shown, "real:", lines])


def _pattern(line: str) -> str:
    if line.strip() == "…":
        return "(?:[^\n]*\n)*"
    return "[^\n]*".join(map(re.escape, line.rstrip().split("…"))) + "\n"
