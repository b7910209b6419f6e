# The `wsgi.input` of a request whose content is streamed.

import _collections
import io


class RequestContent(io.RawIOBase):
    """Content that is asked for when it is first read, and then as it is read.

    `io.BufferedReader` over it has the methods of PEP 3333. The server sends 100 Continue when the
    first content is wanted.
    """

    def __init__(self, request):
        self.request = request
        self.pieces = _collections.deque()
        # Bytes that were asked for and have not arrived.
        self.wanted_bytes = 0
        self.is_complete = False

    def readable(self):
        return True

    def readinto(self, buffer):
        """Reads at least one byte, or none at the end of the content."""
        if not self.pieces and not self.is_complete:
            self.receive()
        if not self.pieces:
            if self.is_complete:
                return 0
            raise ClientDisconnected('the client has left before all content was read')
        piece = self.pieces.popleft()
        size = min(len(piece), len(buffer))
        buffer[:size] = piece[:size]
        if size < len(piece):
            self.pieces.appendleft(piece[size:])
        return size

    def receive(self):
        request = self.request
        if request is None:
            raise OSError('the request is over: its content cannot be read')
        if request.is_gone:
            return
        connection = request.connection
        with connection.lock:
            # Half of it is on its way while the application works with the other half.
            more = WANT_MAX_BYTES - self.wanted_bytes
            is_due = self.wanted_bytes < WANT_MAX_BYTES // 2
            if is_due:
                self.wanted_bytes = WANT_MAX_BYTES
        if is_due:
            connection.send(encode_frame(WANT, request.number, number_content.pack(more)))
        connection.server.wait(request, self.has_content)

    def has_content(self):
        return bool(self.pieces) or self.is_complete or self.request.is_gone

    def add(self, piece):
        """Adds content that has arrived."""
        with self.request.connection.lock:
            if len(piece) > self.wanted_bytes:
                raise ProtocolError('more content than was wanted')
            self.wanted_bytes -= len(piece)
        if piece:
            self.pieces.append(piece)
