"""Remove the pages of allauth's tables: second factors are reset on the page of users."""

from allauth.account.models import EmailAddress, EmailConfirmation
from allauth.mfa.models import Authenticator
from django.contrib import admin

for table in (Authenticator, EmailAddress, EmailConfirmation):
    if admin.site.is_registered(table):
        admin.site.unregister(table)
