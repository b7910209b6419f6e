"""An application with event streams: every stream sends one event per second.

The events of different streams are spread evenly over the second, and so is the work for them.

Usage: event_stream_server.py PORT
"""

import selectors
import socket
import sys
import time

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Cache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n"
)
EVENT = b"b\r\ndata: now\n\n\r\n"
PERIOD_SECONDS = 1.0


def accept_client(listener):
    """Accepts a client and sends it the response head and the first event.

    Returns its socket, or None if no client waits or the client fails.
    """
    try:
        stream, _ = listener.accept()
    except BlockingIOError:
        return None
    stream.settimeout(5)
    request = b""
    try:
        while b"\r\n\r\n" not in request:
            piece = stream.recv(4096)
            if not piece:
                return None
            request += piece
        stream.sendall(HEAD + EVENT)
    except OSError:
        return None
    stream.setblocking(False)
    return stream


def send_event(stream):
    """Sends an event. Returns False if the client is gone, or too slow to empty its buffer."""
    try:
        return stream.send(EVENT) == len(EVENT)
    except OSError:
        stream.close()
        return False


def main():
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=4096)
    listener.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    # Tuples of the time of the next event and a stream, sorted by that time.
    streams = []
    while True:
        now = time.monotonic()
        due_streams = []
        while streams and streams[0][0] <= now:
            due_streams.append(streams.pop(0)[1])
        for stream in due_streams:
            if send_event(stream):
                streams.append((now + PERIOD_SECONDS, stream))
        wait = streams[0][0] - now if streams else PERIOD_SECONDS
        for _ in selector.select(max(0, min(wait, PERIOD_SECONDS))):
            while stream := accept_client(listener):
                streams.append((time.monotonic() + PERIOD_SECONDS, stream))


main()
