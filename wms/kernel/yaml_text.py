"""A YAML text as a tree with line numbers, without YAML's ambiguous and unbounded features.

Built from PyYAML's events, not by its composer, which recurses, so that a file of a million brackets would end the
process, and follows aliases, so that a short file could expand to a huge one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

#: Levels; the deepest value of docs/configuration.example.yaml is at 9.
MAX_DEPTH = 20

#: libyaml reads 4 MB in 3 s, the Python reader in a minute.
_LOADER: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER = yaml.resolver.Resolver()

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?\Z")
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")

Atom = str | int | float | bool | None


class Ambiguous(ValueError):  # noqa: N818 - the text is the sentence
    """An unquoted word that YAML's versions read differently, or a number that is not finite."""


class YamlTextError(ValueError):
    """A text is not YAML that is read here.

    Args:
        line: counted from 1.
        sentence: without its end.
    """

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(f"line {line}: {sentence}")
        self.line, self.sentence = line, sentence


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A scalar as written in the file."""

    line: int
    text: str
    quoted: bool

    @property
    def is_null(self) -> bool:
        """Whether the word means null."""
        return not self.quoted and self.text in _NULL

    def value(self) -> Atom:
        """Return the value by YAML 1.2's core schema.

        Raises:
            Ambiguous: YAML 1.1, which most people know, would read something else; or the number is not finite.
        """
        return self.text if self.quoted else value_of(self.text)


@dataclass(slots=True)
class ListNode:
    """A list."""

    line: int
    nodes: "list[Node]" = field(default_factory=list)


@dataclass(slots=True)
class MappingNode:
    """A mapping; duplicate keys are kept."""

    line: int
    nodes: "list[tuple[ScalarNode, Node]]" = field(default_factory=list)


Node = ScalarNode | ListNode | MappingNode
#: Values of a document.
Plain: TypeAlias = "Atom | list[Plain] | dict[str, Plain]"


def value_of(text: str) -> Atom:
    """Return the value of the unquoted *text*; see ScalarNode.value."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if _INTEGER.match(text) and len(text) <= 20:
        return int(text)
    if _INTEGER.match(text) or _FLOAT.match(text):
        return float(text)
    if _NO_NUMBER.match(text):
        raise Ambiguous("use a finite number")
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    if tag != "tag:yaml.org,2002:str":
        raise Ambiguous(f'put "{text}" in quotes if it is a text; else write true, false or a plain decimal number')
    return text


def parse(text: str) -> Node | None:
    """Return the tree of a text, a single YAML document; None: it is empty.

    Raises:
        YamlTextError: not YAML (with the line), nested deeper than MAX_DEPTH, more than one document, or with tags,
            anchors, aliases or keys that are not words.
    """
    try:
        return _Builder(yaml.parse(text, Loader=_LOADER)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        context = f" {error.context}" if error.context else ""
        raise YamlTextError(mark.line + 1 if mark else 1, f"not valid YAML: {error.problem}{context}") from error
    except YamlTextError:
        raise
    except (yaml.YAMLError, ValueError) as error:  # NB: ValueError: an escape beyond Unicode, in the Python reader
        raise YamlTextError(1, f"not valid YAML: {error}") from error


def decoded(source: bytes) -> str:
    """Return the text of a file.

    Raises:
        YamlTextError: not UTF-8, or with characters that a text has not; with the line.
    """
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        raise YamlTextError(line, f"not UTF-8: byte {error.start + 1} of the file is wrong") from error
    unprintable = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if unprintable:
        line = text.count("\n", 0, unprintable.start()) + 1
        raise YamlTextError(line, f"the character U+{ord(unprintable.group()):04X} is not allowed here")
    return text


def plain(node: Node) -> "Plain":
    """Return the values of a tree.

    Raises:
        YamlTextError: a key is there twice, or a value is ambiguous; with the line.
    """
    if isinstance(node, ListNode):
        return [plain(each) for each in node.nodes]
    if isinstance(node, MappingNode):
        values: dict[str, Plain] = {}
        for key, value in node.nodes:
            if key.text in values:
                raise YamlTextError(key.line, f'"{key.text}" is there twice')
            values[key.text] = plain(value)
        return values
    try:
        return node.value()
    except Ambiguous as error:
        raise YamlTextError(node.line, str(error)) from error


class _Builder:
    """Turns the events of one document into a tree, one event at a time."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self._open: list[ListNode | MappingNode] = []
        #: For each open mapping, the key whose value comes next.
        self._keys: list[ScalarNode | None] = []
        self._root: Node | None = None

    def document(self) -> Node | None:
        documents = 0
        for event in self._events:
            line = event.start_mark.line + 1 if event.start_mark else 1
            documents += isinstance(event, yaml.DocumentStartEvent)
            if documents > 1:
                raise YamlTextError(line, "the file holds more than one document; join them into one")
            self._take(event, line)
        return None if isinstance(self._root, ScalarNode) and self._root.is_null else self._root

    def _take(self, event: yaml.Event, line: int) -> None:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise YamlTextError(line, "anchors (&) and aliases (*) are not supported; write the value out")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise YamlTextError(line, f"tags such as {tag} are not supported; write the value without one")
        match event:
            case yaml.ScalarEvent():
                self._add(ScalarNode(line, event.value, quoted=bool(event.style)))
            case yaml.SequenceStartEvent():
                self._begin(ListNode(line))
            case yaml.MappingStartEvent():
                self._begin(MappingNode(line))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._open.pop()
                self._keys.pop()

    def _begin(self, node: ListNode | MappingNode) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise YamlTextError(node.line, f"nested deeper than {MAX_DEPTH} levels")
        self._add(node)
        self._open.append(node)
        self._keys.append(None)

    def _add(self, node: Node) -> None:
        if not self._open:
            self._root = node
            return
        parent, key = self._open[-1], self._keys[-1]
        if isinstance(parent, ListNode):
            parent.nodes.append(node)
        elif key is not None:
            parent.nodes.append((key, node))
            self._keys[-1] = None
        elif isinstance(node, ScalarNode):
            self._keys[-1] = node
        else:
            raise YamlTextError(node.line, "a key is a single word, not a list or a mapping")


# ---- Writing ---------------------------------------------------------------------------------------------------------


def dump(value: object) -> str:
    """Return *value* as YAML that `parse` reads as the same value."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True
    )
    return text


class _Dumper(yaml.SafeDumper):
    """Quotes each text that the reader of configuration files would not read as a text."""

    def ignore_aliases(self, _data: object) -> bool:
        """Return True: the reader refuses aliases."""
        return True


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _needs_quotes(text) else None)


def _needs_quotes(text: str) -> bool:
    try:
        return value_of(text) != text
    except Ambiguous:
        return True


_Dumper.add_representer(str, _represent)
