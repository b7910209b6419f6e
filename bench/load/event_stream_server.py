"""An application with streams of events, one each second on each stream.

The streams have their events one after the other, so that the work for them is spread evenly.
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


def accepted(listener):
    """Takes a client, if one waits, and sends it the head and the first event."""
    try:
        stream, _ = listener.accept()
    except BlockingIOError:
        return None
    stream.settimeout(5)
    asked = b""
    try:
        while b"\r\n\r\n" not in asked:
            piece = stream.recv(4096)
            if not piece:
                return None
            asked += piece
        stream.sendall(HEAD + EVENT)
    except OSError:
        return None
    stream.setblocking(False)
    return stream


def is_open(stream):
    """Sends an event. Returns false for a reader with a full buffer, which has left."""
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
    # Each stream with the time of its next event; the first one is due first.
    streams = []
    while True:
        now = time.monotonic()
        due = []
        while streams and streams[0][0] <= now:
            due.append(streams.pop(0)[1])
        for stream in due:
            if is_open(stream):
                streams.append((now + PERIOD_SECONDS, stream))
        wait = streams[0][0] - now if streams else PERIOD_SECONDS
        for _ in selector.select(max(0, min(wait, PERIOD_SECONDS))):
            while stream := accepted(listener):
                streams.append((time.monotonic() + PERIOD_SECONDS, stream))


main()
