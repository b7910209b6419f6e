"""The server's side of the protocol for ASGI: scopes in place of environs, and WebSockets."""

import struct

from peer import ACCEPT, CLOSE, CLOSED, MESSAGE, SENT_MESSAGE, WANT, Child, Link


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
    """A connection of a worker to a process with an ASGI application."""

    def describe(self, request):
        return scope(**request)

    def start(self, path='/', method='GET', content=b'', query=b'', **more):
        return self.batch(dict(
            more, path=path, raw_path=path.encode(), method=method, query_string=query,
            content=content))[0]

    def open(self, path='/', **more):
        """Starts a WebSocket."""
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
        # Bytes of frames that the process has requested.
        self.wanted = 0

    def frame(self):
        """Returns the next frame that is no WANT."""
        while True:
            frame = self.link.frame_of(self.number)
            if frame.kind != WANT:
                return frame
            self.wanted += struct.unpack('<I', frame.content)[0]

    def accepted(self):
        frame = self.frame()
        assert frame.kind == ACCEPT, frame
        return frame.content.decode('latin-1').split('\n')

    def send_piece(self, data, flags):
        while self.wanted < len(data) + 1:
            frame = self.link.frame_of(self.number)
            assert frame.kind == WANT, frame
            self.wanted += struct.unpack('<I', frame.content)[0]
        self.wanted -= len(data) + 1
        self.link.send(MESSAGE, self.number, bytes([flags]) + data)

    def send(self, data, size=16000):
        """Sends a message, a str or bytes, in pieces."""
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

    def message(self):
        """Returns the next message of the application, and grants space for it."""
        data = b''
        while True:
            frame = self.frame()
            assert frame.kind == SENT_MESSAGE, frame
            flags = frame.content[0]
            data += frame.content[1:]
            self.link.send_room(self.number, len(frame.content))
            if not flags & 2:
                return data if flags & 1 else data.decode()

    def close(self, code=1000, reason=''):
        self.link.send(CLOSED, self.number, struct.pack('<H', code) + reason.encode())

    def closed(self):
        frame = self.frame()
        assert frame.kind == CLOSE, frame
        return struct.unpack('<H', frame.content[:2])[0], frame.content[2:].decode()


class AsgiChild(Child):
    """A process that runs an ASGI application whose source is given."""

    interface = 'asgi'

    def link(self, address):
        return AsgiLink(address)
