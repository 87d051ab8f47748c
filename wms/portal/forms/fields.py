"""Fields of the forms that submit jobs: names, lines, files, amounts and JSON."""

from json import JSONDecodeError
from typing import Final

from django import forms
from django.core.files.uploadedfile import UploadedFile

from wms.kernel.names import composed, is_one_line
from wms.kernel.rest.strict_json import InvalidJSONError, load_json
from wms.portal.forms.quantities import DURATION, SIZE, QuantityField
from wms.wire.amounts import Amount

MAX_FILES: Final = 20


class Names(forms.CharField):
    """Names, separated by commas or line breaks."""

    def __init__(self, *, label: str | None = None, help_text: str, choices: str = "") -> None:
        super().__init__(required=False, label=label, help_text=help_text)
        if choices:
            # Offered by the browser; submit.js offers them for each further name, too.
            self.widget.attrs |= {"list": f"choices-{choices}", "autocomplete": "off", "data-names": ""}

    def prepare_value(self, value: object) -> object:
        """Return the text of the input."""
        return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value

    def clean(self, value: object) -> list[str]:
        """Return the names in their order."""
        return [name for part in str(super().clean(value)).replace(",", "\n").splitlines() if (name := part.strip())]


class ReasonField(forms.CharField):
    """A reason that people are shown: one line."""

    def clean(self, value: object) -> str:
        """Return the reason in NFC."""
        reason = composed(str(super().clean(value)))
        if not is_one_line(reason):
            raise forms.ValidationError("Write one line, without control characters.")
        return reason


class CountField(forms.IntegerField):
    """A required amount of things; left out: the least."""

    def __init__(self, amount: Amount) -> None:
        super().__init__(
            required=False,
            min_value=amount.least,
            max_value=amount.most,
            initial=amount.least,
            label=amount.label,
            help_text=amount.help_of_job,
        )
        self._least = amount.least

    def clean(self, value: object) -> int:
        """Return the number."""
        number: int | None = super().clean(value)
        return self._least if number is None else number


def amount_field(amount: Amount) -> forms.Field:
    """Return the field of an amount: a number of things, or a quantity with its unit."""
    if not amount.unit:
        return CountField(amount)
    quantity, unit = (DURATION, "hours") if amount.unit == "s" else (SIZE, "GB")
    return QuantityField(
        quantity,
        least=amount.least,
        most=amount.most,
        required=False,
        label=f"{amount.label} in {unit}",
        help_text=f"{amount.help_of_job.replace('; 0:', '; empty:')} Or with its unit: {quantity.example}.",
    )


class Lines(forms.CharField):
    """One value per line."""

    def prepare_value(self, value: object) -> object:
        """Return the text of the input."""
        return "\n".join(map(str, value)) if isinstance(value, list | tuple) else value

    def clean(self, value: object) -> list[str]:
        """Return the values without surrounding blanks and without empty lines."""
        return [line.strip() for line in str(super().clean(value)).splitlines() if line.strip()]


class FilesInput(forms.ClearableFileInput):
    """Several files at once."""

    allow_multiple_selected = True


class Files(forms.FileField):
    """Several files at once."""

    widget = FilesInput

    def clean(self, data: object, initial: object = None) -> "list[UploadedFile[bytes]]":
        """Return the files."""
        files = data if isinstance(data, list | tuple) else [data] if data else []
        if len(files) > MAX_FILES:
            raise forms.ValidationError(f"Choose at most {MAX_FILES} files; pack more of them into an archive.")
        cleaned = [super(Files, self).clean(file, initial) for file in files]
        return [file for file in cleaned if isinstance(file, UploadedFile)]


class JsonObjectField(forms.CharField):
    """A JSON object; left empty: one without fields."""

    def clean(self, value: object) -> dict[str, object]:
        """Return the object."""
        text = str(super().clean(value))
        if not text.strip():
            return {}
        try:
            return json_object(text)
        except JsonTextError as error:
            raise forms.ValidationError(str(error)) from error


class JsonTextError(ValueError):
    """The text is not a JSON object."""


def json_object(text: str) -> dict[str, object]:
    """Return the object of a JSON text.

    Raises:
        JsonTextError: with line and column where they are known.
    """
    try:
        content = load_json(text.encode(errors="replace"))
    except InvalidJSONError as error:
        place = error.__cause__
        if isinstance(place, JSONDecodeError):
            raise JsonTextError(f"Line {place.lineno}, column {place.colno}: {place.msg}.") from error
        raise JsonTextError(error.detail.replace("The body", "The text")) from error
    if not isinstance(content, dict):
        raise JsonTextError('Line 1, column 1: write an object: {"executable": "…"}')
    return content
