# A connection of a worker of Pinion, and the requests of an ASGI application on it.

import marshal

CONTROL_KINDS = frozenset((CONTENT, CONTENT_END, ROOM, GONE, STACK, MESSAGE, CLOSED))
# The extensions that a scope of HTTP names.
HTTP_EXTENSIONS = {
    'http.response.early_hint': {},
    'http.response.informational': {},
    'http.response.pathsend': {},
}


class AsgiConnection:
    """The protocol of a transport of asyncio: frames in both directions.

    All requests that arrive at once are started at once, and what they send in one pass of the
    loop is written at its end.
    """

    def __init__(self, server, stream):
        self.server = server
        self.loop = server.loop
        # Only the watch uses it.
        self.socket = stream
        self.transport = None
        # The beginning of a frame whose rest has not arrived.
        self.partial = b''
        # Requests that are not over, by number.
        self.requests = {}
        # Frames that are written at the end of this pass of the loop.
        self.queued = []
        self.is_lost = False
        # The buffer of the transport is full: the server does not read.
        self.is_paused = False

    # What the transport calls

    def connection_made(self, transport):
        self.transport = transport
        self.server.connections.add(self)
        self.write(encode_frame(READY, 0, describe_process('asgi', 1)))

    def connection_lost(self, error):
        self.is_lost = True
        self.server.connections.discard(self)
        for request in list(self.requests.values()):
            request.leave()
        self.server.note_progress()

    def pause_writing(self):
        self.is_paused = True

    def resume_writing(self):
        self.is_paused = False
        for request in list(self.requests.values()):
            request.wake()

    def eof_received(self):
        return False

    def data_received(self, data):
        if self.is_lost:
            return
        if self.partial:
            data = self.partial + data
        try:
            frames, size = decode_frames(data)
            self.partial = data[size:]
            for kind, number, content in frames:
                if kind == REQUESTS:
                    self.start_requests(content)
                else:
                    self.control(kind, number, content)
        except Exception as error:
            log('a connection of the server ends: %s' % describe_error(error))
            self.is_lost = True
            self.transport.abort()

    # Frames of the server

    def start_requests(self, content):
        server = self.server
        batch = marshal.loads(content)
        if server.is_stopping:
            numbers = b''.join([number_content.pack(number) for number, _, _ in batch])
            self.write(encode_frame(GIVEN_BACK, 0, numbers))
            return
        requests, start_task, watch = self.requests, server.start_task, server.watch
        for number, scope, content in batch:
            if scope['type'] == 'http':
                request = AsgiRequest(self, number, scope, content)
                scope['extensions'] = HTTP_EXTENSIONS.copy()
                if content is None:
                    request.start_streaming()
            else:
                request = AsgiWebSocket(self, number, scope, content)
                scope['extensions'] = {'websocket.http.response': {}}
            scope['asgi'] = {'version': '3.0', 'spec_version': '2.5'}
            scope['state'] = server.state.copy()
            requests[number] = request
            # Only now: a watch that has just found no request looks once more.
            if not watch.is_awake:
                watch.wake()
            request.task = start_task(server.run(request))

    def control(self, kind, number, content):
        """Processes a frame about a request."""
        if kind == TAKE_BACK:
            # What has arrived was started.
            decode_numbers(content)
            self.write(encode_frame(GIVEN_BACK, 0))
            return
        if kind not in CONTROL_KINDS:
            raise ProtocolError('a frame of kind %d' % kind)
        room = decode_number(content) if kind == ROOM else 0
        request = self.requests.get(number)
        if request is None:
            return  # It is over.
        if kind == ROOM:
            request.room += room
            request.wake()
        elif kind == CONTENT:
            request.add_content(content)
        elif kind == CONTENT_END:
            request.end_content()
        elif kind == GONE:
            request.leave()
        elif kind == STACK:
            if not request.has_stack:
                write_task_stack(request)
        elif not isinstance(request, AsgiWebSocket):
            raise ProtocolError('a frame of kind %d for a request of HTTP' % kind)
        elif kind == MESSAGE:
            request.add_message(content)
        else:
            request.add_close(content)

    # Sending

    def write(self, frame):
        """Queues a frame until the end of this pass of the loop."""
        if not self.queued:
            self.loop.call_soon(self.flush)
        self.queued.append(frame)

    def flush(self):
        queued = self.queued
        if queued:
            data = b''.join(queued)
            queued.clear()
            if not self.is_lost:
                self.transport.write(data)
