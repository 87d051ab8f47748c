"""Remove the pages of allauth's tables: second factors are reset on the page of users; users disconnect accounts."""

from allauth.account.models import EmailAddress, EmailConfirmation
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin

for table in (Authenticator, EmailAddress, EmailConfirmation, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(table):
        admin.site.unregister(table)
