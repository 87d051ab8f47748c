"""Descriptions that users save under names of their own, to submit them again with changes."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import transaction

from wms.accounts.models import User
from wms.jobs.domain.fields import free_text_problem
from wms.jobs.models import SavedDescription, SavedSyntax
from wms.kernel.errors import ConflictError, NotFoundError, RejectedError
from wms.kernel.names import composed

logger = logging.getLogger(__name__)

MAX_NAME: Final = 64
#: Of one user. Each has at most MAX_BYTES, so all of them together less than one sandbox. Two requests at the same
#: moment may exceed it by one.
MAX_SAVED: Final = 100
#: As large as the JDL of one description may be.
MAX_BYTES: Final = 64 * 1024
#: As many files as a form may have.
_MAX_FILES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The outcome of saving."""

    description: SavedDescription
    #: Whether it replaced one of the same name.
    replaced: bool


@transaction.atomic(durable=True)
def save(
    *, owner: User, name: str, syntax: SavedSyntax, text: str, files: Sequence[Sequence[str]], now: datetime
) -> Saved:
    """Save a description under *name*; one that *owner* saved under the same name is replaced.

    Args:
        owner: the only user who sees it.
        name: one line.
        syntax: of the text.
        text: the description; it may be unfinished or wrong.
        files: (reference, name) of each sandbox that goes along.
        now: the time.

    Raises:
        RejectedError: the name or the text is wrong; with errors of ``save_as`` or ``description``.
        ConflictError: there are MAX_SAVED already.
    """
    name = composed(name.strip())
    problem = free_text_problem(name, most_bytes=4 * MAX_NAME)
    if not name or len(name) > MAX_NAME or problem or len(name.splitlines()) > 1:
        sentence = f"The name must be one line of 1 to {MAX_NAME} characters."
        raise RejectedError(sentence, errors={"save_as": [sentence]})
    if problem := free_text_problem(text, most_bytes=MAX_BYTES):
        sentence = f"A saved description must be {problem}."
        raise RejectedError(sentence, errors={"description": [sentence]})
    own = SavedDescription.objects.filter(owner=owner)
    replaced = own.filter(name=name).exists()
    if not replaced and own.count() >= MAX_SAVED:
        sentence = f"You have {MAX_SAVED} saved descriptions, as many as are kept; delete one, or replace one."
        raise ConflictError(sentence, errors={"save_as": [sentence]})
    values = {
        "syntax": syntax,
        "text": text,
        "files": [list(file) for file in files[:_MAX_FILES]],
        "saved_at": now,
    }
    description, _ = SavedDescription.objects.update_or_create(owner=owner, name=name, defaults=values)
    logger.info("description.saved", extra={"owner": owner.username, "description": description.pk})
    return Saved(description=description, replaced=replaced)


@transaction.atomic(durable=True)
def delete(pk: int, *, owner: User) -> str:
    """Delete a description of *owner*, and return its name.

    Raises:
        NotFoundError: the owner has none with this id.
    """
    description = SavedDescription.objects.filter(owner=owner, pk=pk).first()
    if description is None:
        raise NotFoundError("There is no such saved description.")
    SavedDescription.objects.filter(owner=owner, pk=pk).delete()
    logger.info("description.deleted", extra={"owner": owner.username, "description": pk})
    return description.name
