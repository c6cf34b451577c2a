"""The proxy of agents: it reaches whom the list names and nobody else, whatever it is told, and tells of all of it."""

from __future__ import annotations

import contextlib
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ml_bench_solvers.agents.allowed_hosts import AllowedHosts
from ml_bench_solvers.agents.docker_workspace import Site
from ml_bench_solvers.agents.proxy import SOCKET, Bounds, Proxy
from ml_bench_solvers.agents.workspace import Network

QUICK = Bounds(connections=4, head=0.3, connect=2.0, idle=0.3)


class Server:
    """A web server on loopback, which keeps what it was asked, and answers with it."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        kept = self.heads

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                kept.append(f"{self.requestline}\n{self.headers}")
                answer = b"hello " + body
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_GET  # noqa: N815 - the name is the library's

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Listening(ThreadingHTTPServer):
            request_queue_size = 128

        self.server = Listening(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.server.shutdown()
    one.server.server_close()


class Running:
    """A proxy, and what it has told."""

    def __init__(self, *entries: str, bounds: Bounds | None = None, names: dict[str, list[str]] | None = None) -> None:
        self.told: list[dict[str, Any]] = []
        self.looked_up: list[str] = []

        def resolve(host: str, port: int) -> list[str]:
            self.looked_up.append(host)
            found = (names or {}).get(host, [host])
            if not found:
                raise socket.gaierror("nobody has this name")
            return found

        hosts = AllowedHosts.parse(entries or ["example.org"])
        self.proxy = Proxy(hosts, lambda facts: self.told.append(dict(facts)), bounds=bounds, resolve=resolve)

    def connect(self) -> socket.socket:
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(10)
        one.connect(str(self.proxy.folder / SOCKET))
        return one

    def ask(self, request: bytes) -> bytes:
        """Return all that is answered."""
        with self.connect() as one, contextlib.suppress(ConnectionResetError, BrokenPipeError):
            one.sendall(request)
            return read_all(one)
        return b""

    def wait_told(self, number: int = 1) -> dict[str, Any]:
        wait_for(lambda: len(self.told) >= number)
        return self.told[number - 1]


def read_all(one: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while data := one.recv(65536):
            found += data
    return found


def wait_for(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def running() -> Iterator[Callable[..., Running]]:
    with contextlib.ExitStack() as stack:

        def start(*entries: str, **more: Any) -> Running:
            one = Running(*entries, **more)
            stack.callback(one.proxy.close)
            return one

        yield start


Start = Callable[..., Running]


def test_a_plain_request_is_passed_on_to_the_host_that_was_checked(running: Start, server: Server) -> None:
    one = running(f"files.test:{server.port}", f"127.0.0.1:{server.port}", names={"files.test": ["127.0.0.1"]})
    url = b"http://Files.test:%d/a?b" % server.port
    answer = one.ask(
        b"POST " + url + b" HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: x\r\nConnection: keep-alive\r\n"
        b"Content-Length: 3\r\nX-Mine: y\r\n\r\nabcGET http://other.test/ HTTP/1.1\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\nhello abc")
    (head,) = server.heads
    assert head.startswith("POST /a?b HTTP/1.1\n") and "X-Mine: y" in head and "Connection: close" in head
    assert f"Host: Files.test:{server.port}" in head and "other.test" not in head and "Proxy-" not in head
    told = one.wait_told()
    assert (told["host"], told["port"], told["allowed"], told["why"]) == ("files.test", server.port, True, "")
    assert told["received"] == len(answer) and told["sent"] > 60


def test_a_tunnel_passes_both_ways_what_it_is_given(running: Start, server: Server) -> None:
    one = running(f"127.0.0.1:{server.port}")
    request = b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = one.ask(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % server.port + request)
    assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
    assert answer.endswith(b"hello ")
    told = one.wait_told()
    assert told["sent"] == len(request) and told["allowed"] and told["seconds"] < 10


def test_a_lot_passes_whole(running: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def echo() -> None:
            other, _ = listener.accept()
            with other:
                found = b""
                while data := other.recv(65536):
                    found += data
                other.sendall(found)

        thread = threading.Thread(target=echo)
        thread.start()
        one = running(f"127.0.0.1:{port}")
        sent = bytes(range(256)) * 20_000
        with one.connect() as client:
            client.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port + sent)
            client.shutdown(socket.SHUT_WR)
            assert read_all(client).partition(b"\r\n\r\n")[2] == sent
        thread.join()
    told = one.wait_told()
    assert told["sent"] == told["received"] == len(sent)


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("a.test:443", False),
        ("a.example.org:443", True),
        ("example.org:443", False),
        ("a.example.org:22", False),
        ("a.example.org.evil.test:443", False),
    ],
)
def test_a_name_that_is_not_on_the_list_is_not_even_looked_up(running: Start, target: str, allowed: bool) -> None:
    one = running("*.example.org", names={"a.example.org": []})
    answer = one.ask(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 502" if allowed else b"HTTP/1.1 403")
    assert bool(one.looked_up) is allowed
    assert b"*.example.org" in answer or allowed
    told = one.wait_told()
    assert (f"{told['host']}:{told['port']}", told["allowed"]) == (target, False) and told["why"]


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "fe80::1%lo", "10.1.2.3"])
def test_a_name_of_the_list_leads_into_no_private_network(running: Start, server: Server, address: str) -> None:
    one = running(f"a.test:{server.port}", names={"a.test": [address]})
    answer = one.ask(b"GET http://a.test:%d/ HTTP/1.1\r\n\r\n" % server.port)
    assert answer.startswith(b"HTTP/1.1 403") and not server.heads
    assert not one.wait_told()["allowed"] and address in one.told[0]["why"]


def test_what_was_checked_is_what_is_connected_to(running: Start, server: Server) -> None:
    names = {"a.test": ["169.254.169.254", "127.0.0.1"]}
    one = running(f"a.test:{server.port}", f"127.0.0.1:{server.port}", names=names)
    assert b"hello" in one.ask(b"GET http://a.test:%d/ HTTP/1.1\r\n\r\n" % server.port)
    assert one.looked_up == ["a.test"], "a second look could find another address"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", 400),
        (b"GET https://example.org/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://user@example.org/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://example.org:99999/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://example.org\\@evil.test/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http:///x HTTP/1.1\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/2.0\r\n\r\n", 400),
        (b"get http://example.org/ HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT example.org HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT example.org:443:443 HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT example.org:\xd9\xa4 HTTP/1.1\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nno field\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\na: b\n c: d\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"GET http://example.org/ HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
        (b"\x16\x03\x01" + b"\xff" * 300 + b"\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nx: " + b"y" * 100_000 + b"\r\n\r\n", 431),
        (b"x" * 100_000, 431),
    ],
)
def test_a_malformed_request_is_refused_and_reaches_nobody(running: Start, request_: bytes, status: int) -> None:
    one = running("example.org", names={"example.org": []})
    assert one.ask(request_).startswith(b"HTTP/1.1 %d " % status)
    assert not one.looked_up
    told = one.wait_told()
    assert not told["allowed"] and told["why"]
    assert b"502" in one.ask(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n"), "the next one is served"


def test_who_says_nothing_or_half_of_it_is_not_waited_for(running: Start) -> None:
    one = running(bounds=QUICK)
    one.connect().close()
    assert one.ask(b"GET http://exa").startswith(b"HTTP/1.1 408 ")
    with one.connect() as half:
        half.sendall(b"GET http://exa")
        half.shutdown(socket.SHUT_WR)
        assert read_all(half).startswith(b"HTTP/1.1 400 ")
    one.wait_told(2)
    assert [told["why"] for told in one.told] == ["no whole request came in time", "no whole request came"]


def test_a_tunnel_through_which_nothing_goes_is_ended(running: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        one = running(f"127.0.0.1:{port}", bounds=QUICK)
        answer = one.ask(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port)
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"
    assert "nothing went through" in one.wait_told()["why"]


def test_a_host_that_takes_no_connection_is_told_as_allowed(running: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    one = running(f"127.0.0.1:{port}")
    assert one.ask(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port).startswith(b"HTTP/1.1 502 ")
    assert one.wait_told()["allowed"] and "cannot be connected to" in one.told[0]["why"]


def test_more_connections_than_there_may_be_are_turned_away_and_later_ones_are_served(
    running: Start, server: Server
) -> None:
    one = running(f"127.0.0.1:{server.port}", bounds=Bounds(connections=4, head=30))
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(one.connect())
        assert one.ask(b"").startswith(b"HTTP/1.1 503 ")
    # As soon as it has noticed that the others are gone.
    wait_for(lambda: b"hello" in one.ask(b"GET http://127.0.0.1:%d/ HTTP/1.1\r\n\r\n" % server.port))


def test_other_users_cannot_come_near_the_socket_and_the_containers_user_can(running: Start) -> None:
    one = running()
    assert stat.S_IMODE(one.proxy.folder.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(one.proxy.folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((one.proxy.folder / SOCKET).stat().st_mode) == 0o666


def test_closing_ends_what_goes_on_tells_of_it_and_leaves_nothing(running: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        one = running(f"127.0.0.1:{port}")
        with one.connect() as client, one.connect() as waiting:
            client.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port)
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
            one.proxy.close()
            assert read_all(client) == read_all(waiting) == b""
    assert sorted(told["allowed"] for told in one.told) == [False, True]
    assert all(told["why"] == "the proxy was ended" for told in one.told)
    assert not one.proxy.folder.parent.exists()
    assert not any(thread.name == "ml-bench-proxy" and thread.is_alive() for thread in threading.enumerate())
    one.proxy.close()


@pytest.mark.parametrize(("network", "entries"), [("allowlist", None), ("none", ["a.test"]), ("full", ["a.test"])])
def test_a_list_without_effect_is_refused(network: Network, entries: list[str] | None) -> None:
    with pytest.raises(ValueError, match="needs a list of hosts"):
        Site(network=network, allowed=AllowedHosts.parse(entries) if entries else None)
