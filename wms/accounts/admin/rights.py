"""Who asks on a page of the admin, and which VOs that person manages."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

from django import forms
from django.db.models import Exists, Field, Model, OuterRef, Q, QuerySet
from django.http import HttpRequest

from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import Membership, User
from wms.accounts.security_log import record
from wms.kernel.admin import ReadOnlyAdmin, Recorded, RowLevelAdmin, RowLevelInline, RowRights

M = TypeVar("M", bound=Model)

#: A page asks dozens of times.
_managed_vos: "WeakKeyDictionary[HttpRequest, frozenset[int]]" = WeakKeyDictionary()


class VORights(RowRights):
    """Rights of operators, and of managers of VOs, who have to be staff as well to come here.

    What they do is written to the security log.
    """

    #: Which kind of security event it is if a row is changed …
    kind: ClassVar[SecurityEventKind] = SecurityEventKind.CONFIGURATION_CHANGED
    #: … added or deleted, where that is another one …
    kinds_of_rows: ClassVar[Mapping[Recorded, SecurityEventKind]] = MappingProxyType({})
    #: … or one of these fields is changed. Rows of a table on the page are a field of the table's name.
    kinds_of_fields: ClassVar[Mapping[str, SecurityEventKind]] = MappingProxyType({})

    def sees_all(self, request: HttpRequest) -> bool:
        """Return whether an operator asks."""
        user = request.user
        return isinstance(user, User) and user.is_active and user.is_staff and user.is_operator

    def managed_vos(self, request: HttpRequest) -> frozenset[int]:
        """Return the VOs that the user manages; asked once for each request."""
        user = request.user
        if not (isinstance(user, User) and user.is_active and user.is_staff):
            return frozenset()
        if request not in _managed_vos:
            _managed_vos[request] = frozenset(user.managed_vos.values_list("pk", flat=True))
        return _managed_vos[request]

    def full_name(self, row: Model) -> str:
        """Return what the security log calls the row, such as "user bob"."""
        return f"{row._meta.verbose_name} {row}"  # noqa: SLF001 - Django's API

    def short_name(self, row: Model) -> str:
        """Return what the security log calls a row of a table on the page."""
        return f"{row.user} in {row.group}" if isinstance(row, Membership) else str(row)

    def record(self, request: HttpRequest, row: Model, what: Recorded, changes: Mapping[str, object]) -> None:
        """Write what the user did to the security log: one event for each kind, with the changes of that kind."""
        target = self.full_name(row)
        if what != "changed":
            record(self.kinds_of_rows.get(what, self.kind), request=request, target=target, what=what, changes=changes)
            return
        kinds = {field: self.kind_of(field, value) for field, value in changes.items()}
        for kind in dict.fromkeys(kinds.values()):
            of_kind = {field: value for field, value in changes.items() if kinds[field] is kind}
            record(kind, request=request, target=target, what=what, changes=of_kind)

    def kind_of(self, field: str, value: object) -> SecurityEventKind:  # noqa: ARG002 - for subclasses
        """Return which kind of event the change of a field is."""
        return self.kinds_of_fields.get(field, self.kind)


class VOLevelAdmin(VORights, RowLevelAdmin[M]):
    """Base of the pages of what can be configured."""


class VOLevelLedger(VORights, ReadOnlyAdmin[M]):
    """Base of the pages of what the system writes."""


class VOLevelInline(VORights, RowLevelInline[M]):
    """Base of the tables within pages."""


class UserByNameField(forms.ModelChoiceField):  # type: ignore[type-arg]  # at run time it takes no parameter
    """A user, named exactly: nobody looks through the users here."""

    def __init__(self, users: QuerySet[User], *, invalid: str) -> None:
        super().__init__(
            users,
            to_field_name="username",
            widget=forms.TextInput(attrs={"autocomplete": "off", "size": 30}),
            label="User name",
            error_messages={"invalid_choice": invalid},
        )


class ServingVOsAdmin(VOLevelAdmin[M]):
    """Base of the pages of what serves some VOs, or all when none is chosen, by a relation ``vos``.

    A manager sees what serves a VO of theirs, and changes what serves no VO but theirs. Which VOs a row serves, a
    manager chooses when adding it; later only an operator changes that.
    """

    choose_managed = frozenset({"vos"})

    def seen(self, vos: frozenset[int]) -> Q:
        """Return what serves one of *vos*, or all."""
        served = self._served()
        return Q(Exists(served.filter(vo__in=vos)) | ~Exists(served))

    def managed(self, vos: frozenset[int]) -> Q:
        """Return what serves some of *vos* and no other."""
        served = self._served()
        return Q(Exists(served.filter(vo__in=vos)) & ~Exists(served.exclude(vo__in=vos)))

    def get_readonly_fields(self, request: HttpRequest, obj: M | None = None) -> list[str]:
        """Return the fields that are shown only; among them the VOs once a manager has chosen them."""
        names = super().get_readonly_fields(request, obj)
        return names if obj is None or self.sees_all(request) else [*names, "vos"]

    def formfield_for_manytomany(self, db_field: "Field[Any, Any]", request: HttpRequest, **kwargs: Any) -> Any:  # noqa: ANN401 - Django's own
        """Require a manager to choose: none chosen would mean every VO."""
        field = super().formfield_for_manytomany(db_field, request, **kwargs)
        if field is not None and db_field.name == "vos" and not self.sees_all(request):
            field.required = True
            field.help_text = "Of those that you manage."
        return field

    def _served(self) -> Any:  # noqa: ANN401 - rows of a table without a class of ours
        column = self.model._meta.get_field("vos")  # noqa: SLF001 - Django's API
        through = column.remote_field.through  # type: ignore[union-attr]  # it is many-to-many
        return through.objects.filter(**{column.m2m_field_name(): OuterRef("pk")})  # type: ignore[union-attr]
