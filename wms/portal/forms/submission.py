"""The two forms that submit jobs; each makes the body of the corresponding REST request."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple
from uuid import uuid4

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from wms.accounts.models import Group
from wms.jobs.domain.description import MAX_CPU_TIME_S, MAX_PATH, MAX_PRIORITY
from wms.jobs.services.submission import RequestIdConflictError
from wms.kernel.amounts import AMOUNT, AMOUNTS, Amount
from wms.kernel.errors import WmsError

MAX_FILES: Final = 20


class KeptFile(NamedTuple):
    """A file uploaded earlier, as kept in a hidden field."""

    reference: str
    name: str


class Names(forms.CharField):
    """Names, separated by commas or line breaks."""

    def __init__(self, *, label: str | None = None, help_text: str) -> None:
        super().__init__(required=False, label=label, help_text=help_text)

    def clean(self, value: object) -> list[str]:
        """Return the names in their order."""
        return [name for part in str(super().clean(value)).replace(",", "\n").splitlines() if (name := part.strip())]


class AmountField(forms.IntegerField):
    """A required amount; left out: the least."""

    def __init__(self, amount: Amount) -> None:
        super().__init__(
            required=False,
            min_value=amount.least,
            max_value=amount.most,
            initial=amount.least,
            label=amount.label_with_unit,
            help_text=amount.help_of_job,
        )
        self._least = amount.least

    def clean(self, value: object) -> int:
        """Return the number."""
        number: int | None = super().clean(value)
        return self._least if number is None else number


class Lines(forms.CharField):
    """One value per line."""

    def clean(self, value: object) -> list[str]:
        """Return the values without surrounding blanks and without empty lines."""
        return [line.strip() for line in str(super().clean(value)).splitlines() if line.strip()]


class FilesInput(forms.ClearableFileInput):
    """Several files at once."""

    allow_multiple_selected = True


class Files(forms.FileField):
    """Several files at once."""

    widget = FilesInput

    def clean(self, data: object, initial: object = None) -> "list[UploadedFile[Any]]":
        """Return the files."""
        files = data if isinstance(data, list | tuple) else [data] if data else []
        if len(files) > MAX_FILES:
            raise forms.ValidationError(f"Choose at most {MAX_FILES} files; pack more of them into an archive.")
        cleaned = [super(Files, self).clean(file, initial) for file in files]
        return [file for file in cleaned if isinstance(file, UploadedFile)]


class SubmissionForm(forms.Form):
    """The common fields: the group, and an id by which a form that is sent twice is accepted once."""

    group = forms.ChoiceField(required=False, help_text="Group in which you act.")
    request_id = forms.UUIDField(widget=forms.HiddenInput)

    #: {field of a description: field of this form}.
    renamed: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __init__(
        self, data: QueryDict | None = None, files: MultiValueDict[str, Any] | None = None, *, groups: Sequence[Group]
    ) -> None:
        super().__init__(data, files, initial={"request_id": uuid4()})
        default = [] if len(groups) == 1 else [("", "my default group")]
        choices = [(group.name, f"{group.name} ({group.vo.name})") for group in groups]
        field = self.fields["group"]
        if isinstance(field, forms.ChoiceField):
            field.choices = [*default, *choices]

    def body(self) -> dict[str, object]:
        """Return the body of the request."""
        values = self.cleaned_data
        return {"request_id": str(values["request_id"]), **({"group": values["group"]} if values["group"] else {})}

    def refuse(self, error: WmsError) -> None:
        """Show the errors of the service, each beside its field; nothing was submitted."""
        if isinstance(error, RequestIdConflictError):
            sentence = "This form was sent before with other values, and its jobs exist. Submit again if"
            self.add_error(None, f"{sentence} you want these jobs as well.")
        else:
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
        shown = {name for name, field in self.fields.items() if not field.widget.is_hidden}
        for path, sentences in errors.items():
            field = self.renamed.get(path.partition(".")[0], path.partition(".")[0])
            for sentence in sentences:
                self.add_error(field if field in shown else None, sentence)


class SimpleForm(SubmissionForm):
    """The fields that most jobs need."""

    renamed = MappingProxyType({"input_sandbox": "input_files", "file": "input_files", "parameters": "values"})
    #: Fields with the same name in a description.
    PLAIN: ClassVar[Sequence[str]] = (
        "executable",
        "arguments",
        "job_name",
        "cpu_time_s",
        *AMOUNT,
        "container",
        "priority",
        "sites",
        "banned_sites",
        "output_sandbox",
        "input_data",
        "output_data",
    )
    field_order = (
        *("executable", "arguments", "input_files", "output_sandbox", "input_data", "output_data", "values"),
        *("job_name", "cpu_time_s", *AMOUNT, "container"),
        *("priority", "sites", "banned_sites", "group"),
    )

    executable = forms.CharField(
        max_length=1024, help_text="Program on the worker node, or one of the input files, such as ./run.sh."
    )
    arguments = forms.CharField(required=False, help_text="Arguments as the shell reads them.")
    input_files = Files(
        required=False,
        allow_empty_file=True,
        label="Input files",
        help_text="Files for the job's directory; archives are unpacked there.",
    )
    kept = forms.Field(required=False, widget=forms.MultipleHiddenInput)
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
    cpu_time_s = forms.IntegerField(
        min_value=1,
        max_value=MAX_CPU_TIME_S,
        initial=86400,
        label="CPU time in seconds",
        help_text="CPU time in reference-core seconds per core.",
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
    sites = Names(help_text="Sites where the job may run; empty: any.")
    banned_sites = Names(label="Banned sites", help_text="Sites where the job must not run.")
    values = Lines(
        required=False,
        label="Parametric values",
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Values, one per line; each makes a job, whose %s in arguments and names is replaced by the value.",
    )

    def __init__(
        self, data: QueryDict | None = None, files: MultiValueDict[str, Any] | None = None, *, groups: Sequence[Group]
    ) -> None:
        super().__init__(data, files, groups=groups)
        self.fields |= {amount.name: AmountField(amount) for amount in AMOUNTS}
        self.order_fields(self.field_order)

    @property
    def kept_files(self) -> list[KeptFile]:
        """The files uploaded when the form was sent before, which need not be chosen again."""
        texts = self.data.getlist("kept") if isinstance(self.data, QueryDict) else []
        return [KeptFile(*text.split(" ", 1)) for text in texts if " " in text][:MAX_FILES]

    def keep(self, files: Sequence[KeptFile]) -> None:
        """Keep uploads for the next submission of the form."""
        self.change_data("kept", [" ".join(file) for file in files])

    def body(self) -> dict[str, object]:
        """Return the body of the request; its input files are the kept ones."""
        values = self.cleaned_data
        body = {**super().body(), **{name: values[name] for name in self.PLAIN}}
        if self.kept_files:
            body["input_sandbox"] = [file.reference for file in self.kept_files]
        if values["values"]:
            body["parameters"] = {"values": values["values"]}
        return body


EXAMPLE: Final = """[
  Executable = "/bin/echo";
  Arguments = "Hello from %n";
  JobName = "hello";
  CPUTime = 500;
  Parameters = 3;
]"""


class JdlForm(SubmissionForm):
    """A text in one of DIRAC's two languages."""

    renamed = MappingProxyType({"cfg": "jdl"})

    jdl = forms.CharField(
        label="Description",
        strip=False,
        initial=EXAMPLE,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "class": "code"}),
        help_text="Job description with DIRAC's attribute names; with Parameters, many jobs from one description.",
    )
    syntax = forms.ChoiceField(
        required=False,
        choices=[("jdl", "JDL: [ Name = value; … ]"), ("cfg", "CFG: one Name = value in each line")],
    )
    field_order = ("jdl", "syntax", "group")

    def body(self) -> dict[str, object]:
        """Return the body."""
        return {**super().body(), self.cleaned_data["syntax"] or "jdl": self.cleaned_data["jdl"]}
