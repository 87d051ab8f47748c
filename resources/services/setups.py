"""Setups that are chosen for pilots: by a token, a queue, a computing element or a director (ADR 83)."""

from collections.abc import Collection, Mapping

from resources.models import Site
from wms.accounts.models import VO
from wms.kernel.errors import RejectedError
from wms.kernel.names import did_you_mean, listed


class UnknownSetupError(RejectedError):
    """No VO whose pilots are meant has this setup."""

    code = "unknown_setup"


def flaw_of_setup(setup: str, setups_of: Mapping[str, Collection[str]]) -> str:
    """Return in one sentence why pilots of no VO could have the setup; empty: some could, or none is chosen.

    Args:
        setup: the name; empty: none.
        setups_of: {VO: its setups} of the VOs whose pilots are meant.
    """
    known = sorted({name for setups in setups_of.values() for name in setups})
    if not setup or setup in known:
        return ""
    vos = sorted(setups_of)
    whose = f"{vos[0]} has no" if len(vos) == 1 else f"None of the VOs {listed(vos)} has a" if vos else "No VO has a"
    return f'{whose} setup "{setup[:64]}".{did_you_mean(setup, known)}'


def refuse_unknown_setup(setup: str, *, vos: Collection[VO]) -> None:
    """Refuse a setup that none of the VOs has; empty: none is chosen.

    Raises:
        UnknownSetupError: with the error of the field ``setup``.
    """
    if sentence := flaw_of_setup(setup, {vo.name: vo.setups for vo in vos}):
        raise UnknownSetupError(sentence, errors={"setup": [sentence]})


def vos_of(site: Site) -> Collection[VO]:
    """Return the VOs that the site serves."""
    return list(site.vos.all()) or list(VO.objects.all())
