"""What runs in an agent's container to bring it to the proxy outside: from a port of its loopback to a socket.

It is the agent's user's, and no keeper of anything: who ends it has no network.
"""

from __future__ import annotations

from collections.abc import Mapping

from ml_bench_solvers.agents.proxy import SOCKET

MOUNT = "/dev/ml-bench"
"""Where the proxy's folder is in the container: in a file system of its own, so that it is no change to the image's."""
PORT = 3128

_URL = f"http://127.0.0.1:{PORT}"
VARIABLES: Mapping[str, str] = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _URL),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1"),
}
"""What programs find the relay by."""

# For any Python 3 that an image may have. When its first process ends, it listens.
PROGRAM = f"""
import asyncio, os, socket
probe = socket.socket(socket.AF_UNIX)
probe.connect("{MOUNT}/{SOCKET}")
probe.close()
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", {PORT}))
listener.listen(64)
if os.fork():
    os._exit(0)
os.setsid()
os.chdir("/")
nothing = os.open(os.devnull, os.O_RDWR)
for number in range(3):
    os.dup2(nothing, number)

async def pass_on(reader, writer):
    try:
        while True:
            data = await reader.read(65536)
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()

async def relay(reader, writer):
    try:
        theirs, ours = await asyncio.open_unix_connection("{MOUNT}/{SOCKET}")
    except OSError:
        writer.close()
        return
    there = asyncio.ensure_future(pass_on(reader, ours))
    await pass_on(theirs, writer)
    there.cancel()
    ours.close()
    writer.close()

loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
loop.run_until_complete(asyncio.start_server(relay, sock=listener))
loop.run_forever()
"""

START = """
python=$(command -v python3 || command -v python) || { echo "the image has no python, which the network needs" >&2
    exit 1; }
exec "$python" -I -S -c "$1"
"""
"""A script of bash that starts it, with the program as its argument."""
