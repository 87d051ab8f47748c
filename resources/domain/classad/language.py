"""Expressions and ads of the ClassAd language: parsing, construction from values, and evaluation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from resources.domain.classad.analysis import Possibilities, Reach, reach_of
from resources.domain.classad.evaluation import MAX_STEPS, Evaluation, Value
from resources.domain.classad.lexer import NO_TEXTS, ClassAdError
from resources.domain.classad.syntax import parse_node, parse_record
from resources.domain.classad.tree import ListExpression, Literal, Node, Record, RecordEntry, Scalar
from resources.domain.classad.values import Frame


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression, with its text for the position of errors."""

    root: Node
    text: str

    def reach(self, my: "ClassAd", *, constants: AbstractSet[str] = frozenset()) -> Reach:
        """Return the names on which its value may depend.

        Args:
            my: the ad in which its names are looked up.
            constants: names, in lower case, that will be constants, whatever *my* contains.
        """
        return reach_of(self.root, my.record, constants=constants)

    def error(self, problem: str) -> ClassAdError:
        """Return an error that points at where this expression begins."""
        return ClassAdError(problem, text=self.text, at=self.root.at)


@dataclass(frozen=True, slots=True)
class ClassAd:
    """A parsed record, with its text. Attribute names ignore letter case; their spelling is kept."""

    record: Record
    text: str

    @property
    def whole(self) -> Expression:
        """The record as an expression."""
        return Expression(self.record, self.text)

    @property
    def names(self) -> tuple[str, ...]:
        """The attribute names as they were written, in their order."""
        return tuple(entry.name for entry in self.record.entries.values())

    def expression(self, name: str) -> Expression | None:
        """Return the expression of the attribute *name*, or None."""
        entry = self.record.entries.get(name.lower())
        return None if entry is None else Expression(entry.node, self.text)

    def updated(self, other: "ClassAd") -> "ClassAd":
        """Return the record with the attributes of *other*, which take precedence."""
        entries = MappingProxyType({**self.record.entries, **other.record.entries})
        return ClassAd(Record(entries, self.record.at), self.text)

    def error(self, name: str, problem: str) -> ClassAdError:
        """Return an error that points at the name of the attribute *name*."""
        return ClassAdError(problem, text=self.text, at=self.record.entries[name.lower()].at)


_EMPTY: Final = ClassAd(Record(MappingProxyType({}), 0), "")


def parse_expression(text: str) -> Expression:
    """Return the expression that makes up the whole of *text*.

    Raises:
        ClassAdError: with line and column.
    """
    return Expression(parse_node(text), text)


def parse_classad(
    text: str, *, dotted_names: bool = False, by_lines: bool = False, texts: Mapping[int, int] = NO_TEXTS
) -> ClassAd:
    """Return the record that makes up the whole of *text*, with or without brackets around it.

    Args:
        text: ``[ a = 1; b = 2 ]`` or ``a = 1; b = 2``.
        dotted_names: whether its own attributes may be called ``Parameters.energy``.
        by_lines: whether each line may be an attribute, without brackets and semicolons (HTCondor's old form).
        texts: {begin: end} of the parts that are strings without quotes, each in one line.

    Raises:
        ClassAdError: with line and column.
    """
    return ClassAd(parse_record(text, dotted_names=dotted_names, by_lines=by_lines, texts=texts), text)


def classad_of(values: Mapping[str, Scalar | Sequence[Scalar]]) -> ClassAd:
    """Return the record with these constant attributes; of names that differ only in case, the last one counts."""
    entries = {}
    for name, value in values.items():
        if isinstance(value, Sequence) and not isinstance(value, str):
            node: Node = ListExpression(tuple(Literal(item, 0) for item in value), 0)
        else:
            node = Literal(value, 0)
        entries[name.lower()] = RecordEntry(name, node, 0)
    return ClassAd(Record(MappingProxyType(entries), 0), "")


def evaluate(
    expression: Expression,
    *,
    my: ClassAd = _EMPTY,
    target: ClassAd = _EMPTY,
    now: int | None = None,
    max_steps: int = MAX_STEPS,
) -> Value:
    """Return the value of *expression*.

    Args:
        expression: what to compute.
        my: where ``MY.name`` and bare names are looked up.
        target: where ``TARGET.name`` and bare names that *my* lacks are looked up; in its attributes, MY and TARGET are
            exchanged.
        now: value of ``time()``, in seconds since 1970; None: it must not be used.
        max_steps: most parts to compute.

    Returns:
        str, int, float, bool, UNDEFINED, ERROR, a tuple of values, or a mapping of names (as written) to values.

    Raises:
        ClassAdError: the evaluation took more than *max_steps*, or went too deep.
    """
    mine = _match(my, target)
    return Evaluation(max_steps=max_steps, now=now).run(expression.root, my=mine, text=expression.text)


def _match(my: ClassAd, target: ClassAd) -> Frame:
    """Return *my* as one ad of a match; in the other one, MY and TARGET are exchanged."""
    mine, theirs = Frame(my.record), Frame(target.record)
    mine.target, theirs.target = theirs, mine
    return mine


def values_of(ad: ClassAd) -> Mapping[str, Value]:
    """Return the values of all attributes of *ad*, by their names as written; MAX_STEPS is for all of them together.

    Raises:
        ClassAdError: as ``evaluate``.
    """
    values = evaluate(ad.whole, my=ad)
    return values if isinstance(values, Mapping) else {}


def each_value_of(ad: ClassAd, names: Iterable[str]) -> Iterator[tuple[str, Value]]:
    """Yield name and value of the existing attributes of *ad*; MAX_STEPS is for all of them together.

    Raises:
        ClassAdError: as ``evaluate``; it points at the attribute's name.
    """
    evaluation, mine = Evaluation(max_steps=MAX_STEPS), Frame(ad.record)
    for name in names:
        entry = ad.record.entries.get(name.lower())
        if entry is None:
            continue
        try:
            value = evaluation.run(entry.node, my=mine, text=ad.text)
        except ClassAdError as error:
            raise ad.error(name, error.problem) from error
        yield name, value


def is_true(
    expression: Expression,
    *,
    my: ClassAd = _EMPTY,
    target: ClassAd = _EMPTY,
    now: int | None = None,
    max_steps: int = MAX_STEPS,
) -> bool:
    """Return whether *expression* is exactly TRUE; undefined, error, numbers and too long an evaluation are not."""
    return are_true([(expression, my)], target=target, now=now, max_steps=max_steps)


def are_true(
    expressions: Iterable[tuple[Expression, ClassAd]],
    *,
    target: ClassAd = _EMPTY,
    now: int | None = None,
    max_steps: int = MAX_STEPS,
) -> bool:
    """Return whether each expression is exactly TRUE with its own MY; *max_steps* is for all of them together."""
    evaluation = Evaluation(max_steps=max_steps, now=now)
    try:
        return all(
            evaluation.run(expression.root, my=_match(my, target), text=expression.text) is True
            for expression, my in expressions
        )
    except ClassAdError:
        return False


def may_be_true(
    expression: Expression,
    *,
    my: ClassAd,
    unknown: AbstractSet[str],
    now: int | None = None,
    max_steps: int = MAX_STEPS,
) -> bool:
    """Return False only if *expression* cannot be exactly TRUE for any TARGET.

    Args:
        expression: the expression.
        my: where ``MY.name`` and bare names are looked up.
        unknown: attributes, in lower case, that TARGET may have; all others are undefined.
        now: as of ``evaluate``.
        max_steps: for each of its parts; one that takes longer may be TRUE.
    """

    def compute(node: Node) -> "Value | None":
        try:
            return evaluate(Expression(node, expression.text), my=my, now=now, max_steps=max_steps)
        except ClassAdError:
            return None

    return Possibilities(my.record, unknown=unknown, compute=compute).may_be_true(expression.root)
