"""Forms of the page of the configuration file: a file to compare, and a compared one to apply."""

import binascii
from base64 import b64decode

from django import forms

from wms.configuration.document import MAX_BYTES


class ConfigurationFileForm(forms.Form):
    """A file to compare."""

    file = forms.FileField(label="File", help_text="YAML, at most 4 MB.", allow_empty_file=True)

    def source(self) -> bytes:
        """Return the content, of a file that is too long only a part that is too long as well."""
        content: bytes = self.cleaned_data["file"].read(MAX_BYTES + 1)
        return content


class ComparedFileForm(forms.Form):
    """A file that was compared, and what is meant by it."""

    #: In Base64: browsers change the ends of lines in other fields.
    source = forms.CharField(widget=forms.HiddenInput, strip=False, required=False)
    version = forms.CharField(widget=forms.HiddenInput, max_length=64)
    delete = forms.BooleanField(required=False)

    def clean_source(self) -> bytes:
        """Return the file."""
        try:
            return b64decode(self.cleaned_data["source"], validate=True)
        except (ValueError, binascii.Error) as error:
            raise forms.ValidationError("Choose the file again.") from error
