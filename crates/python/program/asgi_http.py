# One request of an ASGI application: receive(), send(), and the end of the response.

import collections
import stat

RESPONSE_START_TYPE, RESPONSE_BODY_TYPE = 'http.response.start', 'http.response.body'


class AsgiRequest:
    """One request, from its arrival in a batch until its last frame is sent.

    Its methods `receive` and `send` are the callables that the application gets. Attributes that
    are seldom needed have defaults on the class, so that creating a request stays cheap.
    """

    # Pieces of a streamed body that have arrived and were not received by the application. None if
    # the body came with the request, or once all of it was received.
    pieces = None
    # The number of bytes of a streamed body that were requested with WANT and have not arrived.
    receive_window = 0
    is_body_complete = True
    send_window = INITIAL_ROOM_BYTES
    # Whether the server has reported that the client has disconnected or needs no response.
    is_disconnected = False
    # The result of `find_head()` for the message http.response.start.
    head = None
    # Whether a HEAD frame was sent, or one RESPONSE frame before the application has sent its last
    # message. It stays False if the whole response comes in one message.
    head_frame_sent = False
    sent_body_bytes = 0
    # Whether the last frame was sent. Anything that the application does after that has no effect.
    last_frame_sent = False
    # Whether the application has sent the last message of its response.
    last_message_sent = False
    # Whether the watchdog has logged the stack trace because the event loop is blocked.
    stack_was_logged = False
    task = None
    # An asyncio.Lock that a call of send() holds while its data waits for the send window, so that
    # the data of other calls comes after it. The first call that has to wait creates it.
    send_lock = None
    # The part of a message or body that does not fit into the send window yet, as a tuple: the kind
    # and the prefix of its frames, the data, and the number of bytes that were sent.
    unsent = None
    # Futures of calls of receive() and send() that wait for a frame of the server.
    waiters = ()

    def __init__(self, connection, number, scope, body):
        self.connection = connection
        self.number = number
        self.scope = scope
        self.body = body
        self.is_head_request = scope['method'] == 'HEAD'

    # receive()

    async def receive(self):
        """Implements the ASGI callable receive(): returns the next event for the application."""
        body = self.body
        if body is not None and not self.is_disconnected and not self.last_message_sent:
            self.body = None
            return {'type': 'http.request', 'body': body, 'more_body': False}
        while not self.is_disconnected and not self.last_message_sent:
            if self.pieces is not None and (self.pieces or self.is_body_complete):
                return self.take_body_message()
            if self.pieces is not None:
                self.request_more_body()
            await self.wait_for_change()
        return {'type': 'http.disconnect'}

    def expect_streamed_body(self):
        """Prepares for a body that the server sends piece by piece."""
        self.pieces = collections.deque()
        self.is_body_complete = False

    def take_body_message(self):
        """Returns an http.request event with all bytes of the body that have arrived."""
        body = b''.join(self.pieces)
        self.pieces.clear()
        more = not self.is_body_complete
        if more:
            # The next part is requested now, so that it is in transit while the application
            # processes this one.
            self.request_more_body()
        else:
            self.pieces = None
        return {'type': 'http.request', 'body': body, 'more_body': more}

    def request_more_body(self):
        """Fills the receive window up again if at least half of it is used."""
        if self.receive_window < WANT_MAX_BYTES // 2:
            more = WANT_MAX_BYTES - self.receive_window
            self.receive_window = WANT_MAX_BYTES
            self.connection.queue_frame(encode_frame(WANT, self.number, u32_format.pack(more)))

    def add_body_piece(self, piece):
        """Stores a piece of the body that has arrived."""
        if len(piece) > self.receive_window:
            raise ProtocolError('body exceeds the receive window')
        self.receive_window -= len(piece)
        if piece and self.pieces is not None:
            self.pieces.append(piece)
            self.wake_waiters()

    def end_body(self):
        self.is_body_complete = True
        self.wake_waiters()

    def on_disconnect(self):
        """Marks the client as disconnected: the server has sent GONE or closed the connection."""
        self.is_disconnected = True
        self.wake_waiters()

    # Waiting

    async def wait_for_change(self):
        """Waits until `wake_waiters()` is called; the caller then checks its condition again."""
        waiter = self.connection.loop.create_future()
        if not self.waiters:
            self.waiters = set()
        self.waiters.add(waiter)
        try:
            await waiter
        finally:
            self.waiters.discard(waiter)

    def wake_waiters(self):
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)

    # send()

    async def send(self, message):
        """Implements the ASGI callable send(): processes a message of the application."""
        kind = message['type']
        if self.head is None:
            if kind == RESPONSE_START_TYPE:
                self.head = find_head(message['status'], message.get('headers', ()))
            else:
                self.send_informational_response(kind, message)
        elif self.last_message_sent:
            raise RuntimeError('%r was sent after the response was complete' % (kind,))
        elif kind == RESPONSE_BODY_TYPE:
            body = message.get('body', b'')
            if type(body) is not bytes:
                body = check_body(body)
            if message.get('more_body', False):
                await self.send_body_part(body, True)
            elif self.head_frame_sent or len(body) > PIECE_MAX_BYTES:
                await self.send_body_part(body, False)
            else:
                self.send_one_frame_response(body)
        elif kind == 'http.response.pathsend' and not self.head_frame_sent:
            await self.send_file(message['path'])
        else:
            raise RuntimeError('%r was sent where %r was expected' % (kind, RESPONSE_BODY_TYPE))

    def send_informational_response(self, kind, message):
        """Sends a 103 response before the start of the response; ignores other 1xx responses."""
        if kind == 'http.response.early_hint':
            fields = [(b'link', link) for link in message.get('links', ())]
        elif kind == 'http.response.informational':
            status = message['status']
            if not 100 <= status <= 199 or status == 101:
                raise ValueError('invalid status of an informational response: %r' % (status,))
            if status != 103:
                return
            fields = message.get('headers', ())
        else:
            raise RuntimeError('%r was sent where %r was expected' % (kind, RESPONSE_START_TYPE))
        lines, length = encode_fields(fields)
        if length is not None:
            raise ValueError('early hints have no Content-Length')
        if lines and not self.is_disconnected:
            self.connection.queue_frame(encode_frame(HINTS, self.number, lines))

    def send_one_frame_response(self, body):
        """Sends a complete response in one frame."""
        head, length, has_body = self.head
        size = len(body)
        self.check_connected()
        if self.is_head_request or not has_body:
            self.send_without_body(size)
        else:
            if length is None:
                head += b'content-length: %d\n' % size
            elif length != size:
                raise self.content_length_error(size)
            self.queue_response_frame(head, body)
        self.last_message_sent = True
        if self.waiters:
            self.wake_waiters()

    def check_connected(self):
        if self.is_disconnected and not self.last_frame_sent:
            raise ClientDisconnected('client disconnected')

    def queue_response_frame(self, head, body):
        self.last_frame_sent = True
        size = len(head)
        self.connection.queue_frame(
            response_header_format.pack(RESPONSE, self.number, 4 + size + len(body), size)
            + head + body)

    def content_length_error(self, size):
        return RuntimeError('Content-Length is %d, but the body has %d bytes'
                            % (self.head[1], size))

    def send_without_body(self, size):
        """Sends the response to a HEAD request, or one whose status allows no body."""
        if self.last_frame_sent:
            return
        head, length, has_body = self.head
        if length is None and size and has_body:
            head += b'content-length: %d\n' % size
        self.last_frame_sent = True
        payload = u32_format.pack(len(head)) + head
        self.connection.queue_frame(encode_frame(RESPONSE, self.number, payload))

    async def send_body_part(self, body, more):
        """Sends a part of the body, and waits until it fits into the send window."""
        self.check_connected()
        if self.is_head_request or not self.head[2]:
            self.send_without_body(0 if more else len(body))
        else:
            length = self.head[1]
            size = self.sent_body_bytes + len(body)
            if length is not None and (size > length or not more and size < length):
                raise self.content_length_error(size)
            is_complete_body = size == length and size <= PIECE_MAX_BYTES
            if is_complete_body and not self.head_frame_sent and not self.last_frame_sent:
                # Frameworks often send an empty message with more_body=False after the body.
                self.head_frame_sent = True
                self.sent_body_bytes = size
                self.queue_response_frame(self.head[0], body)
            elif not self.last_frame_sent:
                await self.send_frames(body, more)
        if not more:
            self.last_message_sent = True
            self.wake_waiters()

    async def send_frames(self, body, more):
        """Sends the head if necessary, a part of the body, and END if no more follows."""
        if not self.head_frame_sent:
            head, length, _ = self.head
            if length is None and not more:
                head += b'content-length: %d\n' % len(body)
            self.head_frame_sent = True
            self.connection.queue_frame(encode_frame(HEAD, self.number, head))
        if body:
            await self.send_in_frames(RESPONSE_CONTENT, b'', body)
        if not more:
            self.last_frame_sent = True
            self.connection.queue_frame(encode_frame(END, self.number))

    async def send_in_frames(self, kind, prefix, data):
        """Sends `data` in as many frames as necessary. Concurrent calls wait for their turn.

        Each frame begins with `prefix`. It is empty or one byte, the flags of a WebSocket message;
        all frames but the last one have the flag MESSAGE_CONTINUES.
        """
        size = len(data)
        lock = self.send_lock
        if (lock is None or not lock.locked()) and self.fits_send_window(size + len(prefix)):
            self.send_window -= size + len(prefix)
            self.sent_body_bytes += size
            self.connection.queue_frame(encode_frame(kind, self.number, prefix + data))
            return
        if lock is None:
            lock = self.send_lock = asyncio.Lock()
        async with lock:
            await self.wait_until_sent()
            # If this call is cancelled from here on, `data` is sent nevertheless, as by a server
            # that buffers it: a part of it would corrupt everything that the application sends
            # later. A call that is cancelled earlier sends nothing.
            self.sent_body_bytes += size
            self.unsent = kind, prefix, data, 0
            self.send_unsent()
            await self.wait_until_sent()

    def fits_send_window(self, size):
        """Returns whether `size` bytes can be sent in one frame without waiting."""
        return (self.unsent is None and size <= self.send_window and size <= PIECE_MAX_BYTES
                and not self.connection.is_paused)

    async def wait_until_sent(self):
        while self.unsent is not None and not self.is_disconnected:
            await self.wait_for_change()
        if self.is_disconnected:
            raise ClientDisconnected('client disconnected')

    def send_unsent(self):
        """Sends as much of the unsent data as the send window allows."""
        while (self.unsent is not None and self.send_window > len(self.unsent[1])
                and not self.is_disconnected and not self.connection.is_paused):
            kind, prefix, data, offset = self.unsent
            piece = data[offset:offset + min(self.send_window, PIECE_MAX_BYTES) - len(prefix)]
            self.send_window -= len(prefix) + len(piece)
            offset += len(piece)
            if offset == len(data):
                self.unsent = None
            else:
                self.unsent = kind, prefix, data, offset
                if prefix:
                    prefix = bytes([prefix[0] | MESSAGE_CONTINUES])
            self.connection.queue_frame(encode_frame(kind, self.number, prefix + piece))

    async def send_file(self, path):
        """Sends a file as the body (the ASGI extension http.response.pathsend)."""
        if not isinstance(path, str):
            raise TypeError('the path must be a str, not %s' % type(path).__name__)
        if not os.path.isabs(path):
            raise ValueError('the path must be absolute: %r' % path)
        # Opening and reading a file can take long, on a network file system for example.
        run_in_thread = self.connection.loop.run_in_executor
        file, size, piece = await run_in_thread(None, open_regular_file, path)
        with file:
            head, length, has_body = self.head
            if self.is_head_request or not has_body:
                self.check_connected()
                self.send_without_body(size)
                self.last_message_sent = True
                self.wake_waiters()
                return
            if size <= PIECE_MAX_BYTES:
                self.send_one_frame_response(piece)
                return
            if length is None:
                self.head = head + b'content-length: %d\n' % size, size, has_body
            while piece and self.sent_body_bytes + len(piece) < size:
                await self.send_body_part(piece, True)
                piece = await run_in_thread(
                    None, file.read, min(PIECE_MAX_BYTES, size - self.sent_body_bytes))
            await self.send_body_part(piece, False)

    # The end of the response

    def finish(self, result):
        """Checks the response after the application has returned; sends END if the client left."""
        if self.is_disconnected:
            self.send_end()
        elif not self.last_message_sent:
            if self.head is None:
                raise RuntimeError('the application has returned without a response')
            raise RuntimeError('the application has returned before its response was complete')

    def send_end(self):
        if not self.last_frame_sent:
            self.last_frame_sent = True
            self.connection.queue_frame(encode_frame(END, self.number))

    def fail(self, error):
        """Logs an exception of the application, and sends the last frame."""
        if self.is_disconnected and is_caused_by_disconnect(error):
            self.send_end()
            return
        log(self.label() + ': the application has failed')
        print_traceback(error)
        if self.last_frame_sent:
            return
        self.last_frame_sent = True
        kind = ABORT if self.head_frame_sent else FAILED
        text = encode_log_line(describe_error(error))
        self.connection.queue_frame(encode_frame(kind, self.number, text))

    def label(self):
        return '%s %s' % (self.scope.get('method', '-'), self.scope.get('path', '-'))


def open_regular_file(path):
    """Returns an open file, its size, and its first piece."""
    # Without O_NONBLOCK, opening a FIFO waits for a writer.
    file = open(path, 'rb', opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        file.close()
        raise ValueError('not a regular file: %r' % path)
    return file, status.st_size, file.read(min(PIECE_MAX_BYTES, status.st_size))


def check_body(body):
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError('the body must be bytes, not %s' % type(body).__name__)
    return bytes(body)
