"""Submission of jobs by a form, by JDL and by JSON, which are views of one description."""

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from http import HTTPStatus
from itertools import zip_longest
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST

from matching.services.rehearsal import rehearse
from matching.services.submission import submit
from resources.queries.choices import Choices, choices_of, joined
from taskqueues.services.index.shared import index
from wms.accounts.models import Group, User
from wms.accounts.queries import groups_of
from wms.jobs.domain.writing import as_json_text
from wms.jobs.models import SavedDescription, SavedSyntax
from wms.jobs.services import sandboxes as stored_files
from wms.jobs.services import saved_descriptions
from wms.jobs.services.submission import SubmissionResult
from wms.jobs.services.submission_limits import submission_in_flight
from wms.kernel.clock import current_time
from wms.kernel.errors import NotFoundError, RejectedError, TooManyError, WmsError
from wms.kernel.memo import CachedLookups
from wms.kernel.names import counted
from wms.kernel.rates import Rate, count
from wms.portal import starts
from wms.portal.drafts import Draft, KeptFile, checked, form_of, is_blank, jdl_of, json_of, replaced
from wms.portal.forms.fields import MAX_FILES
from wms.portal.forms.submission import FormAction, JdlForm, JsonForm, SimpleForm, SubmissionForm, TextForm
from wms.portal.pages import show, signed_in
from wms.portal.presentation.recipes import RECIPES
from wms.portal.presentation.submit import Precheck, SubmitPage, check_of, page_of, refused
from wms.portal.starts import Start
from wms.wire.executables import HEAD_BYTES
from wms.wire.protocol import SANDBOX_PREFIX

#: Bytes of multipart's headers, and of the other fields of the form.
ENVELOPE_BYTES = 1024 * 1024
#: Size of all files of one form, in sandboxes of the largest size; more belong into several, or onto a storage element.
LARGEST_SANDBOXES = 5
#: Of a size that a browser tells.
MOST_DIGITS: Final = 16

View = Callable[[HttpRequest], HttpResponse]


def _bounded(rate: Rate, *, sandboxes: int, spared: int) -> Callable[[View], View]:
    """Refuse a too large body, or too many requests, before the body is read; allow only users with their forms.

    Args:
        sandboxes: of the largest size, that a body may hold beside its other fields.
        rate: by which POST requests are counted.
        spared: places of simultaneous submissions that the view leaves to others.
    """

    def most_bytes() -> int:
        return int(sandboxes * settings.WMS_SANDBOX_MAX_BYTES) + ENVELOPE_BYTES

    def decorate(view: View) -> View:
        inner = csrf_protect(view)

        @csrf_exempt  # NB: `inner` checks the token instead: the middleware would read the whole body first
        @login_required
        @wraps(view)
        def outer(request: HttpRequest) -> HttpResponse:
            announced = str(request.META.get("CONTENT_LENGTH") or "0")
            if announced.isdecimal() and int(announced) > most_bytes():
                context = {"most_mb": most_bytes() // (1024 * 1024)}
                return show(request, "portal/too_large.html", context, status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            if request.method != "POST":
                return inner(request)
            user = signed_in(request)
            try:
                count(rate, user_id=user.pk)
                with submission_in_flight(user, spared=spared):
                    return inner(request)
            except TooManyError as error:
                reason = {"sentence": f"Nothing was submitted. {error.detail}", "back": reverse("portal:submit")}
                answer = show(request, "429.html", reason, status=HTTPStatus.TOO_MANY_REQUESTS)
                answer.headers["Retry-After"] = str(error.retry_after_s)
                return answer

        vars(outer)["most_body_bytes"] = most_bytes()  # of the view (wms/kernel/bodies.py)
        return outer

    return decorate


#: Of the forms.
bounded = _bounded(Rate.SUBMISSIONS, sandboxes=LARGEST_SANDBOXES, spared=0)
#: Of the panel, which asks while the user types: it never takes the last place of a submission.
lightly_bounded = _bounded(Rate.REQUESTS, sandboxes=0, spared=1)


# ---- Tabs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tab:
    """One view of the description."""

    form: type[SubmissionForm]
    url_name: str
    #: Field of its form with a text; empty: none.
    text: str
    #: Initial values of its form from a draft.
    initial: Callable[[Draft], Mapping[str, object]]


def _initial_of_form(draft: Draft) -> Mapping[str, object]:
    return form_of(draft, fields=SimpleForm.PLAIN)


def _initial_of_jdl(draft: Draft) -> Mapping[str, object]:
    # The group is a field of its own.
    return {"jdl": jdl_of(replace(draft, group=None)), "syntax": "jdl", "group": draft.group}


def _initial_of_json(draft: Draft) -> Mapping[str, object]:
    return {"json": json_of(replace(draft, group=None)), "group": draft.group}


#: {action that shows it: tab}.
_TABS: Final[Mapping[FormAction, _Tab]] = MappingProxyType(
    {
        FormAction.SHOW_FORM: _Tab(form=SimpleForm, url_name="portal:submit", text="", initial=_initial_of_form),
        FormAction.SHOW_JDL: _Tab(form=JdlForm, url_name="portal:submit-jdl", text="jdl", initial=_initial_of_jdl),
        FormAction.SHOW_JSON: _Tab(form=JsonForm, url_name="portal:submit-json", text="json", initial=_initial_of_json),
    }
)
_TAB_OF_SYNTAX: Final = {
    SavedSyntax.FORM: FormAction.SHOW_FORM,
    SavedSyntax.JDL: FormAction.SHOW_JDL,
    SavedSyntax.CFG: FormAction.SHOW_JDL,
    SavedSyntax.JSON: FormAction.SHOW_JSON,
}


@require_http_methods(["GET", "HEAD", "POST"])
@bounded
def submit_form(request: HttpRequest) -> HttpResponse:
    """Show the form, or submit its job."""
    return _answer(request, FormAction.SHOW_FORM)


@require_http_methods(["GET", "HEAD", "POST"])
@bounded
def submit_jdl(request: HttpRequest) -> HttpResponse:
    """Show the JDL, or submit its jobs."""
    return _answer(request, FormAction.SHOW_JDL)


@require_http_methods(["GET", "HEAD", "POST"])
@bounded
def submit_json(request: HttpRequest) -> HttpResponse:
    """Show the JSON, or submit its jobs."""
    return _answer(request, FormAction.SHOW_JSON)


@require_POST
@lightly_bounded
def submit_check(request: HttpRequest) -> HttpResponse:
    """Show what a submission would be answered, for the panel beside the form; nothing is stored."""
    user = signed_in(request)
    action = _action_in(request, "tab")
    tab = _TABS.get(action, _TABS[FormAction.SHOW_FORM])
    form = tab.form(request.POST, groups=groups_of(user), action=FormAction.CHECK)
    return render(request, "portal/_submit_check.html", {"check": _check(form, user, coming=_coming(request))})


def _coming(request: HttpRequest) -> dict[KeptFile, stored_files.NamedSandbox]:
    """Return the files that are chosen and not uploaded yet, with sizes and first bytes if a script told them."""
    columns = [request.POST.getlist(name)[:MAX_FILES] for name in ("coming", "coming_size", "coming_head")]
    files = {}
    for number, (name, size, head) in enumerate(zip_longest(*columns, fillvalue="")):
        if name:
            size_bytes = int(size) if size.isascii() and size.isdecimal() and len(size) < MOST_DIGITS else None
            named = stored_files.coming(name, size_bytes=size_bytes, head=_bytes_of(head))
            files[KeptFile(f"{SANDBOX_PREFIX}{number:064x}", name)] = named
    return files


def _bytes_of(head: str) -> bytes | None:
    """Return the first bytes of a file; None: none were told, as of an unreadable one."""
    try:
        return b64decode(head, validate=True)[:HEAD_BYTES] if head else None
    except ValueError:
        return None


@login_required
@require_POST
def delete_saved(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete a saved description of the user."""
    try:
        name = saved_descriptions.delete(pk, owner=signed_in(request))
    except NotFoundError as error:
        raise Http404(error.detail) from error
    messages.success(request, f"{name} is deleted.")
    return redirect("portal:submit")


def _answer(request: HttpRequest, shows: FormAction) -> HttpResponse:
    user = signed_in(request)
    groups = groups_of(user)
    tab = _TABS[shows]
    if request.method != "POST":
        return _fresh(request, shows, user=user, groups=groups)
    action = _action_in(request, "action")
    form = tab.form(request.POST, request.FILES, groups=groups, action=action)
    is_valid = form.is_valid()
    try:
        # Even if something else is wrong: the user need not choose them again.
        form.keep(_uploaded(form, user))
        if is_valid and action in {FormAction.SUBMIT, FormAction.SUBMIT_ANYWAY}:
            return _to_new_jobs(
                request,
                submit(replace(form.request(), strict=action is FormAction.SUBMIT), owner=user, now=current_time()),
            )
        if is_valid and action is FormAction.SAVE:
            return _save(request, form, shows, user=user)
        if is_valid and action in _TABS:
            converted = _converted(form, _TABS[action], groups)
            for sentence in form.warnings:
                messages.warning(request, sentence)
            return _shown(request, converted, action, user=user, groups=groups)
        if action is FormAction.CHECK:
            return _shown(request, form, shows, user=user, groups=groups, check=_check(form, user))
    except WmsError as error:
        form.refuse(error)
    return _shown(request, form, shows, user=user, groups=groups, status=HTTPStatus.BAD_REQUEST)


def _converted(form: SubmissionForm, tab: _Tab, groups: Sequence[Group]) -> SubmissionForm:
    """Return the form of a tab with what another form describes; with its example if that is nothing."""
    draft = checked(form.draft())
    initial = {"group": draft.group} if is_blank(draft) else tab.initial(draft)
    kept = [" ".join(file) for file in draft.files]
    same = {name: form.cleaned_data[name] for name in ("canary", "save_as")}
    return tab.form(groups=groups, initial={**initial, "kept": kept, **same})


def _action_in(request: HttpRequest, name: str) -> FormAction:
    try:
        return FormAction(request.POST.get(name, ""))
    except ValueError:
        return FormAction.SUBMIT


def _shown(
    request: HttpRequest,
    form: SubmissionForm,
    shows: FormAction,
    *,
    user: User,
    groups: Sequence[Group],
    check: Precheck | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> HttpResponse:
    saved = list(SavedDescription.objects.filter(owner=user).defer("text", "files").order_by("name"))
    page: SubmitPage = page_of(form, current=shows, choices=_choices(groups), saved=saved, check=check)
    context = {"form": form, "page": page, "url_name": _TABS[shows].url_name, "shows": shows}
    return show(request, "portal/submit.html", context, status=status)


def _choices(groups: Sequence[Group]) -> Choices:
    vos = {group.vo_id: group.vo for group in groups}
    lookups = CachedLookups(index.current().memo)
    return joined(lookups.get(choices_of, vo) for vo in vos.values())


# ---- What a form starts with -----------------------------------------------------------------------------------------


def _fresh(request: HttpRequest, shows: FormAction, *, user: User, groups: Sequence[Group]) -> HttpResponse:
    """Show a form that nobody sent yet: an empty one, a copy, or a saved description."""
    start, belongs_to = _start(request, shows, user=user, groups=groups)
    if belongs_to is not shows:
        return HttpResponseRedirect(f"{reverse(_TABS[belongs_to].url_name)}?{urlencode(request.GET.dict())}")
    tab = _TABS[shows]
    initial: Mapping[str, object] = {}
    try:
        if start.draft is not None:
            initial = tab.initial(checked(start.draft))
        elif start.saved is not None:
            initial = {tab.text: start.saved.text, "syntax": start.saved.syntax}
    except RejectedError as error:
        messages.error(request, f"It cannot be shown in this form: {error.detail}")
    for note in start.notes:
        messages.warning(request, note)
    kept = [" ".join(file) for file in start.files]
    form = tab.form(groups=groups, initial={**initial, "kept": kept, "save_as": start.name})
    return _shown(request, form, shows, user=user, groups=groups)


def _start(request: HttpRequest, shows: FormAction, *, user: User, groups: Sequence[Group]) -> tuple[Start, FormAction]:
    """Return what the form starts with, and the tab in which that is shown."""
    if copied := request.GET.get("clone"):
        return starts.of_copy(copied, user=user, groups=groups), shows
    number = request.GET.get("saved", "")
    if number.isascii() and number.isdecimal() and len(number) < 19:
        saved = get_object_or_404(SavedDescription, owner=user, pk=int(number))
        return starts.of_saved(saved, user=user, groups=groups), _TAB_OF_SYNTAX[SavedSyntax(saved.syntax)]
    if recipe := RECIPES.get(request.GET.get("recipe", "")):
        return Start(saved=SavedDescription(syntax=SavedSyntax.JDL, text=recipe.jdl)), FormAction.SHOW_JDL
    return Start(), shows


# ---- Actions of the buttons ------------------------------------------------------------------------------------------


def _check(
    form: SubmissionForm,
    user: User,
    *,
    coming: Mapping[KeptFile, stored_files.NamedSandbox] = MappingProxyType({}),
) -> Precheck:
    """Return what a submission of the form would be answered."""
    if not form.is_valid():
        return refused(
            [
                f"{form[name].label}: {text}"
                for name, texts in form.errors.items()
                if name in form.fields
                for text in texts
            ]
        )
    files = {file.reference: named for file, named in coming.items()}
    try:
        request = form.request(replaced(form.kept_files, list(coming)))
        return check_of(rehearse(request, owner=user, coming_files=files, now=current_time()))
    except WmsError as error:
        return refused([sentence for sentences in error.errors.values() for sentence in sentences] or [error.detail])


def _save(request: HttpRequest, form: SubmissionForm, shows: FormAction, *, user: User) -> HttpResponse:
    """Save the description under the name that the form gives, and show it as saved."""
    if isinstance(form, TextForm):
        text = str(form.cleaned_data[form.text])
        syntax = SavedSyntax(form.cleaned_data.get("syntax") or form.text)
    else:
        draft = form.draft()
        text, syntax = as_json_text(draft.description, group=draft.group), SavedSyntax.FORM
    saved = saved_descriptions.save(
        owner=user,
        name=str(form.cleaned_data["save_as"]),
        syntax=syntax,
        text=text,
        files=form.kept_files,
        now=current_time(),
    )
    verb = "saved, in the place of the one before" if saved.replaced else "saved"
    messages.success(request, f"{saved.description.name} is {verb}.")
    return HttpResponseRedirect(f"{reverse(_TABS[shows].url_name)}?{urlencode({'saved': saved.description.pk})}")


def _uploaded(form: SubmissionForm, user: User) -> list[KeptFile]:
    """Store the files of the form, and return them after the kept ones."""
    new = []
    for file in form.cleaned_data.get("input_files") or ():
        named = stored_files.upload(file, file_name=file.name, owner=user, now=current_time())
        new.append(KeptFile(stored_files.reference_of(named.sandbox), named.file_name))
    return replaced(form.kept_files, new)[:MAX_FILES]


def _to_new_jobs(request: HttpRequest, result: SubmissionResult) -> HttpResponse:
    """Lead to the job, or to the page of the submission, which shows its warnings."""
    messages.success(request, f"{counted(len(result.jobs), 'job')} submitted.")
    if len(result.jobs) > 1:
        return redirect("portal:submission", pk=result.job_group_id)
    for sentence in result.warnings:
        messages.warning(request, sentence)
    return redirect("portal:job", pk=result.jobs[0].id)
