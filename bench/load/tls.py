"""Connections over TLS 1.3, as a client makes them: `cargo xtask bench load` runs this.

tls.py handshakes PORT SECONDS full|resumed
    One connection after the other, a handshake each and nothing else. A resumed one goes on with
    the session of a connection before them; one that the server did not resume is an error. Prints
    a line as report.lua does.
tls.py hold PORT COUNT
    Opens so many connections, asks for a page on each, prints a line and keeps them until its
    input ends.
"""
import socket
import ssl
import sys
import time

HOST = "127.0.0.1"
REQUEST = b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"
TIMEOUT_SECONDS = 10


def client():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def connect(context, port, session=None):
    tcp = socket.create_connection((HOST, port), TIMEOUT_SECONDS)
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(tcp, server_hostname="localhost", session=session)


def ask(connection):
    """Asks for the page and reads all of the answer, and the tickets before it."""
    connection.sendall(REQUEST)
    got = b""
    while b"hello world!" not in got:
        piece = connection.recv(4096)
        if not piece:
            raise OSError(f"no page: {got!r}")
        got += piece


def leave(connection):
    """Says goodbye and waits for the server's, by which it has seen all of the handshake."""
    try:
        connection.unwrap().close()
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError):
        connection.close()  # some servers hang up without a word


def handshakes(port, seconds, resumed):
    context, session = client(), None
    if resumed:
        with connect(context, port) as first:
            ask(first)
            session = first.session
    took, errors = [], 0
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        start = time.monotonic()
        try:
            connection = connect(context, port, session)
            errors += connection.session_reused != resumed
            took.append(int((time.monotonic() - start) * 1e6))
            leave(connection)
        except OSError:
            errors += 1
    report(took, int((time.monotonic() - began) * 1e6), errors)


def report(took, duration, errors):
    took.sort()

    def within(share):
        return took[min(int(len(took) * share), len(took) - 1)] if took else 0

    figures = {
        "requests": len(took), "duration": duration, "p50": within(0.5), "p75": within(0.75),
        "p90": within(0.9), "p99": within(0.99), "p999": within(0.999), "max": within(1),
        "connect": errors, "read": 0, "write": 0, "status": 0, "timeout": 0,
    }
    print("measured", *(f"{name}={value}" for name, value in figures.items()))


def hold(port, count):
    context, held = client(), []
    for _ in range(count):
        connection = connect(context, port)
        ask(connection)
        held.append(connection)
    print("held", len(held), flush=True)
    sys.stdin.read()


verb, port, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if verb == "hold":
    hold(port, number)
else:
    handshakes(port, number, sys.argv[4] == "resumed")
