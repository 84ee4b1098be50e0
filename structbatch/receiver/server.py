# SPDX-License-Identifier: Apache-2.0
"""
Serve the receiver with uvicorn: one process, one event loop.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
import sys
import threading
import time

from typing import Any, Final

import uvicorn

from structbatch.receiver.app import Receiver


_STOP_GRACE: Final = 3.0
_KEEP_ALIVE: Final = 75
_LINGER_NONE: Final = struct.pack("ii", 1, 0)


class Server(uvicorn.Server):
    """
    uvicorn that says where it listens, as one line of JSON on stdout, once it does.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """
        Listen, then say so.
        """
        await super().startup(sockets=sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            host = f"[{host}]" if ":" in host else host
            print(json.dumps({"url": f"http://{host}:{port}", "pid": os.getpid()}), flush=True)  # noqa: T201

    def abort(self, client: tuple[str, int] | None) -> None:
        """
        Tear down the connection of *client* with a reset, unsent bytes included.
        """
        for connection in list(self.server_state.connections):
            if getattr(connection, "client", None) == client:
                _reset(getattr(connection, "transport", None))


def _reset(transport: Any) -> None:
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
    transport.abort()


def serve(host: str, port: int) -> None:
    """
    Serve until SIGTERM, SIGINT, or, where stdin is a pipe, until that is closed: a parent that dies closes it.

    Args:
        port: 0 lets the system choose.

    Raises:
        OSError: The address cannot be had.
    """
    receiver = Receiver()
    server = Server(
        uvicorn.Config(
            receiver,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=1,
        )
    )
    receiver.abort = server.abort
    with _listen(host, port) as sock:
        _watch_stdin(server)
        server.run(sockets=[sock])


def _listen(host: str, port: int) -> socket.socket:
    # Not socket.create_server: without the protocol's number asyncio does not switch Nagle's algorithm off for the
    # connections, and every answer waits 40 ms (https://github.com/python/cpython/blob/3.11/Lib/asyncio/base_events.py).
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(128)
    except BaseException:
        sock.close()
        raise
    return sock


def _watch_stdin(server: uvicorn.Server) -> None:
    if sys.stdin is None or sys.stdin.closed:
        return
    fd = sys.stdin.fileno()
    mode = os.fstat(fd).st_mode
    # /dev/null and a terminal are left alone: a receiver started by hand or by an init system stays.
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        threading.Thread(target=_stop_with_parent, args=(server, fd), name="stdin", daemon=True).start()


def _stop_with_parent(server: uvicorn.Server, fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except OSError:
        pass
    server.should_exit = True
    time.sleep(_STOP_GRACE)
    os._exit(1)
