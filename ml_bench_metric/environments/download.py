"""Downloading one file over HTTP: it goes on with what an earlier try left, and takes nothing half for whole."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ml_bench_metric.environments.byte_count import LINE_SECONDS, bytes_text
from ml_bench_metric.printable import printable

if TYPE_CHECKING:
    from requests import Response, Session

CONNECT_SECONDS = 20.0
SILENCE_SECONDS = 60.0
"""How long a server may send nothing."""
TRIES = 5
"""How often in a row a download may fail without having come `STEP` bytes further."""
CONNECT_TRIES = 3
"""The same where the server could not even be reached, which seldom passes within seconds."""
STEP = 1 << 20
PAUSE_SECONDS = 1.0
"""Before the second try; it doubles each time."""
LONGEST_PAUSE = 300.0
"""How many seconds a server may ask to wait; if it asks for more, the download ends."""
TOLERANCE = 0.1
"""By how much a file may differ from the size that was expected: what people write down is often rounded."""

_CHUNK = 1 << 16
_LONGEST_REASON = 120
_CLOCK = timedelta(seconds=60)
"""A file that changed more recently may have changed twice within its time's resolution (RFC 9110, 8.8.2.2)."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Report = Callable[[str], None]
"""Receives a line about how a download goes."""


class DownloadError(Exception):
    """A file could not be downloaded. The message says why."""

    def __init__(self, reason: str, *, passing: bool = False) -> None:
        super().__init__(reason)
        self.passing = passing
        """Whether the same may succeed at another time."""


class DiskFull(DownloadError):  # noqa: N818 - it names the situation
    """There is no room for the file."""


class _Failed(Exception):  # noqa: N818 - no error yet: it is tried again
    """One try has failed, and another one may succeed."""

    def __init__(self, reason: str, *, reached: bool = True, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.reached = reached
        """Whether there was a connection to the server."""
        self.pause = pause
        """Seconds that the server asks to wait."""


@dataclass(frozen=True)
class _Facts:
    """What was known of a file when its download began."""

    validator: str = ""
    """ETag or time of change by which the server tells whether it still has the same file; `""` for none."""
    total: int | None = None
    """Size of the whole file, in bytes."""


class Part:
    """What is here of a file that is being downloaded; the next download of the same address goes on with it."""

    def __init__(self, folder: Path, url: str) -> None:
        """Name the files; nothing is read or written.

        Args:
            folder: of all such parts; it must exist when one is written.
            url: where the file comes from.
        """
        key = hashlib.sha256(url.encode()).hexdigest()[:32]
        self.path = folder / f"{key}.part"
        self.lock = folder / f"{key}.lock"
        """Locked by who works with it."""
        self._url = url
        self._record = folder / f"{key}.json"

    @property
    def size(self) -> int:
        """In bytes; 0 where there is nothing."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    @property
    def facts(self) -> _Facts:
        """What was recorded when the download began; nothing where that cannot be read."""
        try:
            found = json.loads(self._record.read_text(encoding="utf-8"))
            return _Facts(str(found["validator"]), None if found["total"] is None else int(found["total"]))
        except (OSError, ValueError, LookupError, TypeError):
            return _Facts()

    def begin(self, facts: _Facts) -> None:
        """Start anew, with nothing."""
        # The old bytes go first: they must never stand beside the new facts.
        self.drop()
        text = json.dumps({"url": self._url, "validator": facts.validator, "total": facts.total})
        self._record.write_text(text, encoding="utf-8")

    def drop(self) -> None:
        """Remove it."""
        self.path.unlink(missing_ok=True)
        self._record.unlink(missing_ok=True)


class Downloader:
    """An HTTP client. Proxies, certificates and passwords of the machine hold for it as for all of `requests`."""

    def __init__(self) -> None:
        from requests import Session

        self._session: Session = Session()
        # What is stored, and checked, is the file itself, not a compressed form for the way.
        self._session.headers.update({"User-Agent": "ml-bench", "Accept-Encoding": "identity"})
        self._unreachable: dict[str, str] = {}
        """Server -> why it cannot be reached, so that no second file waits for it."""
        self._mute: set[str] = set()
        """Servers that did not tell a size, and are not asked for another."""

    def __enter__(self) -> Downloader:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._session.close()

    def size(self, url: str) -> int | None:
        """Return the size in bytes of the file at an address; None where the server does not say."""
        host = _host(url)
        if host in self._mute:
            return None
        try:
            with (
                _patient(host),
                self._ask("HEAD", url, {}) as response,
            ):
                if response.status_code != 200 or _is_page(response, url):
                    return None
                return _length(response.headers)
        except _Failed:
            self._mute.add(host)
            return None
        except DownloadError:
            return None

    def download(self, url: str, part: Part, *, certain: bool, about: int | None, report: Report) -> bool:
        """Complete a part, and return whether all of it came in a single answer of the server.

        Args:
            url: of the file.
            part: what is here of it.
            certain: whether the file's hash is known. If so, a part whose server gives nothing to compare it by is
                continued too, and the end of a file whose size nobody knows is believed: the hash will tell.
            about: the expected size in bytes, if any; it may be off by `TOLERANCE`.
            report: receives lines.

        Raises:
            DownloadError: it could not be completed. What is here stays, unless it is useless.
            OSError: the part cannot be written, for another reason than a full disk.
        """
        host = _host(url)
        if host in self._unreachable:
            raise DownloadError(self._unreachable[host], passing=True)
        failures, furthest = 0, part.size
        while True:
            try:
                with _patient(host):
                    return self._complete(url, part, certain, about, report)
            except _Failed as error:
                if part.size >= furthest + STEP:
                    failures, furthest = 0, part.size
                failures += 1
                if failures >= (TRIES if error.reached else CONNECT_TRIES):
                    if not error.reached:
                        self._unreachable[host] = str(error)
                    raise DownloadError(f"{error}, {failures} times in a row", passing=True) from error
                pause = max(error.pause, PAUSE_SECONDS * 2 ** (failures - 1))
                if pause > LONGEST_PAUSE:
                    raise DownloadError(f"{error}, and asks to wait {pause:.0f} s", passing=True) from error
                report(f"{error}; trying again in {pause:.0f} s")
                time.sleep(pause)

    def _complete(self, url: str, part: Part, certain: bool, about: int | None, report: Report) -> bool:
        """Make one request for what is missing; return whether it brought the whole file."""
        facts = part.facts
        start = part.size if facts.validator or certain else 0
        if start and start == facts.total:
            return False
        headers = {}
        if start:
            headers["Range"] = f"bytes={start}-"
            if facts.validator:
                headers["If-Range"] = facts.validator
        with self._ask("GET", url, headers) as response:
            if response.status_code == 416 and start:
                part.drop()
                raise _Failed("the server does not have the rest of the file")
            _require_file(response, url)
            continues = response.status_code == 206
            if continues:
                facts = _continued(response, part, start, facts)
            else:
                facts = _Facts(_validator(response.headers), _length(response.headers))
                _require_end(response, facts, certain)
            _require_size(facts.total, about)
            if facts.total is not None:
                require_room(part.path.parent, facts.total - part.size)
            if not continues:
                part.begin(facts)
            self._read(response, part, facts, about, report)
        if facts.total is not None and part.size != facts.total:
            ended = f"the connection ended at {bytes_text(part.size)} of {bytes_text(facts.total)}"
            if part.size > facts.total:
                part.drop()
            raise _Failed(ended)
        if part.size == 0:
            raise DownloadError("the server sends an empty file")
        return not continues

    def _ask(self, method: str, url: str, headers: Mapping[str, str]) -> Response:
        from requests import RequestException

        timeout = (CONNECT_SECONDS, SILENCE_SECONDS)
        try:
            return self._session.request(method, url, headers=headers, stream=True, timeout=timeout)
        except RequestException:
            raise
        except OSError as error:  # of a file that the client needs
            raise DownloadError(f"{error}; correct REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE") from error

    def _read(self, response: Response, part: Part, facts: _Facts, about: int | None, report: Report) -> None:
        start = done = part.size
        begun = shown = time.monotonic()
        whole = "" if facts.total is None else f" of {bytes_text(facts.total)}"
        report(f"going on at {bytes_text(start)}{whole}" if start else f"downloading{whole.removeprefix(' of')} …")
        with part.path.open("ab", buffering=0) as file:
            for chunk in response.raw.stream(_CHUNK, decode_content=False):
                _write(file.write, chunk, part, facts)
                done += len(chunk)
                if facts.total is None and about is not None and done > about * (1 + TOLERANCE):
                    part.drop()
                    raise DownloadError(f"the server sends more than the {bytes_text(about)} that the recipe tells of")
                now = time.monotonic()
                if now - shown >= LINE_SECONDS:
                    shown = now
                    report(f"{bytes_text(done)}{whole}, {bytes_text(round((done - start) / (now - begun)))}/s")


def require_room(folder: Path, size: int) -> None:
    """Raise `DiskFull` unless the disk of a folder has room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise DiskFull(f"{bytes_text(size)} are still to come, and the disk of {folder} has {bytes_text(free)} free")


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:  # the client will say what is wrong with it
        return url


@contextlib.contextmanager
def _patient(host: str) -> Iterator[None]:
    """Turn what the client raises into `_Failed` where another try may help, else into `DownloadError`."""
    from requests import exceptions as client
    from urllib3 import exceptions as transport

    try:
        yield
    except client.SSLError as error:
        raise DownloadError(
            f"{host} and this machine do not agree on a safe connection ({_reason(error)}); if the certificate is one "
            "of your own network, REQUESTS_CA_BUNDLE must name the file that vouches for it"
        ) from error
    except client.ProxyError as error:
        raise _Failed(
            f"the proxy on the way to {host}, see HTTP_PROXY and HTTPS_PROXY, fails ({_reason(error)})", reached=False
        ) from error
    except client.ConnectTimeout as error:
        raise _Failed(f"{host} does not answer within {CONNECT_SECONDS:.0f} s", reached=False) from error
    except (client.Timeout, transport.ReadTimeoutError) as error:
        raise _Failed(f"{host} has sent nothing for {SILENCE_SECONDS:.0f} s") from error
    except client.ConnectionError as error:
        if isinstance(_innermost(error), transport.NewConnectionError):
            raise _Failed(f"{host} cannot be reached ({_reason(error)})", reached=False) from error
        raise _Failed(f"the connection to {host} broke ({_reason(error)})") from error
    except (client.ChunkedEncodingError, client.ContentDecodingError, transport.HTTPError) as error:
        raise _Failed(f"the connection to {host} broke ({_reason(error)})") from error
    except client.RequestException as error:
        raise DownloadError(f"the address cannot be used ({_reason(error)})") from error


def _innermost(error: BaseException) -> BaseException:
    """Return the transport's own error, which the client and the pool of connections wrap."""
    inner = getattr(error, "reason", None) or next((one for one in error.args if isinstance(one, Exception)), None)
    return _innermost(inner) if isinstance(inner, BaseException) else error


def _reason(error: BaseException) -> str:
    """Return an error's own words on one line of bounded length, without the address of an object in memory."""
    inner = _innermost(error)
    text = str(inner.args[-1] if inner.args else inner) or type(inner).__name__
    text = printable(" ".join(re.sub(r"<[^>]* at 0x\w+>:? ?|^\w+\([^)]*\): ", "", text).split()))
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + "…"


def _require_file(response: Response, url: str) -> None:
    """Raise an error unless the answer is the file, or a piece of it."""
    status = response.status_code
    said = f"the server answers {status}" + (f" {printable(response.reason)[:60]}" if response.reason else "")
    if status == 429 or status == 408 or status >= 500:
        raise _Failed(said, pause=_asked_pause(response.headers))
    if status in (401, 403, 407):
        raise DownloadError(f"{said}: it gives the file only to those who have logged in or agreed to something")
    if status in (404, 410):
        raise DownloadError(f"{said}: the file is no longer there")
    if status not in (200, 206) or (status == 206 and "Range" not in response.request.headers):
        raise DownloadError(f"{said}, which is no file")
    if _is_page(response, url):
        raise DownloadError("the server sends a web page in place of the file: a login, a question, or a notice")
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity") and not urlsplit(url).path.lower().endswith((".gz", ".tgz")):
        raise DownloadError(f"the server sends the file only in a compressed form ({printable(encoding)[:20]})")


def _is_page(response: Response, url: str) -> bool:
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind in ("text/html", "application/xhtml+xml") and not urlsplit(url).path.lower().endswith((".html", ".htm"))


def _require_end(response: Response, facts: _Facts, certain: bool) -> None:
    """Raise an error where nothing could tell the whole file from a half."""
    chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
    if facts.total is None and not chunked and not certain:
        raise DownloadError("the server does not say how long the file is, and the recipe has no sha256 of it")


def _require_size(total: int | None, about: int | None) -> None:
    if total is not None and about is not None and abs(total - about) > about * TOLERANCE:
        raise DownloadError(
            f"the server offers {bytes_text(total)} where the recipe tells of {bytes_text(about)}: it is another file"
        )


def _continued(response: Response, part: Part, start: int, facts: _Facts) -> _Facts:
    """Return the facts of a file that an answer continues, if it does continue it."""
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip())
    total = int(found[2]) if found and found[2] != "*" else None
    changed = facts.total is not None and total is not None and total != facts.total
    validator = _validator(response.headers)
    if validator.startswith('"') and facts.validator.startswith('"'):
        changed = changed or validator != facts.validator  # not every server heeds If-Range
    if not found or int(found[1]) != start or changed:
        part.drop()
        raise _Failed("the file on the server has changed since its beginning was downloaded")
    return _Facts(facts.validator, facts.total if facts.total is not None else total)


def _validator(headers: Mapping[str, str]) -> str:
    """Return what a server tells equal files by, if it is strong enough to join two pieces; `""` if there is none."""
    tag = headers.get("ETag", "").strip()
    if re.fullmatch(r'"[\x21\x23-\x7e]*"', tag):
        return tag
    changed, now = _date(headers.get("Last-Modified")), _date(headers.get("Date"))
    if changed and now and now - changed >= _CLOCK:
        return headers["Last-Modified"].strip()
    return ""


def _date(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text or "")
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("Content-Length", "").strip()
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _asked_pause(headers: Mapping[str, str]) -> float:
    """Return the seconds that a server asks to wait, as a number or as a date; 0 where it does not."""
    text = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    until = _date(text)
    return 0.0 if until is None else max(0.0, (until - datetime.now(timezone.utc)).total_seconds())


def _write(write: Callable[[memoryview], int | None], chunk: bytes, part: Part, facts: _Facts) -> None:
    rest = memoryview(chunk)
    try:
        while rest:
            rest = rest[write(rest) or 0 :]
    except OSError as error:
        if error.errno not in _FULL:
            raise
        full = f"{part.path.parent} cannot take more ({os.strerror(error.errno)})"
        size = bytes_text(part.size)
        if facts.total is None:  # nobody knows how much room it would need
            part.drop()
            raise DiskFull(f"{full} than {size} of the file, whose size is not known; they are removed") from error
        raise DiskFull(f"{full}; {size} of {bytes_text(facts.total)} are here and stay") from error
