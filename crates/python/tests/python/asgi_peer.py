"""The server's side of the protocol for ASGI applications: scopes and WebSockets."""

import struct

from peer import ACCEPT, CLOSE, CLOSED, MESSAGE, RESPONSE_MESSAGE, WANT, Child, Link


def scope(**more):
    base = {
        'type': 'http', 'http_version': '1.1', 'method': 'GET', 'scheme': 'http', 'path': '/',
        'raw_path': b'/', 'query_string': b'', 'root_path': '',
        'headers': [(b'host', b'localhost')], 'client': ('127.0.0.1', 50000),
        'server': ('localhost', 80),
    }
    base.update(more)
    return base


class AsgiLink(Link):
    """The connection of a worker to a process that runs an ASGI application."""

    def describe(self, request):
        return scope(**request)

    def start(self, path='/', method='GET', content=b'', query=b'', **more):
        return self.batch(dict(
            more, path=path, raw_path=path.encode(), method=method, query_string=query,
            content=content))[0]

    def open(self, path='/', **more):
        """Starts the handshake of a WebSocket."""
        self.number += 1
        described = scope(
            type='websocket', scheme='ws', path=path, subprotocols=more.pop('subprotocols', []),
            **more)
        del described['method']
        self.send_batch([(self.number, described, b'')])
        return WebSocket(self, self.number)


class WebSocket:
    """The server's side of a WebSocket."""

    def __init__(self, link, number):
        self.link = link
        self.number = number
        # The number of bytes in frames that the process allows the server to send.
        self.receive_window = 0

    def read_frame(self):
        """Returns the next frame that is not WANT."""
        while True:
            frame = self.link.read_frame_of(self.number)
            if frame.kind != WANT:
                return frame
            self.receive_window += struct.unpack('<I', frame.content)[0]

    def read_accept(self):
        frame = self.read_frame()
        assert frame.kind == ACCEPT, frame
        return frame.content.decode('latin-1').split('\n')

    def send_piece(self, data, flags):
        while self.receive_window < len(data) + 1:
            frame = self.link.read_frame_of(self.number)
            assert frame.kind == WANT, frame
            self.receive_window += struct.unpack('<I', frame.content)[0]
        self.receive_window -= len(data) + 1
        self.link.send(MESSAGE, self.number, bytes([flags]) + data)

    def send(self, data, size=16000):
        """Sends a message, a str or bytes, in pieces of at most `size` bytes."""
        flags = 1 if isinstance(data, bytes) else 0
        data = data if isinstance(data, bytes) else data.encode()
        offset = 0
        while True:
            piece = data[offset:offset + size]
            offset += size
            more = 2 if offset < len(data) else 0
            self.send_piece(piece, flags | more)
            if not more:
                return

    def read_message(self):
        """Returns the next message of the application, and enlarges the send window again."""
        data = b''
        while True:
            frame = self.read_frame()
            assert frame.kind == RESPONSE_MESSAGE, frame
            flags = frame.content[0]
            data += frame.content[1:]
            self.link.send_room(self.number, len(frame.content))
            if not flags & 2:
                return data if flags & 1 else data.decode()

    def close(self, code=1000, reason=''):
        self.link.send(CLOSED, self.number, struct.pack('<H', code) + reason.encode())

    def read_close(self):
        frame = self.read_frame()
        assert frame.kind == CLOSE, frame
        return struct.unpack('<H', frame.content[:2])[0], frame.content[2:].decode()


class AsgiChild(Child):
    """A process that runs an ASGI application, given by its source code."""

    interface = 'asgi'

    def make_link(self, address):
        return AsgiLink(address)
