"""Forms of resources and definitions: what they say of parameters can be compared as the definitions say (ADR 31)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django import forms

from resources.domain.definitions import Definition, by_folded_name, misfit_values
from resources.domain.enums import RequirementKind
from resources.models import ComputingElement, Queue, Site
from resources.queries.known_names import definitions, misfits_of
from resources.services.ce_rules import refusal
from wms.accounts.models import VO
from wms.kernel.names import composed_all, listed

_BOTH: Final = ("parameters", "vo_parameters")


class LevelForm(forms.ModelForm):  # type: ignore[type-arg]  # at run time it takes no parameter
    """A site, a computing element or a queue, whose parameters fit their definitions."""

    def clean(self) -> dict[str, Any]:
        """Refuse values that jobs' requirements could never be compared with."""
        given = super().clean() or self.cleaned_data
        fields = [name for name in _BOTH if name in self.fields]
        for name in fields:
            if name in given:
                given[name] = composed_all(given[name])
        # What is shown only cannot be mended on this page.
        if not fields or not all(isinstance(self._value(name), Mapping) for name in _BOTH):
            return given
        found = misfit_values(
            self._value("parameters"),
            self._value("vo_parameters"),
            serves=[vo.name for vo in self._served()],
            definitions=by_folded_name(definitions()),
        )
        for misfit in found:
            field = "parameters" if misfit.vo is None else "vo_parameters"
            path = misfit.name if misfit.vo is None else f"{misfit.vo}: {misfit.name}"
            self.add_error(field if field in fields else None, f"{path} {misfit.problem}.")
        return given

    def _value(self, name: str) -> Any:  # noqa: ANN401 - JSON is anything
        return self.cleaned_data.get(name, getattr(self.instance, name))

    def _served(self) -> Iterable[VO]:
        if "vos" in self.cleaned_data:
            chosen: Iterable[VO] = self.cleaned_data["vos"]
            return chosen
        site = self._site()
        return site.vos.all() if site is not None and site.pk else ()

    def _site(self) -> Site | None:
        given, row = self.cleaned_data, self.instance
        if isinstance(row, Site):
            return row
        if isinstance(row, Queue):
            ce: ComputingElement | None = given.get("ce") or (row.ce if row.ce_id else None)
            return None if ce is None else ce.site
        site: Site | None = given.get("site") or (row.site if row.site_id else None)
        return site


class CEForm(LevelForm):
    """A computing element that this server would not refuse to serve."""

    def clean(self) -> dict[str, Any]:
        """Refuse what pilots or payloads could use to reach what is the server's own."""
        given = super().clean() or self.cleaned_data
        if not {"type", "options", "identity"} <= given.keys():
            return given  # shown only, or one of them is wrong already
        refused = refusal(given["type"], given["options"], given["identity"])
        if refused is not None:
            self.add_error(*refused)
        return given


class DefinitionForm(forms.ModelForm):  # type: ignore[type-arg]  # at run time it takes no parameter
    """A definition that the values of the resources fit."""

    def clean(self) -> dict[str, Any]:
        """Refuse a definition with which present values of resources could not be compared; name them."""
        given = super().clean() or self.cleaned_data
        name, kind = given.get("name") or self.instance.name, given.get("kind") or self.instance.kind
        if not name or not kind:
            return given
        vos = given["vos"] if "vos" in given else self.instance.vos.all() if self.instance.pk else ()
        definition = Definition(
            name=name,
            kind=RequirementKind(kind),
            unit=given.get("unit") or "",
            vos=frozenset(vo.name for vo in vos),
        )
        places = [place for place, _ in misfits_of(definition)]
        if places:
            self.add_error(
                "kind" if "kind" in self.fields else None,
                f"{name} cannot be a {kind} yet: it is no number of 0 or more at {listed(places)}. "
                "Correct the parameters there first.",
            )
        return given
