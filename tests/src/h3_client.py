"""Runs a scenario with aioquic as an HTTP/3 client. Exits with a message if a check fails.

python3 h3_client.py SCENARIO PORT FOLDER

FOLDER contains the files that the server serves: `small.bin` and `large.bin`.
"""

import asyncio
import os
import pathlib
import socket
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import ErrorCode, H3Connection, encode_frame
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StreamReset
from aioquic.quic.packet import (
    QuicPacketType,
    QuicProtocolVersion,
    encode_long_header_first_byte,
)

TIMEOUT_SECONDS = 60
# The maximum number of attempts of a check whose result can be inconclusive.
ATTEMPTS = 20


class Response:
    def __init__(self):
        self.fields, self.body, self.awaited_bytes = {}, bytearray(), 0
        loop = asyncio.get_running_loop()
        self.complete, self.awaited_part = loop.create_future(), loop.create_future()

    @property
    def status(self):
        return int(self.fields[b":status"])

    async def wait_for_bytes(self, count):
        """Waits until `count` bytes of the body have arrived."""
        if self.complete.done():
            self.complete.result()  # Raises an exception if the response has failed.
        self.awaited_bytes, self.awaited_part = count, asyncio.get_running_loop().create_future()
        if len(self.body) < count:
            await with_timeout(self.awaited_part)

    def process_event(self, event):
        if isinstance(event, HeadersReceived):
            self.fields = dict(event.headers)
        else:
            self.body += event.data
        if len(self.body) >= self.awaited_bytes and not self.awaited_part.done():
            self.awaited_part.set_result(None)
        if event.stream_ended and not self.complete.done():
            self.complete.set_result(self)

    def fail(self, error):
        for future in (self.complete, self.awaited_part):
            if not future.done():
                future.set_exception(error)
                # Not every caller waits for the future. Reading its exception avoids a warning.
                future.exception()


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.http, self.responses = H3Connection(self._quic), {}
        self.handshake = None
        # The library does not know that a response to HEAD has no body, and would report a wrong
        # length. The scenario `requests` compares the lengths itself.
        self.http._check_content_length = lambda stream: None

    def send_request(self, path, method="GET", body=None, fields=()):
        """Sends a request and returns the Response, which is filled when data arrives."""
        stream = self._quic.get_next_available_stream_id()
        head = {":method": method, ":scheme": "https", ":authority": "localhost", ":path": path}
        head = [(name.encode(), value.encode()) for name, value in [*head.items(), *fields]]
        response = self.responses[stream] = Response()
        response.stream = stream
        self.http.send_headers(stream, head, end_stream=body is None)
        if body is not None:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        return response

    def prioritize(self, response, value):
        """Sends a PRIORITY_UPDATE frame (RFC 9218 §7.2)."""
        frame = encode_frame(0xF0700, encode_uint_var(response.stream) + value)
        self._quic.send_stream_data(self.http._local_control_stream_id, frame)
        self.transmit()

    async def get(self, path, **more):
        return await with_timeout(self.send_request(path, **more).complete)

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.handshake = event
        if isinstance(event, ConnectionTerminated):
            for response in self.responses.values():
                response.fail(ConnectionError(str(event)))
        if isinstance(event, StreamReset) and event.stream_id in self.responses:
            self.responses[event.stream_id].fail(ConnectionError(str(event)))
        for event in self.http.handle_event(event):
            response = self.responses.get(getattr(event, "stream_id", None))
            if response and isinstance(event, (DataReceived, HeadersReceived)):
                response.process_event(event)

    def certificate(self):
        """Returns the certificate of the server, or None in a resumed session."""
        return self._quic.tls._peer_certificate

    async def move(self):
        """Migrates to another local port. Packets that are in transit to the old port are lost."""
        old_transport = self._transport
        udp_socket = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        udp_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        udp_socket.bind(("::", 0, 0, 0))
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=udp_socket)
        old_transport.close()


async def with_timeout(awaited):
    return await asyncio.wait_for(awaited, TIMEOUT_SECONDS)


def configuration(**more):
    options = QuicConfiguration(is_client=True, alpn_protocols=["h3"], **more)
    options.server_name, options.verify_mode = "localhost", ssl.CERT_NONE
    return options


def connect_client(port, quic_options=None, host="127.0.0.1", **more):
    quic_options = quic_options or configuration()
    return connect(host, port, configuration=quic_options, create_protocol=Client, **more)


def check(actual, expected, subject):
    if actual != expected:
        raise SystemExit(f"{subject}: {str(actual)[:200]}, not {str(expected)[:200]}")


async def requests(port, files):
    """Sends GET, HEAD, requests for a missing file, and POST requests with unread bodies."""
    async with connect_client(port) as client:
        for name, body in files.items():
            response = await client.get(f"/{name}")
            check(response.status, 200, name)
            check(response.body == body, True, f"the body of {name}")
            check(int(response.fields[b"content-length"]), len(body), f"the length of {name}")
            head = await client.get(f"/{name}", method="HEAD")
            check((head.status, head.body), (200, b""), f"HEAD {name}")
            check(head.fields[b"etag"], response.fields[b"etag"], f"the tag of {name}")
        check((await client.get("/nothing")).status, 404, "the status of a missing file")
        for length in (0, 100, 200_000, 3_000_000):
            response = await client.get("/small.bin", method="POST", body=b"x" * length)
            check(response.status, 405, f"POST with {length} bytes")
        again = await client.get("/small.bin")
        check(again.body, files["small.bin"], "a later response")


async def far_upload(port, files):
    """Uploads a body to a script over a path with a long delay, and prints the response."""
    async with connect_client(port, host="10.9.0.1") as client:
        body = files["large.bin"]
        length = [("content-length", str(len(body)))]
        response = await client.get("/upload", method="POST", body=body, fields=length)
        print(response.body.decode(), end="")


async def far_beside(port, files):
    """Sends small requests during an upload on the same connection; they finish before it does."""
    async with connect_client(port, host="10.9.0.1") as client:
        body = files["large.bin"]
        length = [("content-length", str(len(body)))]
        upload = client.send_request("/upload", method="POST", body=body, fields=length)
        for _ in range(3):
            response = await client.get("/small.bin")
            subject = "a response during the upload"
            check((response.status, response.body), (200, files["small.bin"]), subject)
            check(upload.complete.done(), False, "the upload has finished")
        print((await with_timeout(upload.complete)).body.decode(), end="")


async def parallel(port, files):
    """Sends a hundred requests at the same time, twice."""
    async with connect_client(port) as client:
        for _ in range(2):
            responses = [client.send_request("/small.bin") for _ in range(100)]
            for response in responses:
                await with_timeout(response.complete)
                check(response.status, 200, "the status of one of many")
                check(response.body, files["small.bin"], "the body of one of many")


async def repeats(port, files):
    """Repeats the same requests; the fields stay the same while the QPACK table is in use."""
    async with connect_client(port) as client:
        requested = [(path, method) for path in ("/small.bin", "/large.bin", "/", "/nothing")
                 for method in ("GET", "HEAD", "POST")]
        known_fields = {}
        for repetition in range(12):
            responses = [client.send_request(path, method=method) for path, method in requested]
            for request, response in zip(requested, responses):
                fields = dict((await with_timeout(response.complete)).fields)
                fields.pop(b"date")
                subject = f"the fields of {request} in repetition {repetition}"
                check(fields, known_fields.setdefault(request, fields), subject)
        stream = client.http._peer_encoder_stream_id
        check(stream is not None, True, "whether the server uses the dynamic table")


async def priorities(port, files):
    """Sends Priority fields: any value is accepted, and a more urgent response arrives first."""
    async with connect_client(port) as client:
        for value in ("u=0", "u=7, i", "u=3,i=?0", "u=9", "i", "u=a", "(", "x;y=1, u=1"):
            response = await client.get("/small.bin", fields=[("priority", value)])
            check((response.status, response.body), (200, files["small.bin"]), value)
    total_bytes = len(files["large.bin"])
    low, high = [[("priority", value)] for value in ("u=5", "u=1")]

    def send_with_high_priority(client):
        return client.send_request("/large.bin", fields=high)

    await assert_overtakes(port, total_bytes, low, send_with_high_priority)
    await assert_overtakes(port, total_bytes, (), send_request_with_priority_update)
    async with connect_client(port) as client:
        incremental = [("priority", "i")]
        downloads = [client.send_request("/large.bin", fields=incremental) for _ in range(2)]
        await with_timeout(downloads[0].complete)
        check(len(downloads[1].body) > total_bytes // 2, True, "interleaved responses")


def send_request_with_priority_update(client):
    response = client.send_request("/large.bin")
    client.prioritize(response, b"u=0")
    return response


async def assert_overtakes(port, total_bytes, fields, send_urgent_request):
    """Checks that a more urgent request during a download is complete before the download."""
    for _ in range(ATTEMPTS):
        async with connect_client(port) as client:
            first = client.send_request("/large.bin", fields=fields)
            await first.wait_for_bytes(100_000)
            urgent = send_urgent_request(client)
            await urgent.wait_for_bytes(1)
            received_before = len(first.body)
            await with_timeout(urgent.complete)
            check(len(urgent.body), total_bytes, "the length of the urgent response")
            # If the download was already half complete, the order proves nothing, so try again.
            if received_before < total_bytes // 2:
                check(len(first.body) < total_bytes, True, "the order of the responses")
                return
    raise SystemExit(f"the download was half complete too early in {ATTEMPTS} attempts")


async def migration(port, files):
    """Changes the client's port and its connection ID repeatedly during a download."""
    async with connect_client(port) as client:
        response = client.send_request("/large.bin")
        part, moves = len(files["large.bin"]) // 12, 10
        for number in range(1, moves + 1):
            await response.wait_for_bytes(number * part)
            check(response.complete.done(), False, "whether the download has finished")
            await client.move()
            if number % 2:
                client.change_connection_id()
            else:
                await with_timeout(client.ping())
        await with_timeout(response.complete)
        check(response.body == files["large.bin"], True, "the body over many paths")
        check((await client.get("/small.bin")).body, files["small.bin"], "a later response")


async def keys(port, files):
    """Updates the packet protection keys during a download, and between requests."""
    async with connect_client(port) as client:
        response = client.send_request("/large.bin")
        for number in range(1, 6):
            await response.wait_for_bytes(number * 1_000_000)
            check(response.complete.done(), False, "whether the download has finished")
            client.request_key_update()
            await with_timeout(client.ping())
        await with_timeout(response.complete)
        check(response.body == files["large.bin"], True, "the body under several keys")
        for _ in range(3):
            client.request_key_update()
            check((await client.get("/small.bin")).body, files["small.bin"], "a later response")


async def close(port, files):
    """Closes connections with either error code, with and without a download in progress.

    Other clients are not affected.
    """
    for code in (ErrorCode.H3_NO_ERROR, ErrorCode.H3_INTERNAL_ERROR):
        for path in (None, "/large.bin"):
            async with connect_client(port) as client:
                if path:
                    response = client.send_request(path)
                    await response.wait_for_bytes(100_000)
                client.close(error_code=code)
                await with_timeout(client.wait_closed())
    await requests(port, files)


async def resumption(port, files):
    """Resumes a session; the server offers no early data, because it could be replayed."""
    tickets = []
    async with connect_client(port, session_ticket_handler=tickets.append) as client:
        check((await client.get("/small.bin")).status, 200, "the status on the first connection")
        check(client.handshake.session_resumed, False, "whether the first connection is resumed")
    check(bool(tickets), True, "whether the client got a ticket")
    check([ticket.max_early_data_size for ticket in tickets if ticket.max_early_data_size], [],
          "the tickets that offer early data")
    quic_options = configuration(session_ticket=tickets[-1])
    async with connect_client(port, quic_options) as client:
        check((await client.get("/small.bin")).status, 200, "the status on the second connection")
        check(client.handshake.session_resumed, True, "whether the second connection is resumed")
        check(client.handshake.early_data_accepted, False, "whether early data was accepted")
    # This client sends early data although the server does not allow it.
    tickets[0].max_early_data_size = 0xFFFFFFFF
    quic_options = configuration(session_ticket=tickets[0])
    async with connect_client(port, quic_options, wait_connected=False) as client:
        response = client.send_request("/small.bin")
        await with_timeout(response.complete)
        check(response.body, files["small.bin"], "the response to a request in early data")
        check(client.handshake.early_data_accepted, False, "whether early data was accepted")


async def names(port, files):
    """Uses server names that are not DNS names.

    Such a client gets the first certificate, which is for `localhost`, and can resume its session.
    """
    async with connect_client(port) as client:
        first = client.certificate()
    other = configuration()
    other.server_name = "second.test"
    async with connect_client(port, other) as client:
        check(client.certificate() != first, True, "whether the second certificate differs")
    for name in ("localhost:8443", "[foo.com]", "a..b", "123", "a b", "-", ".", "x" * 64):
        new_tickets = []
        for ticket in (None, new_tickets):
            quic_options = configuration(session_ticket=ticket and ticket[-1])
            quic_options.server_name = name
            connection = connect_client(
                port, quic_options, session_ticket_handler=new_tickets.append
            )
            async with connection as client:
                check((await client.get("/small.bin")).body, files["small.bin"], name)
                is_resumed = client.handshake.session_resumed
                check(is_resumed, ticket is not None, f"whether {name} is resumed")
                if ticket is None:
                    check(client.certificate(), first, f"the certificate for {name}")


async def tickets(port, files):
    """Resumes a session on many connections, with the first ticket and with later ones.

    Each connection uses another local port.
    """
    new_tickets, ports = [], set()
    async with connect_client(port, session_ticket_handler=new_tickets.append) as client:
        check((await client.get("/small.bin")).status, 200, "the status on the first connection")
        check(client.handshake.session_resumed, False, "whether the first connection is resumed")
    for number in range(32):
        quic_options = configuration(session_ticket=new_tickets[0 if number % 2 else -1])
        connection = connect_client(port, quic_options, session_ticket_handler=new_tickets.append)
        async with connection as client:
            ports.add(client._transport.get_extra_info("sockname")[1])
            check((await client.get("/small.bin")).body, files["small.bin"], "the body")
            check(client.handshake.session_resumed, True, f"whether connection {number} is resumed")
    check(len(ports) > 16, True, "whether the client used many ports")


def encode_initial(source, padded):
    """Returns an Initial packet with a PING frame, protected like a client's (RFC 9001 §5.2)."""
    destination, version, number = os.urandom(8), QuicProtocolVersion.VERSION_1, b"\0\0"
    crypto = CryptoPair()
    crypto.setup_initial(cid=destination, is_client=True, version=version)
    first = encode_long_header_first_byte(version, QuicPacketType.INITIAL, len(number) - 1)
    head = bytes([first]) + version.to_bytes(4, "big") + bytes([8]) + destination
    head += bytes([8]) + source + b"\0"
    tag, length_bytes = 16, 2
    payload = b"\x01".ljust(1200 - len(head) - length_bytes - len(number) - tag, b"\0")
    payload = payload if padded else payload[:100]
    length = len(number) + len(payload) + tag | 0x4000
    return crypto.encrypt_packet(head + length.to_bytes(2, "big") + number, payload, 0)


async def small(port, files):
    """Checks that an Initial is discarded in a datagram below 1200 bytes (RFC 9000 §14.1)."""
    udp_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp_socket.settimeout(TIMEOUT_SECONDS)
    udp_socket.connect(("127.0.0.1", port))
    for _ in range(10):
        discarded, accepted = os.urandom(8), os.urandom(8)
        lengths = len(encode_initial(discarded, False)), len(encode_initial(accepted, True))
        check(lengths, (144, 1200), "the lengths of the datagrams")
        udp_socket.send(encode_initial(discarded, False))
        udp_socket.send(encode_initial(accepted, True))
        # The destination connection ID follows the first byte, the version and its own length
        # (RFC 8999 §5.1). The server sends back the source connection ID that it has received.
        destination = udp_socket.recv(2000)[6:14]
        while destination not in (discarded, accepted):
            destination = udp_socket.recv(2000)[6:14]
        check(destination, accepted, "the connection ID of the response")
    await requests(port, files)


def main():
    scenario, port, folder = globals()[sys.argv[1]], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    files = {name: (folder / name).read_bytes() for name in ("small.bin", "large.bin")}
    asyncio.run(scenario(port, files))


main()
