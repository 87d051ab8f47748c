"""A user's own account: overview, password, one-time link, tokens, groups, mail."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.mixins import LoginRequiredMixin
from django.contrib.auth.views import PasswordChangeView
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from wms.accounts import queries, services
from wms.accounts.domain import SecurityEventKind, TokenScope
from wms.accounts.middleware import not_counted_as_change
from wms.accounts.models import User
from wms.accounts.oidc.configuration import providers
from wms.accounts.security_log import record
from wms.accounts.services import people
from wms.accounts.services.second_factors import has_second_factor, is_fresh, last_log_in
from wms.jobs.queries.amounts import amounts_of
from wms.jobs.services import notices
from wms.kernel.clock import current_time
from wms.kernel.compression import shows_secret
from wms.kernel.errors import WmsError
from wms.portal import revisions
from wms.portal.forms.account import ChangePasswordForm, MailForm, NewTokenForm
from wms.portal.live import live
from wms.portal.pages import header_of, refusals_as_404, show, signed_in
from wms.portal.presentation.account import account_page, claimed_memberships, institutes_of, mail_section

#: Session key of the secret of a one-time link, so that later addresses do not contain it.
LINK_IN_SESSION = "password_link"


class PasswordView(LoginRequiredMixin, PasswordChangeView):
    """Change the user's own password; all tokens and all other sessions end."""

    form_class = ChangePasswordForm
    template_name = "portal/password.html"
    success_url = reverse_lazy("portal:password")

    def get_form_kwargs(self) -> dict[str, object]:
        """Return the arguments of the form."""
        return super().get_form_kwargs() | {"request": self.request}

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        """Return the context of the page."""
        return super().get_context_data(**kwargs) | {"header": header_of(signed_in(self.request))}

    def form_valid(self, form: Form) -> HttpResponse:
        """Change the password."""
        response = super().form_valid(form)  # type: ignore[arg-type]  # PasswordChangeForm, which is generic
        user = signed_in(self.request)
        record(SecurityEventKind.PASSWORD_CHANGED, request=self.request, target=f"user {user.username}")
        messages.success(self.request, "The password is changed. Your tokens and your other sessions have ended.")
        return response


@never_cache
@csrf_exempt
def open_password_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Move the secret from the address to the session, so that neither history nor the next page's referrer holds it.

    Any method is allowed: mail scanners send HEAD and others, and an error would write the address into the log. This
    view sets no password; the page that does requires its CSRF token.
    """
    with suppress(services.LinkOverError):  # the next page shows the error; invalid links make no sessions
        services.user_of_link(secret, now=current_time())
        request.session.cycle_key()  # whoever knew the old one would set the password
        request.session[LINK_IN_SESSION] = secret
    return redirect("portal:password-by-link")


@shows_secret
@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def set_password_by_link(request: HttpRequest) -> HttpResponse:
    """Let the holder of a one-time link set a password."""
    secret, now = str(request.session.get(LINK_IN_SESSION, "")), current_time()
    try:
        user = services.user_of_link(secret, now=now)
        form = SetPasswordForm(user, request.POST if request.method == "POST" else None)
        if form.is_valid():
            services.set_password_by_link(secret, password=form.cleaned_data["new_password1"], now=now)
            # End the session of the link: the user logs in with the new password, and a second factor.
            request.session.flush()
            messages.success(request, "The password is set. Log in with it.")
            return redirect("portal:log-in")
    except services.LinkOverError as error:
        return render(request, "portal/password_link.html", {"over": error.detail}, status=HTTPStatus.NOT_FOUND)
    return render(request, "portal/password_link.html", {"form": form, "username": user.username})


def _revision(request: HttpRequest) -> Sequence[object]:
    user = signed_in(request)
    tokens = queries.live_tokens(user, now=current_time()).order_by("pk").values_list("pk", "last_used_at")
    chosen = (user.default_group_id, user.mail_when, user.email)
    connected = [account.pk for account in _connected_accounts(user)]
    return (*chosen, has_second_factor(user), *tokens, *connected, *revisions.configuration())


def _connected_accounts(user: User) -> Sequence[SocialAccount]:
    return people.connected_accounts(user) if providers() else ()


@never_cache
@login_required
@require_http_methods(["GET", "HEAD"])
@live(_revision)
def overview(request: HttpRequest) -> HttpResponse:
    """Show the account at a glance, with the choice of mail."""
    user = signed_in(request)
    return _overview(request, MailForm({"when": user.mail_when}))


@never_cache
@login_required
@require_POST
def choose_mail(request: HttpRequest) -> HttpResponse:
    """Store when the user gets mail about submissions."""
    form = MailForm(request.POST)
    if form.is_valid():
        try:
            services.choose_mail(form.chosen(), by=signed_in(request))
        except WmsError as error:
            form.add_error("when", error.detail)
        else:
            messages.success(request, "Your choice is stored. It holds for submissions from now on.")
            return redirect("portal:account")
    return _overview(request, form, status=HTTPStatus.BAD_REQUEST)


def _overview(request: HttpRequest, form: MailForm, *, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    user = signed_in(request)
    groups = queries.groups_of(user)
    page = account_page(
        user,
        groups=groups,
        default_group=queries.default_group_of(user, groups=groups),
        tokens=tuple(queries.live_tokens(user, now=current_time())),
        has_second_factor=has_second_factor(user),
        mail=mail_section(address=services.mail_address(user), is_on=notices.is_on()),
        institutes=institutes_of(providers().values(), _connected_accounts(user)),
        amounts=amounts_of(user),
    )
    return show(request, "portal/account.html", {"page": page, "form": form}, status=status)


@shows_secret
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@live(_revision)
def tokens(request: HttpRequest) -> HttpResponse:
    """List the user's tokens, and make a new one, which is shown only once."""
    user, now, issued = signed_in(request), current_time(), None
    is_log_in_fresh = is_fresh(last_log_in(request, user), now=now)
    form = NewTokenForm(request.POST if request.method == "POST" else None, is_log_in_fresh=is_log_in_fresh)
    if form.is_valid():
        values = form.cleaned_data
        try:
            issued = services.issue_token(
                user,
                now=now,
                scope=TokenScope(values["scope"]),
                name=values["name"],
                lifetime=timedelta(seconds=min(values["days"] * 86400, settings.WMS_USER_TOKEN_S)),
            )
        except WmsError as error:
            form.add_error(None, error.detail)
        else:
            form = NewTokenForm(is_log_in_fresh=is_log_in_fresh)
    rows = queries.live_tokens(user, now=now).order_by("-pk")
    context = {"form": form, "tokens": rows, "issued": issued, "most_tokens": settings.WMS_MAX_TOKENS_PER_USER}
    return show(request, "portal/tokens.html", context)


@not_counted_as_change
@login_required
@require_POST
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke one of the user's tokens."""
    with refusals_as_404():
        services.revoke_visible_token(token_id=pk, by=signed_in(request), now=current_time())
    messages.success(request, "The token is revoked.")
    return HttpResponseRedirect(reverse_lazy("portal:tokens"))


@never_cache
@login_required
@require_http_methods(["GET", "HEAD"])
@live(_revision)
def groups(request: HttpRequest) -> HttpResponse:
    """List the user's groups and open invitations."""
    user = signed_in(request)
    context = {
        "groups": queries.groups_of(user),
        "invitations": queries.open_invitations(user, now=current_time()),
        "default_group_id": user.default_group_id,
        "by_claim": claimed_memberships(people.memberships_by_claim(user) if providers() else ()),
    }
    return show(request, "portal/groups.html", context)


@login_required
@require_POST
def accept_invitation(request: HttpRequest, pk: int) -> HttpResponse:
    """Join the group of the invitation."""
    with refusals_as_404():
        group = services.accept(pk, by=signed_in(request), now=current_time())
    messages.success(request, f"You are a member of {group} now.")
    return redirect("portal:groups")


@login_required
@require_POST
def decline_invitation(request: HttpRequest, pk: int) -> HttpResponse:
    """Decline an invitation."""
    with refusals_as_404():
        services.decline(pk, by=signed_in(request), now=current_time())
    messages.success(request, "The invitation is declined. Who sent it does not see that.")
    return redirect("portal:groups")


@login_required
@require_POST
def choose_default_group(request: HttpRequest, pk: int) -> HttpResponse:
    """Make a group the user's default one."""
    with refusals_as_404():
        group = services.choose_default_group(pk, by=signed_in(request))
    messages.success(request, f"You act in {group} where you name no group.")
    return redirect("portal:groups")


@login_required
@require_POST
def leave_group(request: HttpRequest, pk: int) -> HttpResponse:
    """End the user's membership in a group."""
    with refusals_as_404():
        group = services.leave(pk, by=signed_in(request))
    messages.success(request, f"You have left {group}. Your jobs that wait there are not matched any more.")
    return redirect("portal:groups")
