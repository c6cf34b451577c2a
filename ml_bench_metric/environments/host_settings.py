"""What a container needs of the host to install packages: pip's sources, certificates, proxies.

They are handed to the steps of a build, and never become part of an image.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

PREFIX = "/run/host"
"""Where the host's files appear in the container; a memory file system lies at /run, so no image keeps them."""

_PIP_PATH = ("cert", "client-cert")
_PIP_LIST = ("constraint", "build-constraint", "find-links", "index-url", "extra-index-url")
_PIP_PLAIN = ("no-index", "trusted-host", "proxy", "timeout", "default-timeout", "retries", "prefer-binary")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")


@dataclass(frozen=True)
class HostSettings:
    """Environment variables for the steps of a build, and the host's files that they speak of."""

    variables: Mapping[str, str]
    mounts: Mapping[str, str]
    """Absolute path on the host -> path in the container; to be mounted read-only."""


NO_SETTINGS = HostSettings({}, {})
"""For containers that are to have nothing of the host."""


def host_settings(environ: Mapping[str, str] = os.environ, pip_config: str | None = None) -> HostSettings:
    """Return the settings of this host.

    Args:
        environ: environment variables.
        pip_config: output of `pip config list`; None asks pip, which merges its files and PIP_* variables.
    """
    mounts: dict[str, str] = {}
    variables: dict[str, str] = {}
    for option, value in _pip_options(pip_config if pip_config is not None else _ask_pip()).items():
        if option in _PIP_PATH:
            value = _local(value, mounts)
        elif option in _PIP_LIST:
            value = " ".join(_local(word, mounts, index=option.endswith("index-url")) for word in value.split())
        elif option not in _PIP_PLAIN:
            continue  # where to install, caches, verbosity: the container's affair
        variables["PIP_" + option.upper().replace("-", "_")] = value
    for name in _CERTIFICATES:
        if environ.get(name):
            variables[name] = _local(environ[name], mounts)
    for name in (*_PROXIES, *map(str.upper, _PROXIES)):
        if environ.get(name):
            variables[name] = environ[name]
    inner = {path for path in mounts if any(other != path and Path(path).is_relative_to(other) for other in mounts)}
    return HostSettings(variables, {path: mounts[path] for path in sorted(mounts) if path not in inner})


def _ask_pip() -> str:
    for command in ([sys.executable, "-m", "pip"], ["pip3"]):  # a virtual environment may have no pip
        try:
            return subprocess.run(
                [*command, "config", "list"], capture_output=True, text=True, timeout=60, check=True, encoding="utf-8"
            ).stdout
        except (OSError, subprocess.SubprocessError):
            continue
    return ""


def _pip_options(listing: str) -> dict[str, str]:
    """Return option -> value, as `pip install` sees them: its own section beats `global`, variables beat both."""
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listing.splitlines():
        key, equals, literal = line.partition("=")
        section, _, option = key.rpartition(".")
        if equals and section in sections:
            sections[section][option.lower().replace("_", "-")] = str(ast.literal_eval(literal))
    return {option: value for section in sections.values() for option, value in section.items()}


def _local(word: str, mounts: dict[str, str], *, index: bool = False) -> str:
    """Return a path or URL as the container sees it, adding what must be mounted for it."""
    parts = urlsplit(word)
    to_word: Callable[[str], str]
    if parts.scheme == "file":
        path, to_word = Path(unquote(parts.path)), lambda seen: "file://" + quote(seen)
    elif parts.scheme:
        return word
    else:
        path, to_word = Path(word).expanduser().absolute(), lambda seen: seen
    if not path.exists():
        return word  # pip then says what is wrong, in the user's own words
    # An index's pages link to files beside the index folder; a page of links to files beside the page.
    beside = index or path.suffix in (".html", ".htm")
    mounted = path.parent if beside and path.parent != path.parent.parent else path
    mounts[str(mounted)] = PREFIX + str(mounted)
    return to_word(PREFIX + str(path))
