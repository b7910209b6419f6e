# One WebSocket of an ASGI application.

import collections

# The states of a WebSocket: not accepted yet, accepted, rejected with an HTTP response that is not
# complete yet, and closed.
WS_CONNECTING, WS_OPEN, WS_DENYING, WS_CLOSED = 0, 1, 2, 3
# The types of messages that reject a WebSocket with an HTTP response, and the length of the prefix
# without which they are the types of messages of an HTTP response.
WS_RESPONSE_TYPES = ('websocket.http.response.start', 'websocket.http.response.body')
WS_RESPONSE_PREFIX_LENGTH = len('websocket.')
# The flags of a frame with a piece of a message.
MESSAGE_IS_BINARY, MESSAGE_CONTINUES = 1, 2
close_code_format = struct.Struct('<H')


class AsgiWebSocket(AsgiRequest):
    """One WebSocket, from its arrival in a batch until its last frame is sent."""

    is_head_request = False
    state = WS_CONNECTING
    connect_was_received = False
    # The event websocket.disconnect, once the WebSocket is closed.
    disconnect_message = None
    # Whether the incomplete message in `pieces` is binary.
    is_binary = False
    # The number of bytes by which the receive window can be enlarged again: the bytes of the frames
    # of all messages that the application has received. The frames of the incomplete message are
    # counted separately.
    consumed_bytes = 0
    partial_message_bytes = 0

    def __init__(self, connection, number, scope):
        self.connection = connection
        self.number = number
        self.scope = scope
        # Complete messages, each with the number of bytes of its frames.
        self.messages = collections.deque()

    # receive()

    async def receive(self):
        """Implements the ASGI callable receive(): returns the next event for the application."""
        if not self.connect_was_received:
            self.connect_was_received = True
            return {'type': 'websocket.connect'}
        while not self.messages and self.disconnect_message is None:
            await self.wait_for_change()
        if not self.messages:
            return dict(self.disconnect_message)
        message, size = self.messages.popleft()
        self.consumed_bytes += size
        self.enlarge_receive_window()
        return message

    def enlarge_receive_window(self):
        """Lets the server send as many bytes as the application has received in messages."""
        size = self.consumed_bytes
        if not self.messages:
            # The application waits for the incomplete message, so its frames count as received.
            size += self.partial_message_bytes
        if size >= WANT_MAX_BYTES // 2 and self.disconnect_message is None:
            self.send_want(size)
            self.consumed_bytes = 0
            if not self.messages:
                self.partial_message_bytes = 0

    def send_want(self, size):
        self.receive_window += size
        self.connection.queue_frame(encode_frame(WANT, self.number, u32_format.pack(size)))

    def add_message_piece(self, payload):
        """Stores a piece of a message that has arrived."""
        if not payload or len(payload) > self.receive_window:
            raise ProtocolError('message exceeds the receive window')
        self.receive_window -= len(payload)
        flags = payload[0]
        if self.pieces is None:
            self.pieces = []
            self.is_binary = bool(flags & MESSAGE_IS_BINARY)
        self.pieces.append(payload[1:])
        self.partial_message_bytes += len(payload)
        if not flags & MESSAGE_CONTINUES:
            self.add_complete_message(b''.join(self.pieces))
        elif not self.messages:
            self.enlarge_receive_window()

    def add_complete_message(self, data):
        self.pieces = None
        size, self.partial_message_bytes = self.partial_message_bytes, 0
        if self.disconnect_message is not None:
            return
        if self.is_binary:
            message = {'type': 'websocket.receive', 'bytes': data}
        else:
            message = {'type': 'websocket.receive', 'text': data.decode('utf-8', 'replace')}
        self.messages.append((message, size))
        self.wake_waiters()

    def on_disconnect(self):
        """Processes GONE or a lost connection: the client has sent no close frame (code 1006)."""
        self.is_disconnected = True
        self.set_disconnected(1006, '')

    def on_close(self, payload):
        """Processes CLOSED: the client has closed the WebSocket with a code and a reason."""
        if len(payload) < 2:
            raise ProtocolError('payload of %d bytes has no close code' % len(payload))
        self.is_disconnected = True
        code, = close_code_format.unpack_from(payload)
        self.set_disconnected(code, payload[2:].decode('utf-8', 'replace'))

    def set_disconnected(self, code, reason):
        if self.disconnect_message is None:
            self.disconnect_message = {
                'type': 'websocket.disconnect', 'code': code, 'reason': reason}
        self.wake_waiters()

    # send()

    async def send(self, message):
        """Implements the ASGI callable send(): processes a message of the application."""
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
            self.send_first_message(kind, message)
        elif self.state == WS_DENYING and kind == WS_RESPONSE_TYPES[1]:
            await AsgiRequest.send(self, dict(message, type=kind[WS_RESPONSE_PREFIX_LENGTH:]))
            if self.last_message_sent:
                self.state = WS_CLOSED
                self.set_disconnected(1006, '')
        else:
            raise RuntimeError('%r was sent after the WebSocket was closed or the response was '
                               'complete' % (kind,))

    def send_first_message(self, kind, message):
        """Processes the first message of the application: it accepts or rejects the WebSocket."""
        if kind == 'websocket.accept':
            self.accept(message)
        elif kind == 'websocket.close':
            self.state = WS_CLOSED
            self.head = encode_head(403, ())
            self.send_one_frame_response(b'')
            self.set_disconnected(1006, '')
        elif kind == WS_RESPONSE_TYPES[0]:
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
            raise ValueError('only the server may send the headers Sec-WebSocket-*')
        subprotocol = message.get('subprotocol')
        if subprotocol is not None:
            if not isinstance(subprotocol, str) or not is_token(subprotocol):
                raise ValueError('invalid WebSocket subprotocol: %r' % (subprotocol,))
            lines += b'Sec-WebSocket-Protocol: %b\n' % subprotocol.encode()
        self.state = WS_OPEN
        if not self.is_disconnected:
            head = b'101 Switching Protocols\n' + lines
            self.connection.queue_frame(encode_frame(ACCEPT, self.number, head))
            self.send_want(WANT_MAX_BYTES)

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
        if self.is_disconnected:
            raise ClientDisconnected('client disconnected')
        await self.send_in_frames(RESPONSE_MESSAGE, bytes((flags,)), data)

    def close(self, message):
        code = message.get('code')
        if code is None:
            code = 1000
        reason = (message.get('reason') or '').encode('utf-8')
        if not isinstance(code, int) or not 1000 <= code <= 4999 or code in (1005, 1006, 1015):
            raise ValueError('invalid WebSocket close code: %r' % (code,))
        if len(reason) > CLOSE_REASON_MAX_BYTES:
            raise ValueError('the reason to close a WebSocket has more than %d bytes'
                             % CLOSE_REASON_MAX_BYTES)
        self.state = WS_CLOSED
        self.unsent = None
        if not self.is_disconnected:
            payload = close_code_format.pack(code) + reason
            self.connection.queue_frame(encode_frame(CLOSE, self.number, payload))
        self.set_disconnected(code, message.get('reason') or '')

    # The end of the WebSocket

    def finish(self, result):
        """Sends END after the application has returned, or raises if it has not responded."""
        if self.is_disconnected or self.state in (WS_OPEN, WS_CLOSED):
            self.send_end()
        elif self.state == WS_CONNECTING:
            raise RuntimeError('the application has neither accepted nor closed the WebSocket')
        else:
            raise RuntimeError('the application has returned before its response was complete')

    def fail(self, error):
        """Logs an exception of the application, and sends the last frame."""
        # The head was sent with ACCEPT. ABORT lets the server close the WebSocket with code 1011.
        self.head_frame_sent = self.head_frame_sent or self.state in (WS_OPEN, WS_CLOSED)
        AsgiRequest.fail(self, error)

    def label(self):
        return 'WebSocket %s' % self.scope.get('path', '-')
