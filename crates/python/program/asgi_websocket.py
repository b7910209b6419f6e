# A WebSocket of an ASGI application.

import collections

# How a WebSocket stands for the application.
WS_CONNECTING, WS_OPEN, WS_DENYING, WS_CLOSED = 0, 1, 2, 3
# The names of a response in place of the WebSocket, and the part that makes them those of HTTP.
WS_RESPONSE_NAMES = ('websocket.http.response.start', 'websocket.http.response.body')
WS_RESPONSE_PREFIX = len('websocket.')
# Flags of a frame with a message.
MESSAGE_IS_BINARY, MESSAGE_CONTINUES = 1, 2
close_code = struct.Struct('<H')


class AsgiWebSocket(AsgiRequest):
    """One WebSocket, from its batch to its last frame."""

    is_head = False
    state = WS_CONNECTING
    connect_was_received = False
    # The message that says that it is closed, once it is.
    disconnect = None
    # Whether the pieces are those of a binary message.
    is_binary = False
    # Bytes of frames that have arrived and may be granted again: those of messages that the
    # application has received. Those of the message that is not whole come on top.
    returned_bytes = 0
    partial_bytes = 0

    def __init__(self, connection, number, scope, content):
        self.connection = connection
        self.number = number
        self.scope = scope
        # Whole messages, each with the bytes of its frames.
        self.messages = collections.deque()

    # Receiving

    async def receive(self):
        """The callable that the application gets; returns the next message."""
        if not self.connect_was_received:
            self.connect_was_received = True
            return {'type': 'websocket.connect'}
        while not self.messages and self.disconnect is None:
            await self.wait()
        if not self.messages:
            return dict(self.disconnect)
        message, size = self.messages.popleft()
        self.returned_bytes += size
        self.grant()
        return message

    def grant(self):
        """Lets the server send again what the application has received."""
        size = self.returned_bytes
        if not self.messages:
            # The application waits for the message that is not whole.
            size += self.partial_bytes
        if size >= WANT_MAX_BYTES // 2 and self.disconnect is None:
            self.want(size)
            self.returned_bytes = 0
            if not self.messages:
                self.partial_bytes = 0

    def want(self, size):
        self.wanted_bytes += size
        self.connection.write(encode_frame(WANT, self.number, number_content.pack(size)))

    def add_message(self, content):
        """Adds a piece of a message."""
        if not content or len(content) > self.wanted_bytes:
            raise ProtocolError('more of a message than was wanted')
        self.wanted_bytes -= len(content)
        flags = content[0]
        if self.pieces is None:
            self.pieces = []
            self.is_binary = bool(flags & MESSAGE_IS_BINARY)
        self.pieces.append(content[1:])
        self.partial_bytes += len(content)
        if not flags & MESSAGE_CONTINUES:
            self.add_whole_message(b''.join(self.pieces))
        elif not self.messages:
            self.grant()

    def add_whole_message(self, data):
        self.pieces = None
        size, self.partial_bytes = self.partial_bytes, 0
        if self.disconnect is not None:
            return
        if self.is_binary:
            message = {'type': 'websocket.receive', 'bytes': data}
        else:
            message = {'type': 'websocket.receive', 'text': data.decode('utf-8', 'replace')}
        self.messages.append((message, size))
        self.wake()

    def leave(self):
        """Notes that the client has left without a close frame."""
        self.is_gone = True
        self.close_for_application(1006, '')

    def add_close(self, content):
        """Notes that the client has closed it."""
        if len(content) < 2:
            raise ProtocolError('a close of %d bytes' % len(content))
        self.is_gone = True
        code, = close_code.unpack_from(content)
        self.close_for_application(code, content[2:].decode('utf-8', 'replace'))

    def close_for_application(self, code, reason):
        if self.disconnect is None:
            self.disconnect = {'type': 'websocket.disconnect', 'code': code, 'reason': reason}
        self.wake()

    # Sending

    async def send(self, message):
        """The callable that the application gets; sends a message."""
        kind = message['type']
        if self.state == WS_OPEN:
            if kind == 'websocket.send':
                await self.send_message(message)
            elif kind == 'websocket.close':
                self.close(message)
            else:
                raise RuntimeError("%r was sent where 'websocket.send' or 'websocket.close' was "
                                   'expected' % (kind,))
        elif self.state == WS_CONNECTING:
            self.answer(kind, message)
        elif self.state == WS_DENYING and kind == WS_RESPONSE_NAMES[1]:
            await AsgiRequest.send(self, dict(message, type=kind[WS_RESPONSE_PREFIX:]))
            if self.is_complete:
                self.state = WS_CLOSED
                self.close_for_application(1006, '')
        else:
            raise RuntimeError('%r was sent after the WebSocket was closed or the response was '
                               'complete' % (kind,))

    def answer(self, kind, message):
        """Sends the first message of the application."""
        if kind == 'websocket.accept':
            self.accept(message)
        elif kind == 'websocket.close':
            self.state = WS_CLOSED
            self.head = encode_head(403, ())
            self.send_whole(b'')
            self.close_for_application(1006, '')
        elif kind == WS_RESPONSE_NAMES[0]:
            self.head = find_head(message['status'], message.get('headers', ()))
            self.state = WS_DENYING
        else:
            raise RuntimeError("%r was sent where 'websocket.accept' or 'websocket.close' was "
                               'expected' % (kind,))

    def accept(self, message):
        lines, length = encode_fields(message.get('headers') or ())
        if length is not None:
            raise ValueError('a WebSocket has no Content-Length')
        if b'\nsec-websocket-' in b'\n' + lines.lower():
            raise ValueError('the server alone sends the headers Sec-WebSocket-*')
        subprotocol = message.get('subprotocol')
        if subprotocol is not None:
            if not isinstance(subprotocol, str) or not is_token(subprotocol):
                raise ValueError('%r is no subprotocol' % (subprotocol,))
            lines += b'Sec-WebSocket-Protocol: %b\n' % subprotocol.encode()
        self.state = WS_OPEN
        if not self.is_gone:
            head = b'101 Switching Protocols\n' + lines
            self.connection.write(encode_frame(ACCEPT, self.number, head))
            self.want(WANT_MAX_BYTES)

    async def send_message(self, message):
        data = message.get('bytes')
        flags = MESSAGE_IS_BINARY
        if data is None:
            data = message.get('text')
            if not isinstance(data, str):
                raise TypeError('the text of a message must be a str, not %s'
                                % type(data).__name__)
            data = data.encode('utf-8')
            flags = 0
        elif type(data) is not bytes:
            data = check_body(data)
        if self.is_gone:
            raise ClientDisconnected('the client has left')
        await self.send_pieces(RESPONSE_MESSAGE, bytes((flags,)), data)

    def close(self, message):
        code = message.get('code')
        if code is None:
            code = 1000
        reason = (message.get('reason') or '').encode('utf-8')
        if not isinstance(code, int) or not 1000 <= code <= 4999 or code in (1005, 1006, 1015):
            raise ValueError('%r is no code to close a WebSocket with' % (code,))
        if len(reason) > CLOSE_REASON_MAX_BYTES:
            raise ValueError('the reason to close a WebSocket has more than %d bytes'
                             % CLOSE_REASON_MAX_BYTES)
        self.state = WS_CLOSED
        if not self.is_gone:
            content = close_code.pack(code) + reason
            self.connection.write(encode_frame(CLOSE, self.number, content))
        self.close_for_application(code, message.get('reason') or '')

    # The end

    def finish(self, result):
        """Sends the last frame after the application has returned."""
        if self.is_gone or self.state in (WS_OPEN, WS_CLOSED):
            self.end()
        elif self.state == WS_CONNECTING:
            raise RuntimeError('the application has neither accepted nor closed the WebSocket')
        else:
            raise RuntimeError('the application has returned before its response was complete')

    def fail(self, error):
        """Reports an exception of the application, and sends the last frame."""
        # After ACCEPT, the server closes with code 1011.
        self.is_streaming = self.is_streaming or self.state in (WS_OPEN, WS_CLOSED)
        AsgiRequest.fail(self, error)

    def label(self):
        return 'WebSocket %s' % self.scope.get('path', '-')
