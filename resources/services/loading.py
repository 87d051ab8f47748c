"""Loading of replicas from a CSV file, by the million: checked as a whole, then written by one statement."""

import csv
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from django.db import transaction

from resources import sql
from resources.domain.files import checksum_problem, lfn_problem, shown, size_problem, vo_of, without_prefix
from resources.models import StorageElement
from resources.services.replicas import no_such_element
from resources.sql import LoadRow
from wms.accounts.models import VO
from wms.kernel.errors import RejectedError
from wms.kernel.names import did_you_mean

logger = logging.getLogger(__name__)

COLUMNS: Final = ("lfn", "storage_element", "size_bytes", "checksum")
REQUIRED: Final = frozenset({"lfn", "storage_element"})
#: Reading stops after so many wrong lines.
MAX_WRONG_LINES: Final = 20


class ReplicaFileError(RejectedError):
    """The file has faults and nothing was written; ``errors`` has a sentence for each wrong line."""

    code = "invalid_replica_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The result of a load."""

    read: int
    new: int
    #: Existing replicas that got another size or checksum.
    changed: int


@transaction.atomic(durable=True)
def load(lines: Iterable[str], *, vo_name: str | None) -> Loaded:
    """Load the replicas of a CSV file, all or none.

    Args:
        lines: of the file. The columns are COLUMNS in this order, the last two optional; a first line with names may
            give another order.
        vo_name: VO of the files; None: each belongs to the VO in the first part of its path.

    Raises:
        ReplicaFileError: with the first wrong lines; nothing was written.
    """
    reader = _Reader(vo_name)
    # Into a temporary table: a fault found at the end rolls everything back.
    sql.begin_load(reader.rows(lines))
    reader.refuse_if_wrong()
    for line, first in sql.repeated_lines(at_most=MAX_WRONG_LINES):
        reader.fault(line, f"names the same replica as line {first}; keep one of them.")
    reader.refuse_if_wrong()
    written = sql.write_load()
    for of_vo in written:
        if of_vo.new:
            # One mark for all files, not a million: all jobs of the VO with input data are re-evaluated.
            sql.mark([""], vo_id=of_vo.vo_id)
    loaded = Loaded(
        read=reader.read, new=sum(each.new for each in written), changed=sum(each.changed for each in written)
    )
    logger.info("replicas.loaded", extra={"read": loaded.read, "new": loaded.new, "changed": loaded.changed})
    return loaded


class _Reader:
    """Turns lines into rows; wrong ones are recorded and left out."""

    def __init__(self, vo_name: str | None) -> None:
        self.read = 0
        self._errors: dict[str, list[str]] = {}
        self._vos: Mapping[str, int] = dict(VO.objects.values_list("name", "pk"))
        self._elements: Mapping[str, int] = dict(StorageElement.objects.values_list("name", "pk"))
        #: (VO, name of a storage element that serves it).
        self._served: frozenset[tuple[int, str]] = frozenset(
            StorageElement.objects.filter(vos__isnull=False).values_list("vos", "name")
        )
        if vo_name is not None and vo_name not in self._vos:
            sentence = f'There is no VO "{vo_name}".{did_you_mean(vo_name, sorted(self._vos))}'
            raise ReplicaFileError(sentence, errors={"vo": [sentence]})
        self._vo_id = None if vo_name is None else self._vos[vo_name]

    def fault(self, line: int, problem: str) -> None:
        """Add a fault of a line."""
        self._errors.setdefault(f"line {line}", []).append(f"Line {line} {problem}")

    def refuse_if_wrong(self) -> None:
        """Raise ReplicaFileError if there are faults."""
        if self._errors:
            sentences = [sentence for of_line in self._errors.values() for sentence in of_line]
            more = f" ({len(sentences) - 1} more.)" if len(sentences) > 1 else ""
            raise ReplicaFileError(f"{sentences[0]}{more}", errors=self._errors)

    def rows(self, lines: Iterable[str]) -> Iterator[LoadRow]:
        """Yield the rows of valid lines, until there are too many faults."""
        cells = csv.reader(lines, strict=True)
        in_order = _picker(COLUMNS)
        columns = len(COLUMNS)
        try:
            for number, row in enumerate(cells):
                if number == 0 and row and row[0].strip() in COLUMNS:
                    names = self._header([name.strip() for name in row])
                    in_order, columns = _picker(names), len(names)
                elif row:
                    self.read += 1
                    if read := self._row(cells.line_num, in_order(row), surplus=len(row) > columns):
                        yield read
                if len(self._errors) >= MAX_WRONG_LINES:
                    return
        except (csv.Error, UnicodeDecodeError) as error:
            self.fault(cells.line_num + 1, f"is not CSV in UTF-8: {error}.")

    def _header(self, names: Sequence[str]) -> Sequence[str]:
        unknown = [name for name in names if name not in COLUMNS]
        for name in unknown:
            self.fault(1, f'names a column "{name}"; there are {", ".join(COLUMNS)}.{did_you_mean(name, COLUMNS)}')
        if not unknown and (not REQUIRED.issubset(names) or len(set(names)) < len(names)):
            self.fault(1, "must name lfn and storage_element, and each column once.")
        return names

    # The code below runs a million times: one superfluous lookup takes a second.

    def _row(self, line: int, cells: Sequence[str], *, surplus: bool) -> LoadRow | None:
        """Return the row, or add the fault of the line."""
        lfn, element, size, checksum = cells
        if not lfn.startswith("/"):
            lfn = without_prefix(lfn)
        vo_id = self._vo_id or self._vos.get(vo_of(lfn))
        problem = "has more cells than there are columns." if surplus else self._problem(lfn, *cells[1:], vo_id=vo_id)
        if problem or vo_id is None:
            self.fault(line, problem)
            return None
        return LoadRow(line, vo_id, lfn, self._elements[element], int(size) if size else None, checksum)

    def _problem(self, lfn: str, element: str, size: str, checksum: str, /, *, vo_id: int | None) -> str:
        """Return what is wrong with a row; empty: no fault."""
        if not lfn or not element:
            return "must have at least an lfn and a storage_element."
        if problem := lfn_problem(lfn):
            return f"has the lfn {shown(lfn)}; it must be {problem}."
        if vo_id is None:
            return (
                f'is of no VO: there is none called "{vo_of(lfn)}", the first part of {shown(lfn)}; name one by --vo.'
            )
        if (vo_id, element) not in self._served:
            return f"is wrong: {self._not_served(element[:64], vo_id)}"
        return _problem_of_content(size, checksum)

    def _not_served(self, element: str, vo_id: int) -> str:
        vo = next(name for name, pk in self._vos.items() if pk == vo_id)
        if element in self._elements:
            return f'the storage element "{element}" does not serve {vo}; name {vo} among its VOs first.'
        return no_such_element(element, [name for of_vo, name in self._served if of_vo == vo_id], vo=vo)


def _problem_of_content(size: str, checksum: str, /) -> str:
    if size and (not (size.isascii() and size.isdecimal()) or size_problem(int(size[:30]))):
        return f"has the size {shown(size)}; it must be a whole number of bytes, 0 or more."
    if checksum and (problem := checksum_problem(checksum)):
        return f"has the checksum {shown(checksum)}; it must be {problem}."
    return ""


def _picker(names: Sequence[str]) -> Callable[[list[str]], Sequence[str]]:
    """Return a function that puts the cells of a line in the order of COLUMNS; missing cells are empty."""
    in_order = itemgetter(*(names.index(name) if name in names else len(names) for name in COLUMNS))
    empty = [""] * (len(names) + 1)
    return lambda row: in_order([*row, *empty[len(row) :]])
