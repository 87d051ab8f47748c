"""The drafts with which forms start: a copy of a job or of a submission, or a saved description."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.http import Http404
from django.shortcuts import get_object_or_404

from wms.accounts.models import Group, User
from wms.jobs.domain.data import lfn_of_output
from wms.jobs.domain.placeholders import with_literal_ids
from wms.jobs.models import Job, SavedDescription, SavedSyntax, SubmissionContent
from wms.jobs.services import sandboxes
from wms.kernel.names import listed
from wms.portal.drafts import Draft, KeptFile
from wms.portal.forms.fields import JsonTextError, json_object
from wms.portal.pages import LARGEST_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The first content of a form, with remarks about it for the user."""

    draft: Draft | None = None
    #: Of a saved text; the draft is None then.
    saved: SavedDescription | None = None
    files: Sequence[KeptFile] = ()
    notes: Sequence[str] = ()
    #: Name under which it was saved.
    name: str = ""


def of_copy(text: str, *, user: User, groups: Sequence[Group]) -> Start:
    """Return a copy of a job, or of the first job of a submission.

    Args:
        text: the id of either.
        user: who may see it.
        groups: in which the user may act.

    Raises:
        Http404: there is none that the user may see.
    """
    notes: list[str] = []
    if text.isascii() and text.isdecimal() and len(text) < 20:
        job_id = min(int(text), LARGEST_ID)
    else:
        content = _content_of(text, user=user)
        job_id = content.first_job_id
        if content.last_job_id != content.first_job_id:
            notes.append(
                f"This is a copy of job {job_id}, the first of its submission. Parameters are not stored with "
                "submissions: give the number of jobs or their values again."
            )
    jobs = Job.objects.visible_to(user).with_description().select_related("group__vo")
    job = get_object_or_404(jobs, pk=job_id)
    description = job.description
    if description.get("setup") == job.vo.setup:
        description["setup"] = None
    names = dict(job.input_sandboxes.values_list("sandbox__digest", "file_name"))
    kept = [(f"sha256:{digest}", name) for digest, name in names.items()]
    files, note = _nameable(kept, user=user, group=job.group)
    fetched = filter(lfn_of_output, description["input_sandbox"])
    description["input_sandbox"] = [*[file.reference for file in files], *fetched]
    group = job.group.name if job.group in groups else None
    return Start(
        draft=Draft(description=with_literal_ids(description), group=group, files=files),
        files=files,
        notes=[*notes, *filter(None, [note])],
    )


def _content_of(text: str, *, user: User) -> SubmissionContent:
    try:
        submission = UUID(text)
    except ValueError as error:
        raise Http404("no such submission") from error
    return get_object_or_404(SubmissionContent.objects.visible_to(user), pk=submission)


def of_saved(description: SavedDescription, *, user: User, groups: Sequence[Group]) -> Start:
    """Return a saved description, without files that are no longer stored."""
    files, note = _nameable(
        [(file[0], file[1]) for file in description.files], user=user, group=next(iter(groups), None)
    )
    notes = [note] if note else []
    if description.syntax != SavedSyntax.FORM:
        return Start(saved=description, files=files, notes=notes, name=description.name)
    try:
        content = json_object(description.text)
    except JsonTextError:
        return Start(notes=["The saved description cannot be read any more."])
    group = content.pop("group", None)
    lost = {file[0] for file in description.files} - {file.reference for file in files}
    references = content.get("input_sandbox")
    if isinstance(references, list):
        content["input_sandbox"] = [each for each in references if each not in lost]
    known = group if isinstance(group, str) and group in {each.name for each in groups} else None
    draft = Draft(description=content, group=known, files=files)
    return Start(draft=draft, files=files, notes=notes, name=description.name)


def _nameable(files: Sequence[tuple[str, str]], *, user: User, group: Group | None) -> tuple[list[KeptFile], str]:
    """Return those of the files that the user may name, and a sentence about the others; empty: none."""
    if not files:
        return [], ""
    known = {} if group is None else sandboxes.nameable([reference for reference, _ in files], owner=user, group=group)
    kept = [KeptFile(reference, name) for reference, name in files if reference in known]
    lost = [name for reference, name in files if reference not in known]
    sentence = f"Choose these files again, which you may not name or which are no longer stored: {listed(lost)}."
    return kept, sentence if lost else ""
