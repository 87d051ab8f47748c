"""Forms of resources and definitions; they check that values are comparable by their definitions (ADR 31)."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from resources.domain.definitions import Definition
from resources.domain.enums import RequirementKind
from resources.models import ComputingElement, Queue, RequirementDefinition, Site
from resources.queries.known_names import misfits_of
from resources.services.ce_rules import refusal, refusal_over_http
from resources.services.parameters import mistakes_in
from resources.services.setups import flaw_of_setup, vos_of
from wms.accounts.models import VO
from wms.kernel.admin.forms import GenericModelForm
from wms.kernel.names import composed_all, listed

LevelT = TypeVar("LevelT", bound=Site | ComputingElement | Queue)
_BOTH: Final = ("parameters", "vo_parameters")


class LevelForm(GenericModelForm[LevelT]):
    """Form of a site, a computing element or a queue; its parameters must fit their definitions."""

    def clean(self) -> None:
        """Refuse values that are not comparable with requirements."""
        super().clean()
        cleaned = self.cleaned_data
        self._check_setup()
        fields = [name for name in _BOTH if name in self.fields]
        for name in fields:
            if name in cleaned:
                cleaned[name] = composed_all(cleaned[name])
        parameters, vo_parameters = (cleaned.get(name, getattr(self.instance, name)) for name in _BOTH)
        # Values that are only displayed cannot be corrected on this page.
        if not (fields and isinstance(parameters, Mapping) and isinstance(vo_parameters, Mapping)):
            return
        stored = self.initial.get("vo_parameters")
        before = [*stored] if isinstance(stored, Mapping) else []
        served = [vo.name for vo in self._served()]
        for field, sentence in list(mistakes_in(parameters, vo_parameters, before=before, served=served)):
            self.add_error(field if field in fields else None, sentence)

    def _check_setup(self) -> None:
        """Refuse a setup that no VO of the site has."""
        site = self._site() if self.cleaned_data.get("setup") else None
        if site is not None:
            flaw = flaw_of_setup(self.cleaned_data["setup"], {vo.name: vo.setups for vo in vos_of(site)})
            if flaw:
                self.add_error("setup", flaw)

    def _served(self) -> Iterable[VO]:
        if "vos" in self.cleaned_data:
            chosen: Iterable[VO] = self.cleaned_data["vos"]
            return chosen
        site = self._site()
        return site.vos.all() if site is not None and site.pk else ()

    def _site(self) -> Site | None:
        cleaned = self.cleaned_data
        row: Site | ComputingElement | Queue = self.instance
        if isinstance(row, Site):
            return row
        if isinstance(row, Queue):
            ce: ComputingElement | None = cleaned.get("ce") or (row.ce if row.ce_id else None)
            return None if ce is None else ce.site
        site: Site | None = cleaned.get("site") or (row.site if row.site_id else None)
        return site


class CEForm(LevelForm[ComputingElement]):
    """Form of a computing element; one that the server refuses to use is not accepted."""

    def clean(self) -> None:
        """Refuse options by which pilots or payloads could access the server's own files."""
        super().clean()
        cleaned = self.cleaned_data
        if not {"type", "options", "identity"} <= cleaned.keys():
            return  # displayed only, or invalid already
        type_, options, identity = cleaned["type"], cleaned["options"], cleaned["identity"]
        stored = self.instance if self.instance.pk else None
        refused = refusal(type_, options, identity) or refusal_over_http(
            stored, type_=type_, options=options, identity=identity
        )
        if refused is not None:
            self.add_error(*refused)


class DefinitionForm(GenericModelForm[RequirementDefinition]):
    """Form of a definition; the values of resources must fit it."""

    def clean(self) -> None:
        """Refuse a definition that existing values of resources do not fit; name their places."""
        super().clean()
        cleaned = self.cleaned_data
        name, kind = cleaned.get("name") or self.instance.name, cleaned.get("kind") or self.instance.kind
        if not name or not kind:
            return
        vos = cleaned["vos"] if "vos" in cleaned else self.instance.vos.all() if self.instance.pk else ()
        definition = Definition(
            name=name,
            kind=RequirementKind(kind),
            unit=cleaned.get("unit") or "",
            vos=frozenset(vo.name for vo in vos),
        )
        places = [place for place, _ in misfits_of(definition)]
        if places:
            self.add_error(
                "kind" if "kind" in self.fields else None,
                f"{name} cannot be a {kind} yet: its value is not a number of 0 or more at {listed(places)}. "
                "Correct the parameters there first.",
            )
