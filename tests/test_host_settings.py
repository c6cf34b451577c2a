"""Pip's sources, certificates and proxies of the host reach the steps of a build, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_bench_metric.environments.host_settings import HostSettings, host_settings


def settings(listing: str, **environ: str) -> HostSettings:
    return host_settings(environ, listing)


def test_wheels_indexes_certificates_and_constraints_are_mounted_and_named_as_the_container_sees_them(
    tmp_path: Path,
) -> None:
    for name in ("wheels", "index/simple"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("ca.pem", "constraints.txt"):
        (tmp_path / name).touch()
    found = settings(
        f"global.find-links='{tmp_path}/wheels https://example.org/wheels'\n"
        f"global.extra-index-url='file://{tmp_path}/index/simple https://user:word@example.org/simple'\n"
        f"global.constraint='{tmp_path}/constraints.txt'\n"
        f":env:.cert='{tmp_path}/ca.pem'\n",
        REQUESTS_CA_BUNDLE=f"{tmp_path}/ca.pem",
    )
    inside = f"/run/host{tmp_path}"
    assert found.variables == {
        "PIP_FIND_LINKS": f"{inside}/wheels https://example.org/wheels",
        "PIP_EXTRA_INDEX_URL": f"file://{inside}/index/simple https://user:word@example.org/simple",
        "PIP_CONSTRAINT": f"{inside}/constraints.txt",
        "PIP_CERT": f"{inside}/ca.pem",
        "REQUESTS_CA_BUNDLE": f"{inside}/ca.pem",
    }
    # The pages of an index link to files beside its folder, so that folder's parent is needed.
    mounted = (f"{tmp_path}/ca.pem", f"{tmp_path}/constraints.txt", f"{tmp_path}/index", f"{tmp_path}/wheels")
    assert found.mounts == {path: "/run/host" + path for path in mounted}


def test_pips_own_order_of_precedence_holds() -> None:
    listing = ":env:.index-url='https://c'\ninstall.index-url='https://b'\nglobal.index-url='https://a'\n"
    assert settings(listing).variables == {"PIP_INDEX_URL": "https://c"}
    assert settings("\n".join(listing.splitlines()[1:])).variables == {"PIP_INDEX_URL": "https://b"}


def test_settings_about_where_to_install_stay_on_the_host() -> None:
    listing = (
        "global.target='/x'\ninstall.user='true'\n:env:.require-virtualenv='1'\n:env:.cache-dir='/c'\n"
        "download.index-url='https://not-for-install'\n:env:.no-index='1'"
    )
    assert settings(listing).variables == {"PIP_NO_INDEX": "1"}


def test_proxies_are_handed_on_in_either_case() -> None:
    found = settings("", http_proxy="http://p:1", HTTPS_PROXY="http://p:2", no_proxy="", OTHER="x")
    assert found == HostSettings({"http_proxy": "http://p:1", "HTTPS_PROXY": "http://p:2"}, {})


def test_a_path_that_is_not_there_is_left_for_pip_to_complain_about() -> None:
    assert settings("global.cert='/nowhere/ca.pem'") == HostSettings({"PIP_CERT": "/nowhere/ca.pem"}, {})


def test_a_file_within_a_mounted_folder_is_not_mounted_twice(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    found = settings("", SSL_CERT_DIR=str(tmp_path), SSL_CERT_FILE=f"{tmp_path}/ca.pem")
    assert list(found.mounts) == [str(tmp_path)]
    assert found.variables["SSL_CERT_FILE"] == f"/run/host{tmp_path}/ca.pem"


def test_pip_itself_is_asked_where_no_listing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://example.org/simple")
    assert host_settings({}).variables["PIP_INDEX_URL"] == "https://example.org/simple"
