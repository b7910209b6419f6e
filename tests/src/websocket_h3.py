"""Uses aioquic to talk WebSocket over HTTP/3 (RFC 9220) to the application in websocket.mjs.

python3 websocket_h3.py PORT

Prints the message that it has received.
"""

import asyncio
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection, Setting
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration

TIMEOUT_SECONDS = 60


def frame(opcode, text):
    """Returns a message in one frame (RFC 6455 §5.2) with the masking key 0."""
    return bytes([0x80 | opcode, 0x80 | len(text), 0, 0, 0, 0]) + text


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.http, self.received = H3Connection(self._quic), bytearray()
        self.finished = asyncio.get_running_loop().create_future()

    def connect_websocket(self):
        stream = self._quic.get_next_available_stream_id()
        head = {
            ":method": "CONNECT",
            ":protocol": "websocket",
            ":scheme": "https",
            ":authority": "localhost",
            ":path": "/chat",
            "sec-websocket-version": "13",
        }
        head = [(name.encode(), value.encode()) for name, value in head.items()]
        self.http.send_headers(stream, head)
        self.transmit()

    def quic_event_received(self, event):
        for event in self.http.handle_event(event):
            if isinstance(event, HeadersReceived):
                if dict(event.headers)[b":status"] != b"200":
                    self.finished.set_exception(ConnectionError(str(event)))
                    continue
                self.http.send_data(event.stream_id, frame(1, b"hello"), False)
                self.transmit()
            if isinstance(event, DataReceived):
                self.received += event.data
                if event.data and self.received.endswith(b"hello"):
                    self.http.send_data(event.stream_id, frame(8, b""), False)
                    self.transmit()
                if event.stream_ended:
                    self.http.send_data(event.stream_id, b"", True)
                    self.transmit()
                    self.finished.set_result(None)


async def main():
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"])
    configuration.server_name, configuration.verify_mode = "localhost", ssl.CERT_NONE
    port = int(sys.argv[1])
    options = {"configuration": configuration, "create_protocol": Client}
    async with connect("127.0.0.1", port, **options) as client:
        client.connect_websocket()
        await asyncio.wait_for(client.finished, TIMEOUT_SECONDS)
        settings = client.http.received_settings
        if settings.get(Setting.ENABLE_CONNECT_PROTOCOL) != 1:
            raise SystemExit(f"the server does not support extended CONNECT: {settings}")
        # Print only the end, after the first message, which contains the fields of the request.
        print("".join(chr(byte) if 32 <= byte < 127 else "." for byte in client.received[-9:]))


asyncio.run(main())
