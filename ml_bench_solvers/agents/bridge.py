"""What a program on the host calls to reach its workspace: `exec COMMAND`, `get PATH`, `put PATH`.

It is run as a file of its own, by any Python, and knows nothing but the socket that the agent `command` listens on. A
request is a line of JSON, and so is its answer; contents of files are in Base64.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
from typing import Any

SOCKET = "ML_BENCH_SOCKET"
"""Environment variable with the path of the socket."""
USAGE = "usage: exec COMMAND [SECONDS] | get PATH > FILE | put PATH < FILE"


def request(arguments: list[str], standard_input: bytes) -> dict[str, Any] | None:
    """Return what the arguments ask for; None where they ask for nothing that there is."""
    if arguments[:1] == ["exec"] and len(arguments) in (2, 3):
        seconds = arguments[2] if len(arguments) == 3 else "120"
        return {"do": "exec", "command": arguments[1], "seconds": float(seconds)}
    if arguments[:1] == ["get"] and len(arguments) == 2:
        return {"do": "get", "path": arguments[1]}
    if arguments[:1] == ["put"] and len(arguments) == 2:
        return {"do": "put", "path": arguments[1], "content": base64.b64encode(standard_input).decode("ascii")}
    return None


def main(arguments: list[str]) -> int:
    """Ask for what the arguments say, print what comes, and return the exit status."""
    wanted = request(arguments, sys.stdin.buffer.read() if arguments[:1] == ["put"] else b"")
    if wanted is None:
        print(USAGE, file=sys.stderr)
        return 2
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[SOCKET])
        connection.sendall(json.dumps(wanted).encode() + b"\n")
        with connection.makefile("rb") as answers:
            answer = json.loads(answers.readline() or b'{"error": "the workspace is gone"}')
    if "error" in answer:
        print(answer["error"], file=sys.stderr)
        return 1
    sys.stdout.buffer.write(base64.b64decode(answer.get("content", "")))
    sys.stdout.buffer.flush()
    status = answer.get("status", 0)
    # As the program `timeout` says it.
    return 124 if status is None else int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
