"""Validation by msgspec of very frequent bodies: valid ones take a twentieth of the time of the fields."""

from contextlib import suppress
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType
from rest_framework import serializers
from rest_framework.fields import empty

from wms.kernel.rest.fields import Flag, Name, Number, Text, WholeNumber
from wms.kernel.rest.serializers import StrictSerializer

#: Types of the values of fields without options.
_SIMPLE: Final = MappingProxyType({Flag: bool, serializers.UUIDField: UUID})
#: Exact classes: subclasses may accept less.
_PLAIN: Final = frozenset({Name, Text, WholeNumber, Number, serializers.ChoiceField, serializers.ListField, *_SIMPLE})
_ASCII: Final = r"^[\x00-\x7f]*\Z"


class FastSerializer(StrictSerializer):
    """A strict serializer of plain fields and of others of its kind, which has no ``validate`` methods.

    Its fields define a type that msgspec checks. Input that msgspec accepts is valid, with the same values; the rest
    goes to the fields, which report the errors or accept it after all (3.0 is a whole number).

    NB: input must come from load_json: only the fields reject text that PostgreSQL cannot store.
    """

    _accepted: ClassVar[type[msgspec.Struct]]

    def __init_subclass__(cls, **options: object) -> None:
        """Make msgspec's type.

        Raises:
            TypeError: this serializer is not plain.
        """
        super().__init_subclass__(**options)
        names = [name for name in dir(cls) if name.startswith("validate")]
        if own := [name for name in names if getattr(cls, name) is not getattr(StrictSerializer, name, None)]:
            raise TypeError(f"{cls.__name__} is not plain: it has {', '.join(own)}")
        fields = [(name, *_type_and_default(field)) for name, field in cls().fields.items()]
        cls._accepted = msgspec.defstruct(cls.__name__, fields, forbid_unknown_fields=True, kw_only=True)
        # NB: not left to the first request: msgspec prepares a type at its first use, and two threads that do so
        # at once end the process by a segmentation fault.
        with suppress(msgspec.ValidationError):
            msgspec.convert({}, cls._accepted)

    def run_validation(self, data: object = empty) -> object:
        """Return the validated values of *data*, or raise with everything that is wrong."""
        values = self.plainly(data)
        return super().run_validation(data) if values is None else values

    @classmethod
    def plainly(cls, data: object) -> dict[str, Any] | None:
        """Return the validated values of *data*; None: the fields must decide."""
        try:
            accepted = msgspec.convert(data, cls._accepted)
        except msgspec.ValidationError:
            return None
        # Leaves out the fields that are UNSET.
        values: dict[str, Any] = msgspec.to_builtins(accepted, builtin_types=(UUID,))
        return values


def _type_and_default(field: serializers.Field[Any, Any, Any, Any]) -> tuple[Any] | tuple[Any, Any]:
    accepted = _type_of(field)
    if field.allow_null:
        accepted = accepted | None
    if field.required:
        return (accepted,)
    if field.default is not empty:
        return accepted, field.default
    return accepted | UnsetType, UNSET


def _type_of(field: serializers.Field[Any, Any, Any, Any]) -> Any:  # noqa: ANN401 - types have no common type
    """Return the type of the values that the field accepts unchanged.

    Raises:
        TypeError: no type is defined for this kind of field.
    """
    if isinstance(field, FastSerializer):
        return field._accepted  # noqa: SLF001 - of this class
    if type(field) not in _PLAIN:
        raise TypeError(f"{field.field_name} is not a plain field but {type(field).__name__}")
    accepted: Any = _SIMPLE.get(type(field))
    match field:
        case Text():
            # A name that is not ASCII may have to be normalised, which is left to its field.
            pattern = _ASCII if isinstance(field, Name) else None
            least = 0 if field.allow_blank else 1
            accepted = Annotated[str, Meta(min_length=least, max_length=field.max_length, pattern=pattern)]
        case WholeNumber():
            accepted = Annotated[int, Meta(ge=field.min_value, le=field.max_value)]
        case Number():
            accepted = Annotated[float, Meta(ge=field.min_value, le=field.max_value)]
        case serializers.ChoiceField():
            accepted = Literal[tuple(field.choices)]
        case serializers.ListField():
            accepted = Annotated[list[_type_of(field.child)], Meta(max_length=field.max_length)]  # type: ignore[misc]  # made at run time
    return accepted
