"""The page that submits jobs: its parts, and what it says of a description before it is submitted."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.forms import BoundField

from matching.domain.findings import CLOSED, MIDDLEWARE, Exclusion, Fit, FitOutcome
from matching.domain.sentences import fit_in_words, outcome_in_words
from matching.services.rehearsal import KindOfJobs, Rehearsal
from resources.queries.choices import Choices
from wms.jobs.domain.description import DescriptionParts
from wms.jobs.domain.fields import shown
from wms.jobs.models import SavedDescription
from wms.kernel.names import counted, listed
from wms.portal.forms.submission import FormAction, SimpleForm, SubmissionForm
from wms.wire.amounts import AMOUNT, AMOUNTS

#: Shown of each kind; the submission says more.
_MOST_SENTENCES: Final = 10
#: Kinds of jobs that are listed; those without a queue come first.
_MOST_KINDS: Final = 10
#: Runs of numbers in the list of a kind's jobs.
_MOST_RUNS: Final = 5
#: Fields of the form that most jobs need.
ESSENTIALS: Final = ("executable", "arguments", "input_files", "job_name", "cpu_time_s", "memory_mb", "sites")
#: (heading, fields) of the parts that are folded.
FOLDS: Final = (
    ("Many jobs", ("count", "values", "canary")),
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
class KindRow:
    """Jobs of the description with the same requirements, and the queues that they fit."""

    fits: bool
    sentence: str
    #: Numbers of the jobs, such as "12, 17 to 20 and 40 more".
    numbers: str
    exclusions: Sequence[Exclusions] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Precheck:
    """The result of the check of a description before it is submitted."""

    #: success, warning or error: the kind of message.
    kind: str
    headline: str
    #: "300 jobs: first …, last …"; empty: one job.
    jobs: str = ""
    #: Of a description whose jobs all have the same requirements.
    exclusions: Sequence[Exclusions] = ()
    #: Of one whose jobs have different requirements: those without a queue first.
    kinds: Sequence[KindRow] = ()
    #: Kinds of jobs that are not listed, and those that were not compared with the queues.
    left_out: Sequence[str] = ()
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
    for name in ("jdl", "json", "syntax", "input_files", "group", "canary"):
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
    kinds: Sequence[KindOfJobs] = rehearsal.kinds
    exclusions: Sequence[Exclusions] = ()
    failures = list(dict.fromkeys(each.finding.text for each in rehearsal.findings if each.finding.surely_fails))
    warnings = [sentence for sentence in rehearsal.warnings if sentence not in failures]
    if errors:
        kind, headline = "error", "It would be refused."
    elif len(kinds) + len(rehearsal.uncompared) > 1:
        kind, headline = _headline_of_kinds(rehearsal)
    else:
        fit = kinds[0].fit
        kind, headline = _headline(fit)
        kinds, exclusions = (), _exclusions(fit)
    if failures:
        kind, headline = "error", f"{_failing(rehearsal)} {headline}"
    elif warnings and kind == "success":
        kind = "warning"
    kinds = sorted(kinds, key=lambda each: (FitOutcome.of(each.fit).value, -len(each.positions)))
    return Precheck(
        kind=kind,
        headline=headline,
        jobs=_jobs(rehearsal),
        exclusions=exclusions,
        kinds=[_row(each) for each in kinds[:_MOST_KINDS]],
        left_out=_left_out(unlisted=kinds[_MOST_KINDS:], uncompared=rehearsal.uncompared),
        warnings=warnings[:_MOST_SENTENCES],
        errors=[*errors, *failures[:_MOST_SENTENCES]],
    )


def _failing(rehearsal: Rehearsal) -> str:
    """Return how many of the jobs surely fail."""
    if rehearsal.jobs == 1:
        return "It would fail when it starts."
    jobs = max(each.jobs for each in rehearsal.findings if each.finding.surely_fails)
    number = "All jobs" if jobs == rehearsal.jobs else f"At least {jobs:,} of the {rehearsal.jobs:,} jobs"
    return f"{number} would fail when they start."


def refused(errors: Sequence[str]) -> Precheck:
    """Return what is said of a description that cannot be read or has wrong fields."""
    return Precheck(kind="error", headline="It would be refused.", errors=errors[:_MOST_SENTENCES])


def _headline(fit: Fit | None) -> tuple[str, str]:
    """Return the kind of message and the sentence about the queues, for jobs with the same requirements."""
    if fit is None:
        return "warning", "No site where it may run holds its input data; it would be Checking until one does."
    if hopeless := _hopeless(fit):
        return "warning", hopeless
    outcome, words = FitOutcome.of(fit), fit_in_words(fit, jobs=1)
    kind = "success" if outcome is FitOutcome.FITS else "warning"
    end = ": it would wait until the configuration changes." if outcome is FitOutcome.NONE else "."
    return kind, f"{words[:1].upper()}{words[1:]}{end}"


def _hopeless(fit: Fit) -> str:
    """Return why no job of this owner and group gets a pilot, whatever it requires; empty: some may."""
    if not fit.queues:
        return "No queue is configured for your VO."
    return f"No pilot gets it, because {fit.never}." if fit.never else ""


def _headline_of_kinds(rehearsal: Rehearsal) -> tuple[str, str]:
    """Return the kind of message and the sentence about the queues, for jobs with different requirements."""
    fits = [kind.fit for kind in rehearsal.kinds if kind.fit is not None]
    if fits and (hopeless := _hopeless(fits[0])):
        return "warning", hopeless
    jobs = Counter[FitOutcome]()
    for kind in rehearsal.kinds:
        jobs[FitOutcome.of(kind.fit)] += len(kind.positions)
    compared = f"{jobs.total():,} jobs{' compared' if rehearsal.uncompared else ''}"
    if set(jobs) == {FitOutcome.FITS}:
        return "success", f"Each of the {compared} fits a queue."
    parts = [
        f"{jobs[outcome]:,} {outcome_in_words(outcome, jobs=jobs[outcome])}"
        for outcome in reversed(FitOutcome)
        if jobs[outcome]
    ]
    return "warning", f"Of the {compared}, {listed(parts, last=' and ')}."


def _row(kind: KindOfJobs) -> KindRow:
    fit, count = kind.fit, len(kind.positions)
    return KindRow(
        fits=FitOutcome.of(fit) is FitOutcome.FITS,
        sentence=f"{counted(count, 'job')} {fit_in_words(fit, jobs=count)}",
        numbers=_runs(kind.positions),
        exclusions=_exclusions(fit),
    )


def _runs(positions: Sequence[int]) -> str:
    """Return ascending numbers in words, such as "0 to 11, 14 and 40 more"."""
    runs: list[tuple[int, int]] = []
    for position in positions:
        if runs and runs[-1][1] == position - 1:
            runs[-1] = (runs[-1][0], position)
        else:
            runs.append((position, position))
    named = [str(first) if first == last else f"{first} to {last}" for first, last in runs[:_MOST_RUNS]]
    hidden = sum(last - first + 1 for first, last in runs[_MOST_RUNS:])
    return ", ".join(named) + (f" and {hidden:,} more" if hidden else "")


def _left_out(*, unlisted: Sequence[KindOfJobs], uncompared: Sequence[int]) -> list[str]:
    """Return the kinds of jobs about which nothing is listed, with their numbers of jobs."""
    sentences = []
    if unlisted:
        jobs = counted(sum(len(kind.positions) for kind in unlisted), "job")
        outcomes = {FitOutcome.of(kind.fit) for kind in unlisted}
        verb = ", all of which fit a queue" if outcomes == {FitOutcome.FITS} else ""
        sentences.append(f"{counted(len(unlisted), 'more kind')} of jobs, {jobs} in all{verb}, not listed.")
    if uncompared:
        kinds, jobs = counted(len(uncompared), "more kind"), counted(sum(uncompared), "job")
        sentences.append(f"{kinds} of jobs, {jobs} in all, not compared with the queues: only the largest kinds are.")
    return sentences


def _exclusions(fit: Fit | None) -> list[Exclusions]:
    return [] if fit is None else [_exclusion(each, fit.queues) for each in fit.exclusions]


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
