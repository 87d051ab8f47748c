"""The setting of providers, and groups by claims."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pytest_django import Settings

from tests.cases import quick_cases
from wms.accounts.oidc.configuration import ProviderSettingError, check_providers, parse, providers
from wms.accounts.oidc.identity import groups_of_claims

ENTRY = {"name": "CERN", "issuer": "https://auth.example.org", "client_id": "wms"}


def setting(**more: object) -> str:
    return json.dumps({"cern": ENTRY | more})


def test_omitted_settings_have_defaults() -> None:
    provider = parse(setting())["cern"]
    assert provider.scopes == ("openid", "profile", "email")
    assert (provider.client_secret, provider.vos, provider.group_map) == ("", None, {})


def test_a_secret_is_in_no_representation() -> None:
    assert "hush" not in repr(parse(setting(client_secret="hush")))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not a JSON object of providers by id"),
        ('{"CERN": {}}', '"CERN" is not an id'),
        ('{"a/b": {}}', '"a/b" is not an id'),
        ('{"cern": []}', '"cern" is not an object'),
        ('{"cern": {"name": "CERN"}}', 'cern: "issuer" is missing'),
        (setting(scope=[]), 'cern: unknown key "scope". Did you mean "scopes"?'),
        (setting(issuer="http://auth.example.org"), "cern: the issuer is not an https:// address"),
        (setting(issuer="https://a.example?b"), "cern: the issuer has a query"),
        (setting(issuer=f"https://a.example/{'x' * 200}"), "longer than 200 characters"),
        (setting(client_secret=1), 'cern: "client_secret" is not a text'),
        (setting(scopes=["profile"]), 'cern: "scopes" lacks "openid"'),
        (setting(scopes="openid"), "cern: scopes is not a list of texts"),
        (setting(groups={"wlcg.groups": ["/lhcb"]}), "cern: groups is not of the form"),
        (setting(groups={"wlcg.groups": {"/lhcb": "lhcb_user"}}), 'cern: groups: "/lhcb" is not a list of texts'),
        (setting(vos="lhcb"), "cern: vos is not a list of texts"),
        (json.dumps({"a": ENTRY, "b": ENTRY}), "two providers have the same issuer"),
    ],
)
def test_a_wrong_setting_is_refused_with_position_and_remedy(text: str, sentence: str, settings: Settings) -> None:
    with pytest.raises(ProviderSettingError) as refused:
        parse(text)
    assert sentence in str(refused.value)
    settings.WMS_OIDC_PROVIDERS = text
    (error,) = check_providers()
    assert error.id == "wms.E015"


def test_a_provider_on_this_machine_may_have_plain_addresses() -> None:
    assert parse(setting(issuer="http://127.0.0.1:9400"))["cern"].has_plain_addresses


def test_no_provider_is_configured_by_default(settings: Settings) -> None:
    assert settings.WMS_OIDC_PROVIDERS == ""
    assert providers() == {}
    assert check_providers() == []


MAP: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "wlcg.groups": {"/lhcb": ("a",), "/lhcb/prod": ("b", "c")},
    "eduperson_entitlement": {"urn:x": ("d",)},
}


@pytest.mark.parametrize(
    ("claims", "groups"),
    [
        ({}, set()),
        ({"wlcg.groups": ["/lhcb"]}, {"a"}),
        ({"wlcg.groups": "/lhcb/prod", "eduperson_entitlement": ["urn:x", "urn:y"]}, {"b", "c", "d"}),
        ({"wlcg.groups": ["/LHCB", "lhcb", "/lhcb/", "/lhcb/prod/x"]}, set()),
        ({"wlcg.groups": [["/lhcb"], {"/lhcb": 1}, None, 1]}, set()),
        ({"wlcg.groups": {"/lhcb": True}}, set()),
        ({"groups": ["/lhcb"]}, set()),
    ],
)
def test_values_map_to_groups_exactly(claims: dict[str, Any], groups: set[str]) -> None:
    assert groups_of_claims(MAP, claims) == groups


@pytest.mark.parametrize("part", quick_cases(range(4), quick=1))
@examples(max_examples=25)
@given(
    claims=st.dictionaries(st.sampled_from([*MAP, "x"]), st.recursive(st.text() | st.none() | st.integers(), st.lists))
)
def test_any_claims_give_groups_of_the_map_only(part: int, claims: dict[str, Any]) -> None:
    assert groups_of_claims(MAP, claims) <= {"a", "b", "c", "d"}
