"""Which hosts a list allows, and that a name of it leads into no private network."""

from __future__ import annotations

import pytest

from ml_bench_solvers.agents.allowed_hosts import AllowedHosts


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "EXAMPLE.org.", 80, True),
        ("Example.ORG", "example.org", 80, True),
        ("example.org", "example.org", 22, False),
        ("example.org", "a.example.org", 443, False),
        ("example.org", "example.org.evil.net", 443, False),
        ("example.org", "notexample.org", 443, False),
        ("*.example.org", "a.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", ".example.org", 443, False),
        ("*.example.org", "notexample.org", 443, False),
        ("*.example.org:8443", "a.example.org", 8443, True),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org:8443", "example.org", 443, False),
        ("[::0:1]:8000", "[::1]", 8000, True),
        ("127.0.0.1:8000", "2130706433", 8000, False),
    ],
)
def test_a_name_is_allowed_as_it_is_written(entry: str, host: str, port: int, allowed: bool) -> None:
    assert AllowedHosts.parse([entry]).allow(host, port) is allowed


@pytest.mark.parametrize(
    "entry",
    [
        *("", "*", "*.", "a b", "http://example.org", "example.org/", "example.org:", "example.org:0", "a:65536"),
        *("a:x", "a..b", ".example.org", "a.*.org", "*example.org", "[::1", "[z]:80", "::1", "münchen.de", "a\nb"),
        "a@b",
    ],
)
def test_a_malformed_entry_is_refused_in_one_line(entry: str) -> None:
    with pytest.raises(ValueError, match=r"is no host|has no port") as caught:
        AllowedHosts.parse(["example.org", entry])
    assert "\n" not in str(caught.value)


def test_a_list_of_nothing_is_refused_and_others_are_in_order_each_entry_once() -> None:
    with pytest.raises(ValueError, match="no host"):
        AllowedHosts.parse([])
    assert AllowedHosts.parse(["b.org", "A.org", "b.ORG", "b.org:81"]).entries == ("a.org", "b.org", "b.org:81")


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "0.0.0.0", "169.254.169.254", "100.100.100.200"),
        *("192.0.0.192", "168.63.129.16", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0"),
        *("fd00:ec2::254", "fec0::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"),
        *("64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:7f00:1::", "no address"),
    ],
)
def test_what_is_not_the_internets_is_refused_whatever_its_name(address: str) -> None:
    assert not AllowedHosts.parse(["example.org", "*.org", "127.0.0.1:81", "127.0.0.1"]).allow_address(address, 80)


def test_public_addresses_are_fine_and_others_where_the_list_names_them_with_the_port() -> None:
    hosts = AllowedHosts.parse(["example.org", "127.0.0.1:81", "[::1]:81"])
    assert all(hosts.allow_address(address, 80) for address in ("1.1.1.1", "2606:4700::1111", "64:ff9b::101:101"))
    assert hosts.allow_address("127.0.0.1", 81) and hosts.allow_address("::1", 81)
    assert not hosts.allow_address("127.0.0.1", 82)
