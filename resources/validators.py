"""Validators of the JSON columns of resources, for forms; the configuration file has checks that name lines."""

from collections.abc import Mapping

from django.core.exceptions import ValidationError

from resources.domain.parameters import problems_of


def valid_parameters(parameters: object) -> None:
    """Refuse anything but {name: scalar or list of scalars}."""
    problems = problems_of(parameters)
    if problems:
        raise ValidationError([f"{name}: {problem}." if name else f"{problem}." for name, problem in problems.items()])


def valid_vo_parameters(by_vo: object) -> None:
    """Refuse anything but {VO: {name: scalar or list of scalars}}."""
    if not isinstance(by_vo, Mapping):
        raise ValidationError("Use names of VOs, each with its parameters.")
    problems = {
        (vo, name): problem for vo, parameters in by_vo.items() for name, problem in problems_of(parameters).items()
    }
    if problems:
        raise ValidationError([f"{vo}: {name}: {problem}." for (vo, name), problem in problems.items()])
