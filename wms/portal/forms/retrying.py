"""The form that retries failed jobs with changes."""

from collections.abc import Mapping
from typing import Final

from django import forms

from wms.jobs.domain.description import MAX_CPU_TIME_S
from wms.portal.forms.fields import Files, Names, amount_field
from wms.portal.forms.quantities import DURATION, QuantityField
from wms.wire.amounts import AMOUNT

#: Amounts that a job may have had too little of.
_AMOUNTS: Final = ("memory_mb", "disk_mb", "wall_time_s", "processors")


class RetryForm(forms.Form):
    """What is different in the new jobs; what is left empty stays as it was in each job."""

    cpu_time_s = QuantityField(
        DURATION,
        least=1,
        most=MAX_CPU_TIME_S,
        required=False,
        label="CPU time in hours",
        help_text=f"Per core, of a reference core. Or with its unit: {DURATION.example}.",
    )
    sites = Names(help_text="Only there, in the place of the sites that were named.")
    banned_sites = Names(help_text="Not there, in the place of the sites that were banned.")
    arguments = forms.CharField(required=False, help_text="The same for all of them.")
    input_files = Files(
        required=False,
        allow_empty_file=True,
        label="Corrected files",
        help_text="Each in the place of the file of its name in the input of each job, or beside the others.",
    )
    request_id = forms.UUIDField(widget=forms.HiddenInput)

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]  # as of any form
        fields = {name: amount_field(AMOUNT[name]) for name in _AMOUNTS}
        for field in fields.values():
            field.initial, field.help_text = None, ""
        self.fields = {**fields, **self.fields}

    def changes(self) -> Mapping[str, object]:
        """Return the changed fields of descriptions: those in which something was written."""
        written = [name for name in self.fields if self.data.get(name, "").strip() and name not in _NO_FIELDS]
        return {name: self.cleaned_data[name] for name in written}


_NO_FIELDS: Final = frozenset({"input_files", "request_id"})
