"""The three forms that submit jobs; each makes the body of the corresponding REST request."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final
from uuid import uuid4

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from resources.domain.classad import ClassAdError
from wms.accounts.models import Group
from wms.jobs.domain.canaries import EACH_SITE
from wms.jobs.domain.description import DEFAULT_CPU_TIME_S, MAX_CPU_TIME_S, MAX_PRIORITY, InvalidDescriptionError
from wms.jobs.domain.description_checks import MAX_PATH
from wms.jobs.domain.fields import shown
from wms.jobs.domain.findings import SurelyFailsError
from wms.jobs.domain.jdl import ATTRIBUTES, Json
from wms.jobs.domain.request import ENVELOPE, TEXT_FORMS, SubmissionIn, one_group, parse_submission
from wms.jobs.domain.sequences import MAX_PARAMETRIC_JOBS
from wms.jobs.domain.yaml_descriptions import body_of_yaml
from wms.jobs.services.saved_descriptions import MAX_NAME
from wms.jobs.services.submission import RequestIdConflictError
from wms.kernel.errors import WmsError
from wms.portal.drafts import Draft, KeptFile, files_of_jobs, with_references
from wms.portal.forms.fields import (
    MAX_FILES,
    Files,
    JsonObjectField,
    JsonTextError,
    Lines,
    Names,
    amount_field,
    json_object,
)
from wms.portal.forms.quantities import DURATION, QuantityField
from wms.wire.amounts import AMOUNT, AMOUNTS


class FormAction(StrEnum):
    """The button that was pressed; ``SUBMIT`` has no value of its own, as forms of scripts do."""

    SUBMIT = ""
    #: Although jobs surely fail when they start.
    SUBMIT_ANYWAY = "anyway"
    CHECK = "check"
    SAVE = "save"
    SHOW_FORM = "show-form"
    SHOW_JDL = "show-jdl"
    SHOW_JSON = "show-json"

    @property
    def needs_everything(self) -> bool:
        """Return whether the description must be complete."""
        return self in {FormAction.SUBMIT, FormAction.SUBMIT_ANYWAY, FormAction.CHECK}


class SubmissionForm(forms.Form):
    """The common fields: group, files, and an id by which a form that is sent twice is accepted once."""

    group = forms.ChoiceField(required=False, help_text="Group in which you act.")
    input_files = Files(
        required=False,
        allow_empty_file=True,
        label="Input files",
        help_text="Files for the job's directory; archives are unpacked there. Drop them anywhere on the page.",
    )
    canary = forms.ChoiceField(
        required=False,
        choices=[("", "all at once"), ("1", "one job first"), (EACH_SITE, "one job at each site first")],
        label="Begin with",
        help_text="The other jobs are held until these, the canaries, are Done.",
    )
    save_as = forms.CharField(required=False, max_length=MAX_NAME, label="Save as")
    kept = forms.Field(required=False, widget=forms.MultipleHiddenInput)
    request_id = forms.UUIDField(widget=forms.HiddenInput)

    #: {field of a description: field of this form}.
    renamed: ClassVar[Mapping[str, str]] = MappingProxyType({})
    #: About the text that was read last: attributes that are ignored, or mean something else than in DIRAC.
    warnings: Sequence[str] = ()
    #: Whether it is refused only because jobs surely fail when they start.
    surely_fails = False

    def __init__(
        self,
        data: QueryDict | None = None,
        files: "MultiValueDict[str, UploadedFile[bytes]] | None" = None,
        *,
        groups: Sequence[Group],
        initial: Mapping[str, object] = MappingProxyType({}),
        action: FormAction = FormAction.SUBMIT,
    ) -> None:
        super().__init__(data, files, initial={"request_id": uuid4(), **initial})
        self._action = action
        self.has_one_group = len(groups) == 1
        default = [] if len(groups) == 1 else [("", "my default group")]
        choices = [(group.name, f"{group.name} ({group.vo.name})") for group in groups]
        field = self.fields["group"]
        if isinstance(field, forms.ChoiceField):
            field.choices = [*default, *choices]
        self._adapt()

    def _adapt(self) -> None:
        """Add or change fields of one kind of form."""

    def clean_save_as(self) -> str:
        """Return the name under which the description is saved."""
        name = str(self.cleaned_data["save_as"])
        if self._action is FormAction.SAVE and not name:
            raise forms.ValidationError("Write the name under which the description is saved.")
        return name

    @property
    def kept_files(self) -> list[KeptFile]:
        """The files uploaded before, which need not be chosen again."""
        texts = self.data.getlist("kept") if isinstance(self.data, QueryDict) else self.initial.get("kept", [])
        return [KeptFile(*text.split(" ", 1)) for text in texts if " " in text][:MAX_FILES]

    def keep(self, files: Sequence[KeptFile]) -> None:
        """Keep uploads for the next submission of the form."""
        self.change_data("kept", [" ".join(file) for file in files])
        self.files = MultiValueDict()

    def draft(self, files: Sequence[KeptFile] | None = None) -> Draft:
        """Return what is described, with these files or the kept ones.

        Raises:
            ClassAdError, InvalidDescriptionError, InvalidSubmissionError: a text cannot be read.
        """
        raise NotImplementedError

    def body(self, files: Sequence[KeptFile] | None = None) -> dict[str, object]:
        """Return the body of the request.

        Raises:
            ClassAdError, InvalidDescriptionError, InvalidSubmissionError: as ``draft``.
        """
        draft = self.draft(files)
        group = {} if draft.group is None else {"group": draft.group}
        named = files_of_jobs(draft.description, draft.files)
        chosen = self.cleaned_data["canary"]
        canary = {"canary": int(chosen) if chosen.isdecimal() else chosen} if chosen else {}
        return {**draft.description, **named, **group, **canary, "request_id": str(self.cleaned_data["request_id"])}

    def request(self, files: Sequence[KeptFile] | None = None) -> SubmissionIn:
        """Return the request, with the warnings about its text.

        Raises:
            ClassAdError, InvalidDescriptionError, InvalidSubmissionError: as ``draft``.
        """
        parsed = parse_submission(self.body(files))
        return replace(parsed, warnings={**dict.fromkeys(self.warnings, ()), **parsed.warnings})

    def refuse(self, error: WmsError) -> None:
        """Show the errors of the service, each beside its field; nothing was submitted."""
        if isinstance(error, RequestIdConflictError):
            sentence = "This form was sent before with other values, and its jobs exist. Submit again if"
            self.add_error(None, f"{sentence} you want these jobs as well.")
        else:
            self.surely_fails = isinstance(error, SurelyFailsError)
            self._show(error.errors or {"": [error.detail]})
        self.change_data("request_id", [str(uuid4())])

    def change_data(self, name: str, values: list[str]) -> None:
        """Set a hidden field to other values before the form is shown again."""
        data = QueryDict(mutable=True)
        for other, current in self.data.lists() if isinstance(self.data, QueryDict) else ():
            data.setlist(other, current)
        data.setlist(name, values)
        self.data = data

    def _show(self, errors: Mapping[str, Sequence[str]]) -> None:
        shown_fields = {name for name, field in self.fields.items() if not field.widget.is_hidden}
        for path, sentences in errors.items():
            field = self.renamed.get(path.partition(".")[0], path.partition(".")[0])
            for sentence in sentences:
                self.add_error(field if field in shown_fields else None, sentence)


class SimpleForm(SubmissionForm):
    """The fields that most jobs need, and one for all others."""

    renamed = MappingProxyType({"input_sandbox": "input_files", "file": "input_files", "parameters": "values"})
    #: Fields with the same name in a description.
    PLAIN: ClassVar[Sequence[str]] = (
        *("executable", "arguments", "job_name", "cpu_time_s", *AMOUNT, "container", "priority", "job_group"),
        *("sites", "banned_sites", "platforms", "tags", "software"),
        *("output_sandbox", "input_data", "output_data"),
    )

    executable = forms.CharField(
        max_length=1024, help_text="Program on the worker node, or one of the input files, such as ./run.sh."
    )
    arguments = forms.CharField(
        required=False, help_text="As the shell reads them; %n is the number of the job, %s its value below."
    )
    output_sandbox = Names(
        label="Output files",
        help_text="Names or patterns of files to return, such as *.root, log.txt; standard output and error "
        "are always returned.",
    )
    input_data = Names(
        label="Input data",
        help_text="Logical file names, such as /lhcb/data/run1.raw; the job runs only at sites that hold all of them.",
    )
    output_data = Names(
        label="Output data",
        help_text="Names or patterns of files to store at the site and register; JDL and REST accept another place.",
    )
    job_name = forms.CharField(required=False, max_length=255, label="Job name")
    job_group = forms.CharField(
        required=False, max_length=255, label="Label", help_text="A word of yours by which lists find the jobs."
    )
    cpu_time_s = QuantityField(
        DURATION,
        least=1,
        most=MAX_CPU_TIME_S,
        required=True,
        initial=DEFAULT_CPU_TIME_S,
        label="CPU time in hours",
        help_text=f"Per core, of a reference core. Or with its unit: {DURATION.example}.",
    )
    container = forms.CharField(
        required=False,
        max_length=MAX_PATH,
        help_text="Container image: docker://…, /cvmfs/…/image.sif, or one of the input files; empty: none.",
    )
    priority = forms.IntegerField(
        min_value=0,
        max_value=MAX_PRIORITY,
        initial=1,
        help_text="User priority, 0 to 10: chance relative to your other jobs.",
    )
    sites = Names(choices="sites", help_text="Sites where the job may run, separated by commas; empty: any.")
    banned_sites = Names(choices="sites", label="Banned sites", help_text="Sites where the job must not run.")
    platforms = Names(choices="platforms", help_text="Platforms of which the node must run one; empty: any.")
    tags = Names(choices="tags", help_text="Tags that the queue must offer, such as gpu.")
    software = Names(choices="software", help_text="Software that the queue must publish, or that the node finds.")
    count = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_PARAMETRIC_JOBS,
        label="Number of jobs",
        help_text="Jobs that differ in %n only; empty: one.",
    )
    values = Lines(
        required=False,
        label="Parametric values",
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Values, one per line; each makes a job, whose %s in arguments and names is replaced by the value.",
    )
    others = JsonObjectField(
        required=False,
        label="Other fields",
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "code"}),
        help_text='Fields of REST without a place above, as JSON, such as {"environment": {"RUN": "7"}}.',
    )

    def _adapt(self) -> None:
        self.fields |= {amount.name: amount_field(amount) for amount in AMOUNTS}
        self.fields["executable"].required = self._action.needs_everything

    def clean(self) -> dict[str, object]:
        """Refuse fields that are given twice."""
        values = super().clean() or self.cleaned_data
        if values.get("values") and values.get("count"):
            self.add_error("count", "Give either values or the number of jobs.")
        for name in values.get("others", {}):
            given = name in self.PLAIN and values.get(name) not in (self.fields[name].initial, None, "", [], 0)
            if given or name in ENVELOPE or (name == "parameters" and (values.get("values") or values.get("count"))):
                self.add_error("others", f"{shown(name)} has a field of its own above; give it once.")
        return values

    def draft(self, files: Sequence[KeptFile] | None = None) -> Draft:
        """Return what is described."""
        values = self.cleaned_data
        files = self.kept_files if files is None else files
        description: dict[str, Json] = {name: values[name] for name in self.PLAIN}
        if not description["executable"]:
            del description["executable"]
        if values["values"]:
            description["parameters"] = {"values": values["values"]}
        elif values["count"]:
            description["parameters"] = {"count": values["count"]}
        description = with_references({**description, **values["others"]}, files)
        return Draft(description=description, group=values["group"] or None, files=files)


EXAMPLE: Final = """[
  Executable = "/bin/echo";
  Arguments = "Hello from %n";
  JobName = "hello";
  CPUTime = 500;
  Parameters = 3;
]"""
_EDITOR: Final[Mapping[str, object]] = MappingProxyType({"rows": 14, "spellcheck": "false", "class": "code"})


class TextForm(SubmissionForm):
    """A description as a text, in which names of files mean those that go along with the form."""

    #: Name of the field with the text.
    text: ClassVar[str]

    def _adapt(self) -> None:
        self.fields[self.text].required = self._action.needs_everything

    def read(self, text: str) -> tuple[Mapping[str, Json], set[str]]:
        """Return the description in the text, and the groups that it names.

        Raises:
            ClassAdError, InvalidDescriptionError: the text cannot be read.
        """
        raise NotImplementedError

    def draft(self, files: Sequence[KeptFile] | None = None) -> Draft:
        """Return what is described."""
        files = self.kept_files if files is None else files
        text = self.cleaned_data[self.text]
        description, groups = self.read(text) if text.strip() else ({}, set[str]())
        group = one_group(self.cleaned_data["group"] or None, groups)
        return Draft(description=with_references(description, files), group=group, files=files)


class JdlForm(TextForm):
    """A text in one of DIRAC's two languages."""

    renamed = MappingProxyType({"cfg": "jdl", "input_sandbox": "input_files", "file": "input_files"})
    text = "jdl"

    jdl = forms.CharField(
        label="Description",
        strip=False,
        initial=EXAMPLE,
        widget=forms.Textarea(attrs={**_EDITOR, "data-editor": "jdl", "data-words": " ".join(ATTRIBUTES)}),
        help_text="Job description with DIRAC's attribute names; with Parameters, many jobs from one description. "
        'InputSandbox = {"run.sh"} means an input file below.',
    )
    syntax = forms.ChoiceField(
        required=False,
        choices=[("jdl", "JDL: [ Name = value; … ]"), ("cfg", "CFG: one Name = value in each line")],
    )

    def read(self, text: str) -> tuple[Mapping[str, Json], set[str]]:
        """Return the description in the text, and the group that it names."""
        syntax = self.cleaned_data["syntax"] or "jdl"
        try:
            job = TEXT_FORMS[syntax](text)
        except ClassAdError as error:
            error.errors[syntax] = [error.detail]
            raise
        self.warnings = job.warnings
        return job.description, set() if job.group is None else {job.group}


class JsonForm(TextForm):
    """A description as JSON or YAML, with the names of the REST interface."""

    renamed = MappingProxyType({"input_sandbox": "input_files", "file": "input_files"})
    text = "json"

    json = forms.CharField(
        label="Description",
        strip=False,
        initial='{\n  "executable": "/bin/echo",\n  "arguments": "Hello",\n  "cpu_time_s": 500\n}',
        widget=forms.Textarea(attrs={**_EDITOR, "data-editor": "json"}),
        help_text="Body of a submission by REST, or the same in YAML: one description, or a list under jobs. Times in "
        's, sizes in MB; "input_sandbox": ["run.sh"] means an input file below.',
    )

    def read(self, text: str) -> tuple[Mapping[str, Json], set[str]]:
        """Return the description in the text, and the group that it names."""
        try:
            content = json_object(text) if text.lstrip()[:1] in {"{", "["} else dict(body_of_yaml(text))
        except JsonTextError as error:
            raise InvalidDescriptionError({"json": [str(error)]}) from error
        except InvalidDescriptionError as error:
            raise InvalidDescriptionError({"json": list(error.errors["yaml"])}) from error
        content.pop("request_id", None)
        group = content.pop("group", None)
        if group is not None and not isinstance(group, str):
            raise InvalidDescriptionError({"group": [f"group must be the name of a group, not {shown(group)}."]})
        return content, set() if group is None else {group}

    def _show(self, errors: Mapping[str, Sequence[str]]) -> None:
        known = {*self.fields, *self.renamed}
        placed = {
            path: sentences
            if path.partition(".")[0] in known
            else [f"{_place_of(path, self.cleaned_data.get('json', ''))}{sentence}" for sentence in sentences]
            for path, sentences in errors.items()
        }
        super()._show(placed)


def _place_of(path: str, text: str) -> str:
    """Return where the last field of a path is first named in a JSON text; empty: nowhere."""
    found = re.search(rf'"{re.escape(path.rpartition(".")[2])}"\s*:', text)
    if found is None:
        return ""
    at = found.start()
    return f"Line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}: "
