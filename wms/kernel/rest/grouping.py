"""The query parameter that groups counts."""

from collections.abc import Sequence

from rest_framework import serializers

from wms.kernel.names import did_you_mean

_MAX_LENGTH = 255
_SHOWN = 64


class GroupBy(serializers.CharField):
    """A comma-separated list of the attributes by which rows are counted.

    Args:
        names: the available attributes.
        counted: plural of the rows, as a sentence begins with it: "Jobs".
        default_name: attribute used without the parameter, for the documentation.
    """

    def __init__(self, names: Sequence[str], *, counted: str, default_name: str) -> None:
        self._names, self._counted = names, counted
        help_text = f"Properties to count by, with commas: {', '.join(names)}; default {default_name}."
        super().__init__(required=False, max_length=_MAX_LENGTH, help_text=help_text)

    def to_internal_value(self, data: object) -> tuple[str, ...]:  # type: ignore[override]  # not one text
        """Return the names without duplicates, in their order."""
        names = [name.strip() for name in str(data).split(",")]
        for name in names:
            if name not in self._names:
                shown = name[:_SHOWN]
                hint = did_you_mean(shown, self._names) or f" Count by any of {', '.join(self._names)}."
                raise serializers.ValidationError(f'{self._counted} cannot be counted by "{shown}".{hint}')
        return tuple(dict.fromkeys(names))
