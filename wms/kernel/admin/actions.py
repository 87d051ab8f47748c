"""Actions on rows: offered by the list for those that are ticked, and by the page of a row for this row."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME, ActionForm
from django.contrib.admin.options import ModelAdmin
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db.models import Model
from django.http import HttpRequest
from django.template.response import TemplateResponse

from wms.kernel.names import composed, counted

#: Field of a form that was sent from the page of a row; its value is the key of the row, to whose page one returns.
OF_ROW = "of_row"
#: Field of a form in which an action was confirmed.
CONFIRMED = "confirmed"
#: Most rows that one page names and one transaction changes.
AT_ONCE = 500


class ReasonForm(forms.Form):
    """Form of the reason of an action."""

    reason = forms.CharField(max_length=200, widget=AdminTextInputWidget)


class ReasonedActionForm(ActionForm):
    """Choice of an action that is carried out at once, with a reason for the history."""

    reason = forms.CharField(label="Reason:", max_length=200, required=False)


def reason_in(request: HttpRequest) -> str:
    """Return the reason that was given with an action; may be empty."""
    return composed(request.POST.get("reason", "").strip())[:200]


def say(page: "ModelAdmin[Any]", request: HttpRequest, *, done: int, of: int, thing: str, verb: str) -> None:
    """Say how many of the rows an action has changed; a warning if all were so before.

    Args:
        page: of the rows.
        request: which chose the action.
        done: number of those that were changed.
        of: number of those that were chosen.
        thing: what they are, as one: "token".
        verb: what they are now: "revoked".
    """
    rest = of - done
    if not done:
        sentence, level = f"Nothing was changed: {counted(of, thing)} {verb} already.", messages.WARNING
    elif rest:
        before = "the other was" if rest == 1 else f"the other {rest:,} were"
        sentence, level = f"{done:,} of {counted(of, thing)} {verb}; {before} already.", messages.SUCCESS
    else:
        sentence, level = f"{counted(done, thing)} {verb}.", messages.SUCCESS
    page.message_user(request, sentence, level)


def ask(
    page: "ModelAdmin[Any]",
    request: HttpRequest,
    rows: Sequence[Model],
    *,
    form: forms.Form,
    title: str,
    facts: Sequence[str] = (),
) -> TemplateResponse:
    """Return the page on which an action on *rows* is confirmed.

    Args:
        page: of the rows.
        request: which chose the action.
        rows: to be named.
        form: of what the action needs to know.
        title: what the action does, also the words of the button.
        facts: sentences about what it would stop.
    """
    context: dict[str, Any] = {
        **page.admin_site.each_context(request),
        "title": title,
        "opts": page.opts,
        "rows": [str(row) for row in rows],
        "facts": facts,
        "form": form,
        "of_row": request.POST.get(OF_ROW, ""),
        "hidden": [
            (CONFIRMED, "1"),
            *((name, request.POST[name]) for name in ("action", OF_ROW) if name in request.POST),
            *((ACTION_CHECKBOX_NAME, str(row.pk)) for row in rows),
        ],
    }
    return TemplateResponse(request, "admin/confirm_action.html", context)
