# SPDX-License-Identifier: Apache-2.0
"""
``python -m structbatch.receiver --port 0``: serve, and say where as one line of JSON.
"""

from __future__ import annotations

import argparse
import sys

from structbatch.receiver.extra import require_extra


def main(arguments: list[str] | None = None) -> int:
    """
    Serve until told to stop.

    Returns:
        The exit status: 0 after Ctrl-C or the end of stdin, 1 when the address cannot be had. SIGTERM ends the process
        as it does any other, after the last answer.
    """
    parser = argparse.ArgumentParser(prog="python -m structbatch.receiver", description="Take events and count them.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", default=0, type=_port, help="port; 0: any free one (default: %(default)s)")
    options = parser.parse_args(arguments)
    require_extra()
    from structbatch.receiver.server import serve  # noqa: PLC0415

    try:
        serve(options.host, options.port)
    except KeyboardInterrupt:
        pass
    except OSError as error:
        print(f"cannot listen on {options.host} port {options.port}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        msg = "not within 0 and 65535"
        raise argparse.ArgumentTypeError(msg)
    return number


if __name__ == "__main__":
    sys.exit(main())
