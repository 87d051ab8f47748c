"""The jobs of one request on their way in, with the errors and warnings that the steps find."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from wms.accounts.models import VO, Group, User
from wms.jobs.domain.request import MAX_WRONG_FIELDS, WantedJob
from wms.jobs.services.sandboxes import NamedSandbox
from wms.kernel.errors import RejectedError
from wms.kernel.names import did_you_mean

MAX_WARNINGS: Final = 50
#: Of one field of a job; the first ones tell the story.
MAX_SENTENCES: Final = 5
#: The nearest name is looked for so often: each look compares with all known names.
MAX_HINTS: Final = 20


@dataclass(slots=True, kw_only=True)
class Arrival:
    """The jobs of one request on their way in, and what the steps found out about them."""

    owner: User
    group: Group
    wanted: tuple[WantedJob, ...]
    now: datetime
    errors: dict[str, list[str]] = field(default_factory=dict)
    #: Ordered, each once: the positions in ``wanted`` of the jobs that it is about; none: it is about the request.
    warnings: dict[str, Sequence[int]] = field(default_factory=dict)
    #: Warnings beyond the first MAX_WARNINGS.
    left_out: int = 0
    #: By the references as a job gives them.
    input_sandboxes: dict[tuple[str, ...], tuple[NamedSandbox, ...]] = field(default_factory=dict)
    #: Sites that hold all of the files, by the files as a job gives them.
    input_sites: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    #: Id of the submit pool, by ``requirements_key``.
    pools: dict[str, str] = field(default_factory=dict)
    #: Nearest known names that were looked for, as sentences, by noun and name.
    hints: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def vo(self) -> VO:
        """The group's."""
        return self.group.vo

    @property
    def refused_enough(self) -> bool:
        """Whether so much is wrong that more need not be said."""
        return len(self.errors) >= MAX_WRONG_FIELDS

    def refuse(self, wanted: WantedJob, name: str, sentence: str) -> None:
        """Note that a field of a job is wrong."""
        sentences = self.errors.setdefault(f"{wanted.path}{name}", [])
        if sentence not in sentences and len(sentences) < MAX_SENTENCES:
            sentences.append(sentence)

    def refuse_as(self, wanted: WantedJob, error: RejectedError) -> None:
        """Note that fields of a job are wrong, as an error says it."""
        for name, sentences in error.errors.items():
            for sentence in sentences:
                self.refuse(wanted, name, sentence)

    def hint(self, noun: str, name: str, *, known: Collection[str]) -> str:
        """Return a sentence that names the known name nearest to *name*, or nothing when too much is wrong."""
        if (noun, name) not in self.hints:
            if len(self.hints) >= MAX_HINTS:
                return ""
            self.hints[noun, name] = did_you_mean(name, sorted(known))
        return self.hints[noun, name]

    def warn(self, sentence: str, *, of: Sequence[int] = ()) -> None:
        """Note what the submitter should know though the job is accepted."""
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings[sentence] = of
        else:
            self.left_out += 1

    def values(self, name: str) -> frozenset[str]:
        """Return every name that any job lists in a field."""
        lists = {getattr(wanted.description, name) for wanted in self.wanted}
        return frozenset(value for values in lists for value in values)
