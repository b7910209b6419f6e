# A connection between a worker of the server and this process, with the requests of an ASGI
# application on it.

import marshal

CONTROL_KINDS = frozenset((CONTENT, CONTENT_END, ROOM, GONE, STACK, MESSAGE, CLOSED))
# The `extensions` of the scope of an HTTP request.
HTTP_EXTENSIONS = {
    'http.response.early_hint': {},
    'http.response.informational': {},
    'http.response.pathsend': {},
}


class AsgiConnection:
    """The asyncio protocol that receives and sends the frames of one connection.

    All requests that arrive together start together, and the frames that they send in one iteration
    of the event loop are written together at its end.
    """

    def __init__(self, server, stream):
        self.server = server
        self.loop = server.loop
        # Only the thread of the watchdog uses the socket directly.
        self.socket = stream
        self.transport = None
        # The bytes of an incomplete frame.
        self.partial_frame = b''
        # The unfinished requests, by number.
        self.requests = {}
        # Frames that are written at the end of this iteration of the event loop.
        self.queued_frames = []
        self.is_lost = False
        # Whether this process has half-closed the connection. Requests that the server has sent in
        # the meantime cannot be given back any more.
        self.is_half_closed = False
        # Whether the transport has asked to pause writing, because the server reads too slowly.
        self.is_paused = False

    # Methods that the transport calls

    def connection_made(self, transport):
        self.transport = transport
        self.server.connections.add(self)
        self.queue_frame(encode_frame(READY, 0, describe_process('asgi', 1)))

    def connection_lost(self, error):
        self.is_lost = True
        self.server.connections.discard(self)
        for request in list(self.requests.values()):
            request.on_disconnect()
        self.server.wake_shutdown()

    def pause_writing(self):
        self.is_paused = True

    def resume_writing(self):
        self.is_paused = False
        for request in list(self.requests.values()):
            request.send_unsent()
            request.wake_waiters()

    def eof_received(self):
        return False

    def data_received(self, data):
        if self.is_lost:
            return
        if self.partial_frame:
            data = self.partial_frame + data
        try:
            frames, size = decode_frames(data)
            self.partial_frame = data[size:]
            for kind, number, payload in frames:
                if kind == REQUESTS:
                    self.start_requests(payload)
                else:
                    self.process_frame(kind, number, payload)
        except Exception as error:
            log('closing the connection to a server worker: %s' % describe_error(error))
            self.is_lost = True
            self.transport.abort()

    # Frames of the server

    def start_requests(self, payload):
        """Starts the requests of a batch, or gives them back if the process is stopping."""
        server = self.server
        batch = marshal.loads(payload)
        if server.is_stopping:
            numbers = b''.join([u32_format.pack(number) for number, _, _ in batch])
            self.queue_frame(encode_frame(GIVEN_BACK, 0, numbers))
            return
        requests, start_task, watchdog = self.requests, server.start_task, server.watchdog
        for number, scope, body in batch:
            if scope['type'] == 'http':
                request = AsgiRequest(self, number, scope, body)
                scope['extensions'] = HTTP_EXTENSIONS.copy()
                if body is None:
                    request.expect_streamed_body()
            else:
                request = AsgiWebSocket(self, number, scope)
                scope['extensions'] = {'websocket.http.response': {}}
            scope['asgi'] = {'version': '3.0', 'spec_version': '2.5'}
            scope['state'] = server.state.copy()
            requests[number] = request
            # The request must be stored before this check: a watchdog that has found no request
            # clears `is_awake` first, and then looks for requests once more.
            if not watchdog.is_awake:
                watchdog.wake()
            request.task = start_task(server.run_request(request))

    def process_frame(self, kind, number, payload):
        """Processes any frame except a batch of requests."""
        if kind == TAKE_BACK:
            # The server checks whether the event loop responds. No request is given back, because
            # all of them have started when they arrived.
            decode_numbers(payload)
            self.queue_frame(encode_frame(GIVEN_BACK, 0))
            return
        if kind not in CONTROL_KINDS:
            raise ProtocolError('unknown frame kind %d' % kind)
        added_window = decode_number(payload) if kind == ROOM else 0
        request = self.requests.get(number)
        if request is None:
            return  # The request is already finished.
        if kind == ROOM:
            request.send_window += added_window
            request.send_unsent()
            request.wake_waiters()
        elif kind == CONTENT:
            request.add_body_piece(payload)
        elif kind == CONTENT_END:
            request.end_body()
        elif kind == GONE:
            request.on_disconnect()
        elif kind == STACK:
            if not request.stack_was_logged:
                log_task_stack(request)
        elif not isinstance(request, AsgiWebSocket):
            raise ProtocolError('WebSocket frame (kind %d) for an HTTP request' % kind)
        elif kind == MESSAGE:
            request.add_message_piece(payload)
        else:
            request.on_close(payload)

    # Sending frames

    def queue_frame(self, frame):
        """Queues a frame, which is written at the end of this iteration of the event loop."""
        if not self.queued_frames:
            self.loop.call_soon(self.flush)
        self.queued_frames.append(frame)

    def flush(self):
        """Writes all queued frames to the transport."""
        queued_frames = self.queued_frames
        if queued_frames:
            data = b''.join(queued_frames)
            queued_frames.clear()
            if not self.is_lost and not self.is_half_closed:
                self.transport.write(data)

    def half_close(self):
        """Sends the queued frames, and tells the server that no more follow."""
        self.flush()
        self.is_half_closed = True
        self.transport.write_eof()
