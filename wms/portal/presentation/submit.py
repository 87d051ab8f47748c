"""The page that submits jobs: its parts, and what it says of a description before it is submitted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.forms import BoundField

from matching.queries.fit_of_description import CLOSED, MIDDLEWARE, Exclusion, Fit
from matching.services.rehearsal import Rehearsal
from resources.queries.choices import Choices
from wms.jobs.domain.description import DescriptionParts
from wms.jobs.domain.fields import shown
from wms.jobs.models import SavedDescription
from wms.kernel.amounts import AMOUNT, AMOUNTS
from wms.kernel.names import listed
from wms.portal.forms.submission import FormAction, SimpleForm, SubmissionForm

#: Shown of each kind; the submission says more.
_MOST_SENTENCES: Final = 10
#: Fields of the form that most jobs need.
ESSENTIALS: Final = ("executable", "arguments", "input_files", "job_name", "cpu_time_s", "memory_mb", "sites")
#: (heading, fields) of the parts that are folded.
FOLDS: Final = (
    ("Many jobs", ("count", "values")),
    ("Resources", (*(name for name in AMOUNT if name != "memory_mb"), "container")),
    ("Place and software", ("platforms", "tags", "software", "banned_sites")),
    ("Data and output", ("output_sandbox", "input_data", "output_data")),
    ("Group, priority and all else", ("group", "priority", "job_group", "others")),
)
_CONDITIONS: Final[Mapping[str, str]] = {
    **{amount.condition: amount.label for amount in AMOUNTS},
    "cpu_time": "CPU time",
    "site": "Site",
    "banned_site": "Banned sites",
    "ce": "Computing element",
    "submit_pool": "Requirements",
    "software": "Software",
    "tags": "Tags",
    "required_tags": "Tags required by queues",
    "job_type": "Job type",
    "platform": "Platform",
    "pilot_type": "Pilot type",
    "container": "Container",
    "setup": "Setup",
    "owner_group": "Group",
    MIDDLEWARE: "Grid middleware",
    CLOSED: "Bans",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One view of the description; its button converts the present content."""

    action: str
    label: str
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A folded part of the form; open if something in it was given or is wrong."""

    heading: str
    fields: Sequence[BoundField]
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusions:
    """One condition that excludes queues, as a sentence and its detail."""

    sentence: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Precheck:
    """The result of the check of a description before it is submitted."""

    #: success, warning or error: the kind of message.
    kind: str
    headline: str
    #: "300 jobs: first …, last …"; empty: one job.
    jobs: str = ""
    exclusions: Sequence[Exclusions] = ()
    warnings: Sequence[str] = ()
    errors: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitPage:
    """The page with one of its forms."""

    form: SubmissionForm
    tabs: Sequence[Tab]
    essentials: Sequence[BoundField]
    folds: Sequence[Fold]
    choices: Mapping[str, Sequence[str]]
    saved: Sequence[SavedDescription]
    check: Precheck | None


def page_of(
    form: SubmissionForm,
    *,
    current: FormAction,
    choices: Choices,
    saved: Sequence[SavedDescription],
    check: Precheck | None = None,
) -> SubmitPage:
    """Return the page.

    Args:
        form: the form of the tab.
        current: the action that shows the tab.
        choices: names to offer.
        saved: descriptions of the user, by name.
        check: what is said of the description; None: nothing yet.
    """
    labels = {FormAction.SHOW_FORM: "Form", FormAction.SHOW_JDL: "JDL", FormAction.SHOW_JSON: "JSON"}
    is_simple = isinstance(form, SimpleForm)
    return SubmitPage(
        form=form,
        tabs=[Tab(action=action, label=label, is_current=action is current) for action, label in labels.items()],
        essentials=[form[name] for name in (ESSENTIALS if is_simple else _fields_of_text(form))],
        folds=[_fold(form, heading, names) for heading, names in FOLDS] if is_simple else [],
        choices={
            "sites": choices.sites,
            "platforms": choices.platforms,
            "tags": choices.tags,
            "software": choices.software,
        }
        if is_simple
        else {},
        saved=saved,
        check=check,
    )


def _fields_of_text(form: SubmissionForm) -> Iterator[str]:
    for name in ("jdl", "json", "syntax", "input_files", "group"):
        if name in form.fields:
            yield name


def _fold(form: SubmissionForm, heading: str, names: Sequence[str]) -> Fold:
    fields = [form[name] for name in names]
    given = [field.name for field in fields if _is_given(field)]
    # Who is in one group has nothing to choose.
    is_open = bool(given) and not (form.has_one_group and given == ["group"])
    return Fold(heading=heading, fields=fields, is_open=is_open)


def _is_given(field: BoundField) -> bool:
    value, default = field.value(), field.field.initial
    return bool(field.errors) or str(value or "") not in {"", str(default or "")}


# ---- the check -------------------------------------------------------------------------------------------------------


def check_of(rehearsal: Rehearsal) -> Precheck:
    """Return what is said of a description whose form is right."""
    errors = [sentence for sentences in rehearsal.errors.values() for sentence in sentences][:_MOST_SENTENCES]
    fit = rehearsal.fit
    kind, headline = ("error", "It would be refused.") if errors else _headline(fit)
    if rehearsal.warnings and kind == "success":
        kind = "warning"
    return Precheck(
        kind=kind,
        headline=headline,
        jobs=_jobs(rehearsal),
        exclusions=[_exclusion(each, fit.queues) for each in fit.exclusions] if fit is not None else (),
        warnings=rehearsal.warnings[:_MOST_SENTENCES],
        errors=errors,
    )


def refused(errors: Sequence[str]) -> Precheck:
    """Return what is said of a description that cannot be read or has wrong fields."""
    return Precheck(kind="error", headline="It would be refused.", errors=errors[:_MOST_SENTENCES])


def _headline(fit: Fit | None) -> tuple[str, str]:
    """Return the kind of message and the sentence about the queues."""
    if fit is None:
        return "warning", "No site where it may run holds its input data; it is Checking until one does."
    queues = f"{fit.queues} queue{'' if fit.queues == 1 else 's'}"
    if not fit.queues:
        return "warning", "No queue is configured for your VO."
    if fit.never:
        return "warning", f"No pilot gets it, because {fit.never}."
    if fit.fitting:
        return "success", f"Fits {fit.fitting} of {queues}, at {listed(fit.sites)}."
    if fit.closed:
        return "warning", f"Fits {fit.closed} of {queues}, but none of these accepts jobs at present."
    return "warning", f"Fits none of {queues}: it would wait until the configuration changes."


def _exclusion(each: Exclusion, queues: int) -> Exclusions:
    label = _CONDITIONS.get(each.condition, each.condition.replace("_", " "))
    verb = "exclude" if label.endswith("s") and each.condition != "gpus" else "excludes"
    what = listed(each.sites) if each.sites else f"{each.queues} of {queues} queues"
    return Exclusions(sentence=f"{label} {verb} {what}", detail=f"It {each.detail}." if each.detail else "")


def _jobs(rehearsal: Rehearsal) -> str:
    if rehearsal.jobs == 1:
        return ""
    first, last = (_in_words(job) for job in (rehearsal.first, rehearsal.last))
    return f"{rehearsal.jobs:,} jobs: first {first}, last {last}."


def _in_words(job: DescriptionParts) -> str:
    """Return the arguments of a job, or its name if it has none."""
    text = job.arguments or job.job_name or job.common.executable
    # Of a parametric description: the id of the job is known only later.
    return shown(text.replace("%%", "%"))
