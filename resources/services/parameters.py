"""Parameters of sites, computing elements and queues, as people and programs set them: for all VOs, and by VO."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.text import capfirst

from resources.domain.definitions import by_folded_name, misfit_values
from resources.domain.parameters import unserved_vos
from resources.models import ComputingElement, Queue, Site
from resources.queries.known_names import definitions
from resources.queries.places import site_of
from resources.services.states import full_name
from resources.validators import valid_parameters, valid_vo_parameters
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import VO, User
from wms.accounts.security_log import record
from wms.kernel.db import transaction_required
from wms.kernel.errors import RejectedError
from wms.kernel.names import composed_all, values_in_words

#: The two columns of a level.
FIELDS = ("parameters", "vo_parameters")
_VALID = {"parameters": valid_parameters, "vo_parameters": valid_vo_parameters}


class ParametersError(RejectedError):
    """A name or a value is not allowed, not comparable with requirements, or of a VO that the site does not serve."""

    code = "bad_parameters"


def mistakes_in(
    parameters: Mapping[str, Any], vo_parameters: Mapping[str, Any], *, before: Collection[str], served: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield (field, sentence) for what is wrong with the parameters of a level whose names and values are valid.

    Args:
        parameters: for all VOs.
        vo_parameters: by VO.
        before: VOs of the stored ones, which stay.
        served: names of the VOs that the site serves; empty: all.
    """
    known = served or [*VO.objects.values_list("name", flat=True)]
    for sentence in unserved_vos(vo_parameters, before=before, served=known):
        yield "vo_parameters", capfirst(sentence)
    for misfit in misfit_values(parameters, vo_parameters, serves=served, definitions=by_folded_name(definitions())):
        path = misfit.name if misfit.vo is None else f"{misfit.vo}: {misfit.name}"
        yield "parameters" if misfit.vo is None else "vo_parameters", f"{path} {misfit.problem}."


@transaction_required
def set_parameters(
    level: Site | ComputingElement | Queue,
    *,
    parameters: Mapping[str, Any],
    vo_parameters: Mapping[str, Any],
    reason: str,
    by: User,
) -> bool:
    """Set all parameters of a level, which is updated too; return whether they have changed.

    Callers let the submit pools of the VOs that the site serves be refreshed (``taskqueues.services.submit_pools``).

    Args:
        level: site, computing element or queue.
        parameters: for all VOs.
        vo_parameters: by VO.
        reason: for the history; may be empty.
        by: the acting user.

    Raises:
        ParametersError: something is wrong with them.
    """
    stored = type(level).objects.select_for_update(of=("self",), no_key=True).get(pk=level.pk)
    level.parameters, level.vo_parameters = composed_all(parameters), composed_all(vo_parameters)
    _require_possible(level, before=stored.vo_parameters)
    changes: dict[str, Any] = {
        name: values_in_words(before, after)
        for name in FIELDS
        if (before := getattr(stored, name)) != (after := getattr(level, name))
    }
    if not changes:
        return False
    level.save(update_fields=FIELDS)
    kind = SecurityEventKind.CONFIGURATION_CHANGED
    if isinstance(level, ComputingElement):
        kind = SecurityEventKind.COMPUTING_ELEMENT_CHANGED
    changes |= {"reason": reason} if reason else {}
    record(kind, actor=by, target=full_name(level), row=level, what="changed", changes=changes)
    return True


def _require_possible(level: Site | ComputingElement | Queue, *, before: Collection[str]) -> None:
    errors: dict[str, list[str]] = {}
    for name, validate in _VALID.items():
        try:
            validate(getattr(level, name))
        except ValidationError as error:
            errors[name] = list(error.messages)
    if not errors:
        served = [vo.name for vo in site_of(level).vos.all()]
        found = mistakes_in(level.parameters, level.vo_parameters, before=before, served=served)
        for field, sentence in found:
            errors.setdefault(field, []).append(sentence)
    if errors:
        detail = " ".join(sentence for sentences in errors.values() for sentence in sentences)
        raise ParametersError(detail, errors=errors)
