"""Connections over TLS 1.3, as a client makes them: `cargo xtask bench load` runs this.

tls.py handshakes PORT CLIENTS SECONDS full|resumed
    CLIENTS clients, each with one connection after the other that makes nothing but its handshake.
    A resumed connection continues the session of an earlier connection; a connection that the
    server did not resume is an error. Prints a line as report.lua does.
tls.py hold PORT COUNT
    Opens COUNT connections, requests a page on each, prints a line and keeps them until its input
    ends.
tls.py heads PORT COUNT
    Opens COUNT connections of HTTP/2 with windows that stay closed, and begins STREAMS requests on
    each. The heads name a long entry of the HPACK table again and again: a byte represents 4000.
    Prints the number of connections that the server has kept and the number of bytes that they have
    sent, and keeps them until its input ends.
"""
import socket
import ssl
import struct
import sys
import threading
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
    """Requests the page and reads the complete response, and the tickets before it."""
    connection.sendall(REQUEST)
    got = b""
    while b"hello world!" not in got:
        piece = connection.recv(4096)
        if not piece:
            raise OSError(f"no page: {got!r}")
        got += piece


def leave(connection):
    """Ends the connection and waits until the server has closed it: its work is then complete."""
    connection.setblocking(False)
    try:
        connection.unwrap()
    except ssl.SSLError:
        pass  # not every server responds to it
    with socket.socket(fileno=connection.detach()) as tcp:
        tcp.settimeout(TIMEOUT_SECONDS)
        tcp.shutdown(socket.SHUT_WR)
        while tcp.recv(4096):
            pass


def handshakes(port, clients, seconds, resumed):
    context, session = client(), None
    if resumed:
        with connect(context, port) as first:
            ask(first)
            session = first.session
    took, faults = [], []
    began = time.monotonic()

    def one_after_the_other():
        while time.monotonic() < began + seconds:
            start = time.monotonic()
            try:
                connection = connect(context, port, session)
                if connection.session_reused != resumed:
                    faults.append("another kind of handshake")
                leave(connection)
                took.append(int((time.monotonic() - start) * 1e6))
            except OSError as fault:
                faults.append(str(fault))

    threads = [threading.Thread(target=one_after_the_other) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report(took, int((time.monotonic() - began) * 1e6), faults)


def report(took, duration, faults):
    took.sort()

    def within(share):
        return took[min(int(len(took) * share), len(took) - 1)] if took else 0

    figures = {
        "requests": len(took), "duration": duration, "p50": within(0.5), "p75": within(0.75),
        "p90": within(0.9), "p99": within(0.99), "p999": within(0.999), "max": within(1),
        "connect": len(faults), "read": 0, "write": 0, "status": 0, "timeout": 0,
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


HEADERS, SETTINGS, PING, GOAWAY = 1, 4, 6, 7
END_STREAM_AND_HEADERS, ACK = 5, 1
# The requests that are open at the same time: a number that all servers allow.
STREAMS = 100
# :method GET, :scheme https, :authority and :path as literals (RFC 7541, section 6.2.2).
HEAD = b"\x82\x87\x01\x09localhost\x04\x0a/hello.txt"
# A literal that enters the table, with a value of 4000 bytes, and three references to it.
ENTRY = b"\x40\x01x\x7f\xa1\x1e" + b"y" * 4000
ENTRIES = b"\xbe" * 3


def frame(kind, flags, stream, payload):
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def begin_requests(connection):
    """Sends the requests; returns how many bytes, or none if the server ends the connection."""
    shut = frame(SETTINGS, 0, 0, struct.pack("!HI", 4, 0))
    said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + shut
    for at in range(STREAMS):
        fields = HEAD + (ENTRIES if at else ENTRY)
        said += frame(HEADERS, END_STREAM_AND_HEADERS, 2 * at + 1, fields)
    # The acknowledgement follows all of them.
    said += frame(PING, 0, 0, b"heads...")
    try:
        connection.sendall(said)
        got = b""
        while True:
            piece = connection.recv(65536)
            if not piece:
                return None
            got += piece
            while len(got) >= 9 and len(got) >= 9 + (length := int.from_bytes(got[:3], "big")):
                kind, flags = got[3], got[4]
                got = got[9 + length:]
                if kind == GOAWAY:
                    return None
                if kind == PING and flags & ACK:
                    return len(said)
    except OSError:
        return None


def heads(port, count):
    context, held, sent = client(), [], 0
    context.set_alpn_protocols(["h2"])
    for _ in range(count):
        connection = connect(context, port)
        if said := begin_requests(connection):
            held.append(connection)
            sent += said
    print("held", len(held), sent, flush=True)
    sys.stdin.read()


verb, port, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if verb == "hold":
    hold(port, number)
elif verb == "heads":
    heads(port, number)
else:
    handshakes(port, number, int(sys.argv[4]), sys.argv[5] == "resumed")
