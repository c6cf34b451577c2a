"""Which hosts an agent may reach: a list of names, and which addresses may stand behind a name."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

WEB_PORTS = (80, 443)
"""The ports of an entry that gives none."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_ENTRY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[^\[\]:/]+)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_][a-z0-9_-]{0,62})*", re.ASCII)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All that has been given out of the sixth version."""
_METADATA = tuple(map(ipaddress.IPv4Network, ("168.63.129.16/32", "192.0.0.0/24")))
"""Where clouds answer their own machines, though Python takes the addresses for any others of the internet."""


@dataclass(frozen=True)
class AllowedHosts:
    """A list of hosts. Its entries are in lower case and in order, each once."""

    entries: tuple[str, ...]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> AllowedHosts:
        """Return a list.

        Args:
            texts: `pypi.org`, `*.example.org` (every name below it, not itself), `example.org:8080`,
                `192.0.2.1:8000`, `[2001:db8::1]:8000`.

        Raises:
            ValueError: there is none, or one is malformed; one line says which.
        """
        found = set()
        for text in texts:
            host, port = _parts(text.strip().lower())
            found.add(host if port is None else f"{host}:{port}")
        if not found:
            raise ValueError("no host is allowed")
        return cls(tuple(sorted(found)))

    def allow(self, host: str, port: int) -> bool:
        """Whether a host may be asked for, by the name that is asked for."""
        host = host.lower().removesuffix(".")
        return any(
            (port in WEB_PORTS if its_port is None else port == its_port) and _is_called(host, its_host)
            for its_host, its_port in map(_parts, self.entries)
        )

    def allow_address(self, address: str, port: int) -> bool:
        """Whether an address may be connected to: what anybody in the internet has, or an entry of the list itself.

        A name of the list may lead to this machine, its network, or a cloud's metadata service, by mistake or because
        whoever has the name wants it to.
        """
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        written = f"[{found}]" if found.version == 6 else str(found)
        return f"{written}:{port}" in self.entries or _is_public(found)


def _parts(entry: str) -> tuple[str, int | None]:
    """Return an entry's host and port.

    Raises:
        ValueError: it is malformed.
    """
    match = _ENTRY.fullmatch(entry)
    host = match["host"] if match else ""
    port = int(match["port"]) if match and match["port"] else None
    try:
        if host.startswith("["):
            host = f"[{ipaddress.IPv6Address(host[1:-1])}]"
        elif not _NAME.fullmatch(host.removeprefix("*.")):
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{entry[:100]!r} is no host; write example.org, *.example.org, or either with :PORT"
        ) from None
    if port is not None and not 1 <= port <= 65535:
        raise ValueError(f"{entry[:100]!r} has no port between 1 and 65535")
    return host, port


def _is_called(host: str, name: str) -> bool:
    if name.startswith("*."):
        return host.endswith(name[1:]) and len(host) >= len(name)
    return host == name


def _is_public(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(inner)
        if address not in _UNICAST:
            return False
    return address.is_global and not address.is_multicast and not any(address in network for network in _METADATA)
