"""The options ``proxy`` and ``no_proxy`` of computing elements."""

from pathlib import Path

import pytest

from pilots.backends import htcondor_options, slurm_options
from pilots.backends.interface import BackendError, BatchRequest, CEDescription, PilotOrder
from pilots.backends.options import proxy_variables
from pilots.backends.ssh import SSHBackend
from pilots.services.ce_backends import flaw_of_options

OPTIONS = {"proxy": "http://squid.example.org:3128", "no_proxy": [".example.org", "10.0.0.0/8"]}
VARIABLES = {
    "http_proxy": "http://squid.example.org:3128",
    "https_proxy": "http://squid.example.org:3128",
    "no_proxy": ".example.org,10.0.0.0/8",
}


def test_the_options_are_variables_of_pilots(tmp_path: Path) -> None:
    description = CEDescription(
        site="S", ce="ce", server_url="https://w", options={"host": "h", **OPTIONS}, directory=tmp_path, queues=[]
    )
    order = PilotOrder(stamp="0f1e", secret="s", vo="v", site="S", ce="ce", queue="q", slot=BatchRequest(queue="q"))
    script = SSHBackend(description).script(order)

    assert slurm_options.parse_options(OPTIONS).proxy == VARIABLES
    assert htcondor_options.parse_options(OPTIONS).proxy == VARIABLES
    assert proxy_variables({}) == {}
    for name, value in VARIABLES.items():
        assert f"|| export {name}={value}\n" in script


@pytest.mark.parametrize("kind", ["slurm", "htcondor", "ssh"])
@pytest.mark.parametrize(
    "proxy",
    [
        "squid:3128",
        "https://squid:3128",
        "socks5://squid",
        "http://pilot:secret@squid:3128",
        "http://",
        "http://a b",
        3,
    ],
)
def test_a_wrong_proxy_is_refused_without_its_password(kind: str, proxy: object) -> None:
    flaw = flaw_of_options("site", "ce", kind, {"host": "h", "proxy": proxy}, "none")
    assert flaw is not None
    assert "The option proxy must be" in flaw
    assert "secret" not in flaw


@pytest.mark.parametrize("no_proxy", ["localhost", [3], ["a\nb"], {"a": "b"}])
def test_no_proxy_is_a_list_of_texts(no_proxy: object) -> None:
    with pytest.raises(BackendError, match="The option no_proxy must be a list"):
        proxy_variables({"no_proxy": no_proxy})
