# The `wsgi.input` of a request whose body the server sends piece by piece.

import _collections
import io


class RequestBody(io.RawIOBase):
    """A request body. Its bytes are requested from the server when the application reads them.

    An `io.BufferedReader` around it provides the methods that PEP 3333 requires. The server sends
    100 Continue to the client when this process requests the first bytes.
    """

    def __init__(self, request):
        self.request = request
        self.pieces = _collections.deque()
        # The number of bytes that were requested with WANT and have not arrived.
        self.receive_window = 0
        self.is_complete = False

    def readable(self):
        return True

    def readinto(self, buffer):
        """Reads at least one byte, or returns 0 at the end of the body."""
        if not self.pieces and not self.is_complete:
            self.wait_for_piece()
        if not self.pieces:
            if self.is_complete:
                return 0
            raise ClientDisconnected('client disconnected before the whole body was read')
        piece = self.pieces.popleft()
        size = min(len(piece), len(buffer))
        buffer[:size] = piece[:size]
        if size < len(piece):
            self.pieces.appendleft(piece[size:])
        return size

    def wait_for_piece(self):
        """Waits for the next piece, the end of the body or a disconnect; enlarges the window."""
        request = self.request
        if request is None:
            raise OSError('the request is finished: its body cannot be read')
        if request.is_disconnected:
            return
        connection = request.connection
        with connection.lock:
            # Refilling a window that is half empty keeps data in transit while the application
            # processes the data that it has.
            requested_bytes = WANT_MAX_BYTES - self.receive_window
            must_request_more = self.receive_window < WANT_MAX_BYTES // 2
            if must_request_more:
                self.receive_window = WANT_MAX_BYTES
        if must_request_more:
            connection.send(encode_frame(WANT, request.number, u32_format.pack(requested_bytes)))
        connection.server.wait(request, lambda: (
            self.pieces or self.is_complete or request.is_disconnected))

    def add_piece(self, piece):
        """Appends a piece of the body that has arrived."""
        request = self.request
        if request is None:
            return  # Another thread has just finished the request.
        with request.connection.lock:
            if len(piece) > self.receive_window:
                raise ProtocolError('body exceeds the receive window')
            self.receive_window -= len(piece)
        if piece:
            self.pieces.append(piece)
