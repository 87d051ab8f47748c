"""The header of pages whose views are not the portal's: those of the administration and of the interface."""

from django import template

from wms.accounts.models import User
from wms.portal.pages import Header, header_of

register = template.Library()


@register.simple_tag(takes_context=True)
def header_of_caller(context: template.Context) -> Header | None:
    """Return the header for the user of the request; None: nobody is logged in."""
    user = getattr(context.get("request"), "user", None)
    return header_of(user) if isinstance(user, User) else None
