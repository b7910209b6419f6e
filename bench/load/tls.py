"""Opens connections over TLS 1.3 for `cargo xtask bench load`.

tls.py handshakes PORT CLIENTS SECONDS full|resumed
    Runs CLIENTS clients. Each of them opens one connection after another, and uses it only for the
    handshake. A resumed connection continues the session of an earlier connection; it is an error
    if the server does not resume the session. Prints a line in the format of report.lua.
tls.py hold PORT COUNT
    Opens COUNT connections and requests a page on each. Prints a line, and keeps the connections
    open until standard input ends.
tls.py heads PORT COUNT
    Opens COUNT connections of HTTP/2 with flow-control windows that stay closed, and sends STREAMS
    requests on each (HPACK amplification): each of the three references in a head is one byte and
    decodes to 4000 bytes. Prints the number of connections that the server has not closed and
    the number of bytes sent on them, and keeps them open until standard input ends.
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


def make_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def connect(context, port, session=None):
    tcp = socket.create_connection((HOST, port), TIMEOUT_SECONDS)
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(tcp, server_hostname="localhost", session=session)


def request_page(connection):
    """Requests the page; reads the session tickets before the response, and the response."""
    connection.sendall(REQUEST)
    received = b""
    while b"hello world!" not in received:
        piece = connection.recv(4096)
        if not piece:
            raise OSError(f"no page: {received!r}")
        received += piece


def close_connection(connection):
    """Closes the connection, and waits until the server has done its work and closed it, too."""
    connection.setblocking(False)
    try:
        connection.unwrap()
    except ssl.SSLError:
        pass  # close_notify was sent. The reply is not awaited.
    with socket.socket(fileno=connection.detach()) as tcp:
        tcp.settimeout(TIMEOUT_SECONDS)
        tcp.shutdown(socket.SHUT_WR)
        while tcp.recv(4096):
            pass


def handshakes(port, clients, seconds, resumed):
    context, session = make_context(), None
    if resumed:
        with connect(context, port) as first:
            request_page(first)
            session = first.session
    durations_us, errors = [], []
    start_time = time.monotonic()

    def run_client():
        while time.monotonic() < start_time + seconds:
            start = time.monotonic()
            try:
                connection = connect(context, port, session)
                if connection.session_reused != resumed:
                    expected = "resumed" if resumed else "not resumed"
                    errors.append(f"expected a session that is {expected}")
                close_connection(connection)
                durations_us.append(int((time.monotonic() - start) * 1e6))
            except OSError as error:
                errors.append(str(error))

    threads = [threading.Thread(target=run_client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print_report(durations_us, int((time.monotonic() - start_time) * 1e6), errors)


def print_report(durations_us, duration_us, errors):
    durations_us.sort()
    count = len(durations_us)

    def percentile(fraction):
        if not durations_us:
            return 0
        return durations_us[min(int(count * fraction), count - 1)]

    report_values = {
        "requests": count, "duration": duration_us,
        "p50": percentile(0.5), "p75": percentile(0.75), "p90": percentile(0.9),
        "p99": percentile(0.99), "p999": percentile(0.999), "max": percentile(1),
        "connect": len(errors), "read": 0, "write": 0, "status": 0, "timeout": 0,
    }
    print("measured", *(f"{name}={value}" for name, value in report_values.items()))


def hold(port, count):
    context, open_connections = make_context(), []
    for _ in range(count):
        connection = connect(context, port)
        request_page(connection)
        open_connections.append(connection)
    print("held", len(open_connections), flush=True)
    sys.stdin.read()


HEADERS, SETTINGS, PING, GOAWAY = 1, 4, 6, 7
END_STREAM_AND_HEADERS, ACK = 5, 1
# The number of concurrent requests on a connection, which all servers allow.
STREAMS = 100
# :method GET, :scheme https, :authority and :path as literals (RFC 7541, section 6.2.2).
HEAD = b"\x82\x87\x01\x09localhost\x04\x0a/hello.txt"
# A literal field with a value of 4000 bytes that is added to the dynamic table, and three indexed
# references to it.
ENTRY = b"\x40\x01x\x7f\xa1\x1e" + b"y" * 4000
ENTRIES = b"\xbe" * 3


def frame(kind, flags, stream, payload):
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def send_http2_requests(connection):
    """Sends the requests. Returns the number of bytes, or None if the server closes."""
    closed_windows = frame(SETTINGS, 0, 0, struct.pack("!HI", 4, 0))
    sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + closed_windows
    for index in range(STREAMS):
        fields = HEAD + (ENTRIES if index else ENTRY)
        sent += frame(HEADERS, END_STREAM_AND_HEADERS, 2 * index + 1, fields)
    # The server acknowledges this PING after it has read all requests.
    sent += frame(PING, 0, 0, b"heads...")
    try:
        connection.sendall(sent)
        received = b""
        while True:
            piece = connection.recv(65536)
            if not piece:
                return None
            received += piece
            while (len(received) >= 9
                   and len(received) >= 9 + (length := int.from_bytes(received[:3], "big"))):
                kind, flags = received[3], received[4]
                received = received[9 + length:]
                if kind == GOAWAY:
                    return None
                if kind == PING and flags & ACK:
                    return len(sent)
    except OSError:
        return None


def hold_http2_requests(port, count):
    context, open_connections, total_sent = make_context(), [], 0
    context.set_alpn_protocols(["h2"])
    for _ in range(count):
        connection = connect(context, port)
        if sent := send_http2_requests(connection):
            open_connections.append(connection)
            total_sent += sent
    print("held", len(open_connections), total_sent, flush=True)
    sys.stdin.read()


command, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if command == "hold":
    hold(port, count)
elif command == "heads":
    hold_http2_requests(port, count)
else:
    handshakes(port, count, int(sys.argv[4]), sys.argv[5] == "resumed")
