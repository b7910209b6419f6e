"""aioquic speaks WebSocket over a stream of HTTP/3 with the application in websocket.mjs
(RFC 9220).

python3 websocket_h3.py PORT

It prints the received message.
"""

import asyncio
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection, Setting
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration

PATIENCE_SECONDS = 60


def frame(opcode, text):
    """A message of one frame (RFC 6455 §5.2); the key of the mask is 0."""
    return bytes([0x80 | opcode, 0x80 | len(text), 0, 0, 0, 0]) + text


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.http, self.came = H3Connection(self._quic), bytearray()
        self.whole = asyncio.get_running_loop().create_future()

    def ask(self):
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
                    self.whole.set_exception(ConnectionError(str(event)))
                    continue
                self.http.send_data(event.stream_id, frame(1, b"hello"), False)
                self.transmit()
            if isinstance(event, DataReceived):
                self.came += event.data
                if event.data and self.came.endswith(b"hello"):
                    self.http.send_data(event.stream_id, frame(8, b""), False)
                    self.transmit()
                if event.stream_ended:
                    self.http.send_data(event.stream_id, b"", True)
                    self.transmit()
                    self.whole.set_result(None)


async def main():
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"])
    configuration.server_name, configuration.verify_mode = "localhost", ssl.CERT_NONE
    port = int(sys.argv[1])
    own = {"configuration": configuration, "create_protocol": Client}
    async with connect("127.0.0.1", port, **own) as client:
        client.ask()
        await asyncio.wait_for(client.whole, PATIENCE_SECONDS)
        settings = client.http.received_settings
        if settings.get(Setting.ENABLE_CONNECT_PROTOCOL) != 1:
            raise SystemExit(f"the server takes no extended CONNECT: {settings}")
        # The output after the first message, which has the fields of the request.
        print("".join(chr(byte) if 32 <= byte < 127 else "." for byte in client.came[-9:]))


asyncio.run(main())
