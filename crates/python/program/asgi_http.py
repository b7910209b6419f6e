# A request of an ASGI application: receive, send, and the end.

import collections

HTTP_START, HTTP_BODY = 'http.response.start', 'http.response.body'


class AsgiRequest:
    """One request, from its batch to its last frame.

    It is `receive` and `send` of the application at the same time. What is seldom needed has its
    value from the class until something sets it.
    """

    # The content that has arrived and was not received; None once all was received.
    pieces = None
    # Content that is streamed: bytes that were asked for and have not arrived.
    wanted_bytes = 0
    is_content_complete = True
    room = INITIAL_ROOM_BYTES
    # The server has said that nothing of it is needed any more.
    is_gone = False
    # What `find_head` has returned for the start of the response.
    head = None
    # HEAD was sent, or a part of the content was: what follows is compared with all that was sent.
    is_streaming = False
    sent_bytes = 0
    # The last frame was sent. What the application does after it has no effect.
    is_done = False
    # The application has sent its last message.
    is_complete = False
    # Its stack was logged because the event loop is blocked.
    has_stack = False
    task = None
    # Held by one of several calls of send while the others wait; None until one had to wait.
    send_lock = None
    # Futures of calls of receive and send that wait for something.
    waiters = ()

    def __init__(self, connection, number, scope, content):
        self.connection = connection
        self.number = number
        self.scope = scope
        self.content = content
        self.is_head = scope['method'] == 'HEAD'

    # Receiving

    async def receive(self):
        """The callable that the application gets; returns the next message."""
        content = self.content
        if content is not None and not self.is_gone and not self.is_complete:
            self.content = None
            return {'type': 'http.request', 'body': content, 'more_body': False}
        while not self.is_gone and not self.is_complete:
            if self.pieces is not None and (self.pieces or self.is_content_complete):
                return self.take_content()
            if self.pieces is not None:
                self.want_content()
            await self.wait()
        return {'type': 'http.disconnect'}

    def start_streaming(self):
        """Prepares for content that is received in pieces."""
        self.pieces = collections.deque()
        self.is_content_complete = False

    def take_content(self):
        body = b''.join(self.pieces)
        self.pieces.clear()
        more = not self.is_content_complete
        if more:
            # The next part is on its way while the application works with this one.
            self.want_content()
        else:
            self.pieces = None
        return {'type': 'http.request', 'body': body, 'more_body': more}

    def want_content(self):
        if self.wanted_bytes < WANT_MAX_BYTES // 2:
            more = WANT_MAX_BYTES - self.wanted_bytes
            self.wanted_bytes = WANT_MAX_BYTES
            self.connection.write(encode_frame(WANT, self.number, number_content.pack(more)))

    def add_content(self, piece):
        """Adds content that has arrived."""
        if len(piece) > self.wanted_bytes:
            raise ProtocolError('more content than was wanted')
        self.wanted_bytes -= len(piece)
        if piece and self.pieces is not None:
            self.pieces.append(piece)
            self.wake()

    def end_content(self):
        self.is_content_complete = True
        self.wake()

    def leave(self):
        """Notes that the client has left."""
        self.is_gone = True
        self.wake()

    # Waiting

    async def wait(self):
        """Waits until something has changed that a call of receive or send may wait for."""
        waiter = self.connection.loop.create_future()
        if not self.waiters:
            self.waiters = set()
        self.waiters.add(waiter)
        try:
            await waiter
        finally:
            self.waiters.discard(waiter)

    def wake(self):
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)

    # Sending

    async def send(self, message):
        """The callable that the application gets; sends a message."""
        kind = message['type']
        if self.head is None:
            if kind == HTTP_START:
                self.head = find_head(message['status'], message.get('headers', ()))
            else:
                self.send_early(kind, message)
        elif self.is_complete:
            raise RuntimeError('%r was sent after the response was complete' % (kind,))
        elif kind == HTTP_BODY:
            body = message.get('body', b'')
            if type(body) is not bytes:
                body = check_body(body)
            if message.get('more_body', False):
                await self.send_content(body, True)
            elif self.is_streaming or len(body) > PIECE_MAX_BYTES:
                await self.send_content(body, False)
            else:
                self.send_whole(body)
        elif kind == 'http.response.pathsend' and not self.is_streaming:
            await self.send_file(message['path'])
        else:
            raise RuntimeError('%r was sent where %r was expected' % (kind, HTTP_BODY))

    def send_early(self, kind, message):
        """Sends an informational response before the start of the response."""
        if kind == 'http.response.early_hint':
            fields = [(b'link', link) for link in message.get('links', ())]
        elif kind == 'http.response.informational':
            status = message['status']
            if not 100 <= status <= 199 or status == 101:
                raise ValueError('%r is no status of an informational response' % (status,))
            if status != 103:
                return
            fields = message.get('headers', ())
        else:
            raise RuntimeError('%r was sent where %r was expected' % (kind, HTTP_START))
        lines, length = encode_fields(fields)
        if length is not None:
            raise ValueError('early hints have no Content-Length')
        if lines and not self.is_gone:
            self.connection.write(encode_frame(HINTS, self.number, lines))

    def send_whole(self, body):
        """Sends a response of one frame."""
        head, length, has_content = self.head
        size = len(body)
        if self.is_head or not has_content:
            self.send_without_content(size)
        else:
            if length is None:
                head += b'content-length: %d\n' % size
            elif length != size:
                raise self.length_error(size)
            if self.is_gone:
                self.end()
            else:
                self.send_response(head, body)
        self.is_complete = True
        if self.waiters:
            self.wake()

    def send_response(self, head, body):
        self.is_done = True
        size = len(head)
        self.connection.write(
            response_header.pack(RESPONSE, self.number, 4 + size + len(body), size)
            + head + body)

    def length_error(self, size):
        return RuntimeError('Content-Length is %d, but there are %d bytes of content'
                            % (self.head[1], size))

    def send_without_content(self, size):
        """Sends the response to HEAD, or one whose status has no content."""
        if self.is_done:
            return
        if self.is_gone:
            self.end()
            return
        head, length, has_content = self.head
        if length is None and size and has_content:
            head += b'content-length: %d\n' % size
        self.is_done = True
        content = number_content.pack(len(head)) + head
        self.connection.write(encode_frame(RESPONSE, self.number, content))

    async def send_content(self, body, more):
        """Sends a part of the content, as the server has room."""
        if self.is_gone:
            raise ClientDisconnected('the client has left')
        if self.is_head or not self.head[2]:
            self.send_without_content(0 if more else len(body))
        else:
            length = self.head[1]
            size = self.sent_bytes + len(body)
            if length is not None and (size > length or not more and size < length):
                raise self.length_error(size)
            self.sent_bytes = size
            is_whole = not self.is_streaming and size == length and size <= PIECE_MAX_BYTES
            if is_whole and not self.is_done:
                # Frameworks often send the end as a message of its own, without content.
                self.is_streaming = True
                self.send_response(self.head[0], body)
            elif not self.is_done:
                await self.send_frames(body, more)
        if not more:
            self.is_complete = True
            self.wake()

    async def send_frames(self, body, more):
        """Sends the head if it was not sent, a part of the content, and perhaps the end."""
        if not self.is_streaming:
            head, length, _ = self.head
            if length is None and not more:
                head += b'content-length: %d\n' % len(body)
            self.is_streaming = True
            self.connection.write(encode_frame(HEAD, self.number, head))
        if body:
            await self.send_pieces(RESPONSE_CONTENT, b'', body)
        if not more:
            self.is_done = True
            self.connection.write(encode_frame(END, self.number))

    async def send_pieces(self, kind, prefix, data):
        """Sends `data` in frames; calls that come meanwhile wait until the last one is sent.

        Each frame begins with `prefix`, whose first byte is 2 more if another one follows.
        """
        size = len(data)
        lock = self.send_lock
        if (lock is None or not lock.locked()) and self.has_room(size + len(prefix)):
            self.room -= size + len(prefix)
            self.connection.write(encode_frame(kind, self.number, prefix + data))
            return
        if lock is None:
            lock = self.send_lock = asyncio.Lock()
        async with lock:
            await self.send_pieces_in_turn(kind, prefix, data)

    def has_room(self, size):
        return size <= self.room and size <= PIECE_MAX_BYTES and not self.connection.is_paused

    async def send_pieces_in_turn(self, kind, prefix, data):
        offset, size = 0, len(data)
        while True:
            while self.room <= len(prefix) or self.connection.is_paused:
                if self.is_gone:
                    break
                await self.wait()
            if self.is_gone:
                raise ClientDisconnected('the client has left')
            length = min(size - offset, self.room - len(prefix), PIECE_MAX_BYTES - len(prefix))
            piece = data[offset:offset + length]
            offset += length
            first = prefix
            if prefix and offset < size:
                first = bytes([prefix[0] | MESSAGE_CONTINUES])
            self.room -= len(prefix) + length
            self.connection.write(encode_frame(kind, self.number, first + piece))
            if offset == size:
                return

    async def send_file(self, path):
        """Sends a file as the content."""
        if not isinstance(path, str):
            raise TypeError('the path must be a str, not %s' % type(path).__name__)
        if not os.path.isabs(path):
            raise ValueError('the path must be absolute: %r' % path)
        with open(path, 'rb') as file:
            size = os.fstat(file.fileno()).st_size
            head, length, has_content = self.head
            if self.is_head or not has_content:
                self.send_without_content(size)
                self.is_complete = True
                self.wake()
                return
            if size <= PIECE_MAX_BYTES:
                self.send_whole(file.read(size))
                return
            if length is None:
                self.head = head + b'content-length: %d\n' % size, size, has_content
            more = True
            while more:
                piece = file.read(min(PIECE_MAX_BYTES, size - self.sent_bytes))
                more = bool(piece) and self.sent_bytes + len(piece) < size
                await self.send_content(piece, more)

    # The end

    def finish(self, result):
        """Sends the last frame after the application has returned."""
        if self.is_gone:
            self.end()
        elif not self.is_complete:
            if self.head is None:
                raise RuntimeError('the application has returned without a response')
            raise RuntimeError('the application has returned before its response was complete')

    def end(self):
        if not self.is_done:
            self.is_done = True
            self.connection.write(encode_frame(END, self.number))

    def fail(self, error):
        """Reports an exception of the application, and sends the last frame."""
        if self.is_gone and is_disconnection(error):
            self.end()
            return
        log(self.label() + ': the application has failed')
        print_traceback(error)
        if self.is_done:
            return
        self.is_done = True
        kind = ABORT if self.is_streaming else FAILED
        text = encode_log_line(describe_error(error))
        self.connection.write(encode_frame(kind, self.number, text))

    def label(self):
        return '%s %s' % (self.scope.get('method', '-'), self.scope.get('path', '-'))


def check_body(body):
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError('the body must be bytes, not %s' % type(body).__name__)
    return bytes(body)


def is_disconnection(error):
    """Whether an exception comes from the one that says that the client has left."""
    seen = 0
    while error is not None and seen < CAUSES_MAX:
        if isinstance(error, ClientDisconnected):
            return True
        error = error.__cause__ or error.__context__
        seen += 1
    return False
