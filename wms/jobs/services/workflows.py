"""Jobs of ``dirac-jobexec``, whose jobDescription.xml is replaced by a script before they are accepted (ADR 80)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from io import BytesIO
from typing import Final, TypeVar

from wms.accounts.models import User
from wms.accounts.services import acting_group
from wms.jobs.domain import description as descriptions
from wms.jobs.domain.data import lfn_of_output
from wms.jobs.domain.description import DescriptionParts, InvalidDescriptionError, JobDescription, as_json
from wms.jobs.domain.jobexec import PROGRAM, Invocation, InvocationError, invocation_of, is_jobexec, script_of
from wms.jobs.domain.request import RequestedJob, SubmissionIn
from wms.jobs.domain.workflow_xml import MAX_XML_BYTES, Workflow, WorkflowError, read_workflow
from wms.jobs.services import sandbox_contents, sandboxes, submission
from wms.jobs.services.optimizers.arrival import Arrival
from wms.jobs.services.sandboxes import NamedSandbox
from wms.kernel.errors import NotFoundError, RejectedError
from wms.kernel.names import listed
from wms.wire.protocol import SANDBOX_PREFIX

#: Characters of the files and command lines of one request: splitting takes about 0.6 s per million.
MAX_CHARACTERS: Final = 4_000_000
#: Different scripts of one request.
MAX_SCRIPTS: Final = 100
#: Archives of one request in which files are looked for, each of which is unpacked for it.
MAX_ARCHIVES: Final = 20

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def with_scripts(request: SubmissionIn, *, owner: User, now: datetime) -> SubmissionIn:
    """Return the request with a script, which is uploaded for *owner*, in the place of each jobDescription.xml.

    A repeated request is returned as it is: its first answer is given again. Call it before the transaction of the
    submission, because it reads and writes files.

    Raises:
        InvalidDescriptionError: a command line or a file cannot be run here.
        RejectedError: the group to act in is wrong; with errors of ``group``.
        SandboxQuotaError, NoRoomError: a script cannot be stored.
    """
    if not _calls_jobexec(request) or submission.is_repeated(request, owner=owner):
        return request
    replacement = _Replacement(request, owner=owner, coming_files={}, now=now)
    replaced = replacement.request()
    for file_name, script in replacement.scripts.values():
        sandboxes.upload(BytesIO(script), file_name=file_name, owner=owner, now=now)
    return replaced


def rehearsed(
    request: SubmissionIn, *, owner: User, coming_files: Mapping[str, NamedSandbox], now: datetime
) -> tuple[SubmissionIn, Mapping[str, NamedSandbox]]:
    """Return the request as ``with_scripts`` does, and *coming_files* with the scripts, which are not stored.

    A file that is not uploaded yet is not read; a warning says so.

    Raises:
        InvalidDescriptionError, RejectedError: as there.
    """
    if not _calls_jobexec(request):
        return request, coming_files
    replacement = _Replacement(request, owner=owner, coming_files=coming_files, now=now)
    replaced = replacement.request()
    scripts = {reference: sandboxes.coming(name) for reference, (name, _) in replacement.scripts.items()}
    return replaced, {**coming_files, **scripts}


def _calls_jobexec(request: SubmissionIn) -> bool:
    commons = {id(job.common): job.common for job in request.jobs}
    return any(is_jobexec(common.executable) for common in commons.values())


class _Replacement:
    """The replacement of dirac-jobexec in the jobs of one request; each file is read once."""

    def __init__(
        self, request: SubmissionIn, *, owner: User, coming_files: Mapping[str, NamedSandbox], now: datetime
    ) -> None:
        self._request = request
        group = acting_group(owner, request.group)
        self._arrival = Arrival(owner=owner, group=group, jobs=tuple(request.jobs), now=now)
        uploaded = [entry for entry in self._arrival.values("input_sandbox") if not lfn_of_output(entry)]
        self._nameable = {**coming_files, **sandboxes.nameable(uploaded, owner=owner, group=group)}
        #: By the references of a job.
        self._files: dict[tuple[str, ...], tuple[NamedSandbox, ...] | RejectedError] = {}
        #: By the arguments of a job.
        self._invocations: dict[str, Invocation | RejectedError] = {}
        #: By ``id()`` of the common part, which the arrival keeps alive, and the name of the workflow's file.
        self._commons: dict[tuple[int, str], JobDescription | RejectedError] = {}
        #: By the content of the file.
        self._workflows: dict[bytes, Workflow | RejectedError] = {}
        self._characters = self._archives = 0
        #: {reference: (file name, content)}.
        self.scripts: dict[str, tuple[str, bytes]] = {}

    def request(self) -> SubmissionIn:
        """Return the request with replaced jobs, and with warnings about them.

        Raises:
            InvalidDescriptionError: with the errors of all jobs.
        """
        warnings: dict[str, list[int]] = {}
        jobs: list[RequestedJob] = []
        for position, job in enumerate(self._request.jobs):
            try:
                replaced, told = self._job(job) if is_jobexec(job.common.executable) else (job, [])
            except RejectedError as error:
                self._arrival.refuse_as(job, error)
                if self._arrival.refused_enough:
                    break
                continue
            jobs.append(replaced)
            for sentence in told:
                warnings.setdefault(sentence, []).append(position)
        if self._arrival.errors:
            raise InvalidDescriptionError(self._arrival.errors)
        return replace(self._request, jobs=jobs, warnings={**self._request.warnings, **warnings})

    def _job(self, job: RequestedJob) -> tuple[RequestedJob, list[str]]:
        """Return the job that runs the script, and warnings."""
        references, arguments = job.common.input_sandbox, job.described.arguments
        files = _once(self._files, references, lambda: self._resolved(references))
        if any(named.file_name == PROGRAM for named in files):
            return job, []  # a program of the user with this name
        invocation = _once(self._invocations, arguments, lambda: self._invocation(arguments))
        name = invocation.file_name
        common = _once(self._commons, (id(job.common), name), lambda: self._common(job.common, files, name=name))
        told = []
        if invocation.unused:
            unused = listed(invocation.unused, last=" or ")
            told.append(f"Of the options of {PROGRAM} only -p arguments=… is read here, not {unused}.")
        if common is job.common:
            told.append(f"{name} is not uploaded yet: its steps are checked when the jobs are submitted.")
        return job._replace(described=DescriptionParts(common, job.described.job_name, invocation.arguments)), told

    def _resolved(self, references: tuple[str, ...]) -> tuple[NamedSandbox, ...]:
        uploaded = [reference for reference in references if not lfn_of_output(reference)]
        owner, group = self._arrival.owner, self._arrival.group
        return sandboxes.resolve(uploaded, owner=owner, group=group, known=self._nameable)

    def _invocation(self, arguments: str) -> Invocation:
        self._take_characters(len(arguments))
        try:
            return invocation_of(arguments)
        except InvocationError as error:
            raise _refused(str(error), field="arguments") from error

    def _common(self, common: JobDescription, files: tuple[NamedSandbox, ...], *, name: str) -> JobDescription:
        """Return the common part of jobs with the script; the same one if the workflow is not uploaded yet."""
        xml = self._content(files, name)
        if xml is None:
            return common
        workflow = _once(self._workflows, xml, lambda: self._workflow(xml, name=name))
        script = script_of(workflow, file_name=name, outputs={common.std_output, common.std_error})
        digest = sha256(script).hexdigest()
        reference, file_name = f"{SANDBOX_PREFIX}{digest}", f"{PROGRAM}-{digest[:8]}.sh"
        self.scripts[reference] = file_name, script
        if len(self.scripts) > MAX_SCRIPTS:
            sentence = f"The jobs of one request may run {MAX_SCRIPTS} different workflows; send several requests."
            raise _refused(sentence)
        references = tuple(dict.fromkeys((*common.input_sandbox, reference)))
        changed = replace(common, executable=f"./{file_name}", arguments="", input_sandbox=references)
        return descriptions.parse(as_json(changed))

    def _content(self, files: tuple[NamedSandbox, ...], name: str) -> bytes | None:
        """Return the content of the workflow's file, with one byte more than allowed; None: it is not uploaded yet."""
        for named in files:
            if named.file_name == name and not named.sandbox.is_archive:
                if not named.sandbox.digest:
                    return None
                try:
                    with sandboxes.open_content(named.sandbox) as content:
                        return bytes(content.read(MAX_XML_BYTES + 1))
                except FileNotFoundError as error:
                    raise _refused(f"{name} is no longer stored; upload it again.") from error
        for named in files:
            if not named.sandbox.is_archive:
                continue
            if not named.sandbox.digest:
                return None
            self._archives += 1
            if self._archives > MAX_ARCHIVES:
                raise _refused(f"{name} is looked for in {MAX_ARCHIVES} archives only; upload it as a file of its own.")
            try:
                file = sandbox_contents.file_named(named.sandbox, name=name)
            except NotFoundError:
                continue
            return sandbox_contents.start_of(named.sandbox, file=file, most_bytes=MAX_XML_BYTES + 1)
        raise _refused(
            f"The input sandbox has no file {name[:100]}, which {PROGRAM} should run. Name it in InputSandbox, and "
            "upload it."
        )

    def _workflow(self, xml: bytes, *, name: str) -> Workflow:
        self._take_characters(len(xml))
        try:
            return read_workflow(xml)
        except WorkflowError as error:
            raise _refused(f"{name}, line {error.line}: {error.problem}.") from error

    def _take_characters(self, count: int) -> None:
        self._characters += count
        if self._characters > MAX_CHARACTERS:
            raise _refused(
                f"The workflows and arguments of {PROGRAM} in one request may have {MAX_CHARACTERS:,} characters; "
                "send several requests."
            )


def _refused(sentence: str, *, field: str = "input_sandbox") -> InvalidDescriptionError:
    return InvalidDescriptionError({field: [sentence]})


def _once(known: dict[_Key, _Value | RejectedError], key: _Key, made: Callable[[], _Value]) -> _Value:
    """Return the value of *key*, which is made at the first call; a refusal is raised at each."""
    if key not in known:
        try:
            known[key] = made()
        except RejectedError as error:
            known[key] = error
    value = known[key]
    if isinstance(value, RejectedError):
        raise value
    return value
