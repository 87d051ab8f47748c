"""Addresses of the resources, below /api/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
