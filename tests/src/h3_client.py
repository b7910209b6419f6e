"""aioquic as a client of HTTP/3: it runs a scenario, and fails with a message.

python3 h3_client.py SCENARIO PORT FOLDER

FOLDER contains the served files: `small.bin` and `large.bin`.
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

PATIENCE_SECONDS = 60


class Answer:
    def __init__(self):
        self.fields, self.content, self.bytes_wanted = {}, bytearray(), 0
        loop = asyncio.get_running_loop()
        self.whole, self.part = loop.create_future(), loop.create_future()

    @property
    def status(self):
        return int(self.fields[b":status"])

    async def has(self, count):
        """Waits until this many bytes of the content have arrived."""
        self.bytes_wanted, self.part = count, asyncio.get_running_loop().create_future()
        if len(self.content) < count:
            await patiently(self.part)

    def take(self, event):
        if isinstance(event, HeadersReceived):
            self.fields = dict(event.headers)
        else:
            self.content += event.data
        if len(self.content) >= self.bytes_wanted and not self.part.done():
            self.part.set_result(None)
        if event.stream_ended and not self.whole.done():
            self.whole.set_result(self)


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.http, self.answers = H3Connection(self._quic), {}
        self.handshake = None
        # The library does not know that a response to HEAD has no content; `requests` compares the
        # lengths.
        self.http._check_content_length = lambda stream: None

    def ask(self, path, method="GET", content=None, fields=()):
        """Begins a request; its response comes later."""
        stream = self._quic.get_next_available_stream_id()
        head = {":method": method, ":scheme": "https", ":authority": "localhost", ":path": path}
        head = [(name.encode(), value.encode()) for name, value in [*head.items(), *fields]]
        answer = self.answers[stream] = Answer()
        answer.stream = stream
        self.http.send_headers(stream, head, end_stream=content is None)
        if content is not None:
            self.http.send_data(stream, content, end_stream=True)
        self.transmit()
        return answer

    def prioritize(self, answer, value):
        """Sends PRIORITY_UPDATE (RFC 9218 §7.2)."""
        frame = encode_frame(0xF0700, encode_uint_var(answer.stream) + value)
        self._quic.send_stream_data(self.http._local_control_stream_id, frame)
        self.transmit()

    async def get(self, path, **more):
        return await patiently(self.ask(path, **more).whole)

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.handshake = event
        if isinstance(event, ConnectionTerminated):
            for answer in self.answers.values():
                if not answer.whole.done():
                    answer.whole.set_exception(ConnectionError(str(event)))
                    answer.whole.exception()  # not every caller waits for it
        if isinstance(event, StreamReset) and event.stream_id in self.answers:
            self.answers[event.stream_id].whole.set_exception(ConnectionError(str(event)))
        for event in self.http.handle_event(event):
            answer = self.answers.get(getattr(event, "stream_id", None))
            if answer and isinstance(event, (DataReceived, HeadersReceived)):
                answer.take(event)

    def certificate(self):
        """Returns the certificate of the server; none in a session that is resumed."""
        return self._quic.tls._peer_certificate

    async def move(self):
        """Continues from another port; packets on their way to the old one are lost."""
        before = self._transport
        own = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        own.bind(("::", 0, 0, 0))
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=own)
        before.close()


async def patiently(awaited):
    return await asyncio.wait_for(awaited, PATIENCE_SECONDS)


def configuration(**more):
    made = QuicConfiguration(is_client=True, alpn_protocols=["h3"], **more)
    made.server_name, made.verify_mode = "localhost", ssl.CERT_NONE
    return made


def connected(port, own=None, host="127.0.0.1", **more):
    own = own or configuration()
    return connect(host, port, configuration=own, create_protocol=Client, **more)


def equal(found, wanted, what):
    if found != wanted:
        raise SystemExit(f"{what}: {str(found)[:200]}, not {str(wanted)[:200]}")


async def requests(port, files):
    """GET, HEAD, missing resources, and content that is not read."""
    async with connected(port) as client:
        for name, content in files.items():
            answer = await client.get(f"/{name}")
            equal(answer.status, 200, name)
            equal(answer.content == content, True, f"the content of {name}")
            equal(int(answer.fields[b"content-length"]), len(content), f"the length of {name}")
            head = await client.get(f"/{name}", method="HEAD")
            equal((head.status, head.content), (200, b""), f"HEAD {name}")
            equal(head.fields[b"etag"], answer.fields[b"etag"], f"the tag of {name}")
        equal((await client.get("/nothing")).status, 404, "what is not there")
        for length in (0, 100, 200_000, 3_000_000):
            answer = await client.get("/small.bin", method="POST", content=b"x" * length)
            equal(answer.status, 405, f"POST with {length} bytes")
        again = await client.get("/small.bin")
        equal(again.content, files["small.bin"], "the request behind them")


async def far_upload(port, files):
    """Sends content to a script at the other end of a long path; prints the response."""
    async with connected(port, host="10.9.0.1") as client:
        content = files["large.bin"]
        length = [("content-length", str(len(content)))]
        answer = await client.get("/upload", method="POST", content=content, fields=length)
        print(answer.content.decode(), end="")


async def far_beside(port, files):
    """Sends small requests during an upload, on one connection: they end before it does."""
    async with connected(port, host="10.9.0.1") as client:
        content = files["large.bin"]
        length = [("content-length", str(len(content)))]
        upload = client.ask("/upload", method="POST", content=content, fields=length)
        for _ in range(3):
            answer = await client.get("/small.bin")
            equal((answer.status, answer.content), (200, files["small.bin"]), "beside the upload")
            equal(upload.whole.done(), False, "the upload is over")
        print((await patiently(upload.whole)).content.decode(), end="")


async def parallel(port, files):
    """Sends a hundred requests at the same time, and as many again."""
    async with connected(port) as client:
        for _ in range(2):
            answers = [client.ask("/small.bin") for _ in range(100)]
            for answer in answers:
                whole = await patiently(answer.whole)
                equal((whole.status, whole.content), (200, files["small.bin"]), "one of many")


async def repeats(port, files):
    """Repeats the same requests: the fields stay the same while the table is used."""
    async with connected(port) as client:
        asked = [(path, method) for path in ("/small.bin", "/large.bin", "/", "/nothing")
                 for method in ("GET", "HEAD", "POST")]
        known = {}
        for turn in range(12):
            answers = [(one, client.ask(one[0], method=one[1])) for one in asked]
            for one, answer in answers:
                fields = dict((await patiently(answer.whole)).fields)
                fields.pop(b"date")
                equal(fields, known.setdefault(one, fields), f"the fields of {one} in turn {turn}")
        stream = client.http._peer_encoder_stream_id
        equal(stream is not None, True, "the server uses the table")


async def priorities(port, files):
    """A field of priority with any value is accepted; a more urgent response comes first."""
    async with connected(port) as client:
        for value in ("u=0", "u=7, i", "u=3,i=?0", "u=9", "i", "u=a", "(", "x;y=1, u=1"):
            answer = await client.get("/small.bin", fields=[("priority", value)])
            equal((answer.status, answer.content), (200, files["small.bin"]), value)
    whole = len(files["large.bin"])
    low, high = [[("priority", value)] for value in ("u=5", "u=1")]
    await overtakes(port, whole, low, lambda client: client.ask("/large.bin", fields=high))
    await overtakes(port, whole, (), urgent_by_a_frame)
    async with connected(port) as client:
        both = [client.ask("/large.bin", fields=[("priority", "i")]) for _ in range(2)]
        await patiently(both[0].whole)
        equal(len(both[1].content) > whole // 2, True, "answers in turn")


def urgent_by_a_frame(client):
    answer = client.ask("/large.bin")
    client.prioritize(answer, b"u=0")
    return answer


async def overtakes(port, whole, fields, ask_urgent):
    """A more urgent request during a download is complete before the download."""
    while True:
        async with connected(port) as client:
            first = client.ask("/large.bin", fields=fields)
            await first.has(100_000)
            urgent = ask_urgent(client)
            await urgent.has(1)
            came_before = len(first.content)
            await patiently(urgent.whole)
            equal(len(urgent.content), whole, "what is urgent")
            # A request that is sent when the download is nearly complete proves nothing.
            if came_before < whole // 2:
                equal(len(first.content) < whole, True, "what is not comes later")
                return


async def migration(port, files):
    """The client changes its port and its connection ID repeatedly during a download."""
    async with connected(port) as client:
        answer = client.ask("/large.bin")
        part, moves = len(files["large.bin"]) // 12, 10
        for number in range(1, moves + 1):
            await answer.has(number * part)
            equal(answer.whole.done(), False, "a download that goes on")
            await client.move()
            if number % 2:
                client.change_connection_id()
            else:
                await patiently(client.ping())
        await patiently(answer.whole)
        equal(answer.content == files["large.bin"], True, "what came over many paths")
        equal((await client.get("/small.bin")).content, files["small.bin"], "behind it")


async def keys(port, files):
    """The keys change during a download, and between requests."""
    async with connected(port) as client:
        answer = client.ask("/large.bin")
        for number in range(1, 6):
            await answer.has(number * 1_000_000)
            equal(answer.whole.done(), False, "a download that goes on")
            client.request_key_update()
            await patiently(client.ping())
        await patiently(answer.whole)
        equal(answer.content == files["large.bin"], True, "what came by several keys")
        for _ in range(3):
            client.request_key_update()
            equal((await client.get("/small.bin")).content, files["small.bin"], "behind it")


async def close(port, files):
    """A client that leaves with either code, during a download and without one, does not affect
    other clients."""
    for code in (ErrorCode.H3_NO_ERROR, ErrorCode.H3_INTERNAL_ERROR):
        for path in (None, "/large.bin"):
            async with connected(port) as client:
                if path:
                    answer = client.ask(path)
                    await answer.has(100_000)
                client.close(error_code=code)
                await patiently(client.wait_closed())
    await requests(port, files)


async def resumption(port, files):
    """A session is resumed, and early data is not offered: a request could be played again."""
    tickets = []
    async with connected(port, session_ticket_handler=tickets.append) as client:
        equal((await client.get("/small.bin")).status, 200, "the first connection")
        equal(client.handshake.session_resumed, False, "the first one is resumed")
    equal(bool(tickets), True, "a ticket")
    equal([ticket.max_early_data_size for ticket in tickets if ticket.max_early_data_size], [],
          "early data offered")
    own = configuration(session_ticket=tickets[-1])
    async with connected(port, own) as client:
        equal((await client.get("/small.bin")).status, 200, "the second connection")
        equal(client.handshake.session_resumed, True, "the second one is resumed")
        equal(client.handshake.early_data_accepted, False, "early data accepted")
    # A client that offers early data although the server does not allow it.
    tickets[0].max_early_data_size = 0xFFFFFFFF
    own = configuration(session_ticket=tickets[0])
    async with connected(port, own, wait_connected=False) as client:
        answer = client.ask("/small.bin")
        await patiently(answer.whole)
        equal(answer.content, files["small.bin"], "what was asked for too early")
        equal(client.handshake.early_data_accepted, False, "early data of a client accepted")


async def names(port, files):
    """A client whose server name is no DNS name gets the certificate of `localhost`, which is the
    first one, and resumes its session with a ticket."""
    async with connected(port) as client:
        first = client.certificate()
    other = configuration()
    other.server_name = "second.test"
    async with connected(port, other) as client:
        equal(client.certificate() != first, True, "the second certificate is another")
    for name in ("localhost:8443", "[foo.com]", "a..b", "123", "a b", "-", ".", "x" * 64):
        given = []
        for ticket in (None, given):
            own = configuration(session_ticket=ticket and ticket[-1])
            own.server_name = name
            async with connected(port, own, session_ticket_handler=given.append) as client:
                equal((await client.get("/small.bin")).content, files["small.bin"], name)
                equal(client.handshake.session_resumed, ticket is not None, f"{name} resumed")
                if ticket is None:
                    equal(client.certificate(), first, f"the certificate for {name}")


async def tickets(port, files):
    """A session is resumed on every further connection, with the first ticket and with later ones;
    each connection has a port of its own."""
    given, ports = [], set()
    async with connected(port, session_ticket_handler=given.append) as client:
        equal((await client.get("/small.bin")).status, 200, "the first connection")
        equal(client.handshake.session_resumed, False, "the first one is resumed")
    for number in range(32):
        own = configuration(session_ticket=given[0 if number % 2 else -1])
        async with connected(port, own, session_ticket_handler=given.append) as client:
            ports.add(client._transport.get_extra_info("sockname")[1])
            equal((await client.get("/small.bin")).content, files["small.bin"], "what is served")
            equal(client.handshake.session_resumed, True, f"connection {number} is resumed")
    equal(len(ports) > 16, True, "ports of the client")


def initial(source, padded):
    """Returns an Initial packet with a PING, protected as a client does (RFC 9001 §5.2)."""
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
    """RFC 9000 §14.1: an Initial in a datagram below 1200 bytes is discarded."""
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.settimeout(PATIENCE_SECONDS)
    own.connect(("127.0.0.1", port))
    for _ in range(10):
        discarded, answered = os.urandom(8), os.urandom(8)
        equal((len(initial(discarded, False)), len(initial(answered, True))), (144, 1200), "bytes")
        own.send(initial(discarded, False))
        own.send(initial(answered, True))
        # The source that the server responds to, after the first byte and the version (RFC 8999
        # §5.1).
        destination = own.recv(2000)[6:14]
        while destination not in (discarded, answered):
            destination = own.recv(2000)[6:14]
        equal(destination, answered, "what is answered")
    await requests(port, files)


def main():
    scenario, port, folder = globals()[sys.argv[1]], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    files = {name: (folder / name).read_bytes() for name in ("small.bin", "large.bin")}
    asyncio.run(scenario(port, files))


main()
