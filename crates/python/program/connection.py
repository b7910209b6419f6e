# A connection between a worker of the server and this process, for WSGI applications.
#
# The files for WSGI import `_collections`, `_signal` and `_socket`, the C modules behind
# `collections`, `signal` and `socket`. An application that needs none of the latter saves 1 MiB of
# memory.

import _collections
import _socket
from _thread import allocate_lock


class Connection:
    """A connection of one worker, with its frames in both directions and its requests."""

    def __init__(self, server, stream):
        self.server = server
        self.socket = stream
        self.descriptor = stream.fileno()
        # The bytes of an incomplete frame.
        self.partial_frame = b''
        # The unfinished requests, by number.
        self.requests = {}
        # Frames that were not sent yet. They are sent at the end of the call, or together with
        # following responses (HELD_MAX_RESPONSES). Any thread may append; only the thread that
        # holds `send_lock` may remove.
        self.queued_frames = _collections.deque()
        self.send_lock = allocate_lock()
        # Guards the flow-control windows and the channel, which the thread that reads frames and
        # the threads of the application change.
        self.lock = allocate_lock()
        self.is_lost = False
        # The token that identifies the channel for file descriptors; b'' if there is no channel.
        self.channel_token = b''
        # Whether a channel was requested and the server has not replied yet.
        self.has_requested_channel = False

    def send_file(self, request, descriptor, frames):
        """Sends a file descriptor on the channel, and queues the frames that refer to it.

        They are flushed at the end of the application's call, or before its iterable is closed.

        Returns False if the descriptor could not be sent; the caller then reads the file itself.
        """
        server = self.server
        if not self.channel_token and not server.is_stopping:
            self.request_channel()
            server.wait(request, lambda: (
                self.channel_is_settled() or request.is_disconnected or server.is_stopping))
        # The server receives descriptors only from the channel that it has opened last. Because of
        # the lock, no thread can request another channel after the descriptor is sent and before
        # its frames are queued.
        with self.lock:
            channel = server.channels.get(self.channel_token)
            if channel is None:
                return False
            try:
                send_descriptor(channel, request.number, descriptor)
            except BlockingIOError:
                return False  # The channel is full: the server has not received earlier ones yet.
            except OSError:
                self.close_channel()
                return False
            self.queued_frames.append(frames)
        return True

    def request_channel(self):
        """Asks the server for a channel, unless another thread has already done so."""
        with self.lock:
            if self.channel_token or self.has_requested_channel:
                return
            self.has_requested_channel = True
        self.send(encode_frame(WANT_CHANNEL, 0))

    def channel_is_settled(self):
        """Returns whether the channel is open, or no reply of the server about it is pending."""
        if self.has_requested_channel:
            return False
        return not self.channel_token or self.channel_token in self.server.channels

    def set_channel(self, token):
        """Stores the token of the new channel; an empty token says that there is no channel."""
        with self.lock:
            self.close_channel()
            self.channel_token = token
            self.has_requested_channel = False

    def close_channel(self):
        """Closes the channel. The caller must hold `lock`, or be the only thread."""
        channel = self.server.channels.pop(self.channel_token, None)
        self.channel_token = b''
        if channel is not None:
            channel.close()

    def send(self, frame):
        """Sends a frame, together with all queued frames."""
        self.queued_frames.append(frame)
        self.flush()

    def flush(self):
        """Sends all queued frames with one call."""
        queued_frames = self.queued_frames
        with self.send_lock:
            if not queued_frames:
                return
            data = queued_frames.popleft()
            if queued_frames:
                frames = [data]
                while queued_frames:
                    frames.append(queued_frames.popleft())
                data = b''.join(frames)
            if self.is_lost:
                return
            try:
                self.socket.sendall(data)
            except OSError:
                self.shut_down()

    def shut_down(self):
        """Shuts the socket down. The thread that reads frames closes it when it reads the end."""
        self.is_lost = True
        try:
            self.socket.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass  # The connection has already ended.
        for request in list(self.requests.values()):
            request.is_disconnected = True

    def half_close(self):
        """Sends all queued frames, and tells the server that no more follow."""
        self.flush()
        with self.send_lock:
            self.is_lost = True
            try:
                self.socket.shutdown(_socket.SHUT_WR)
            except OSError:
                pass  # The connection has already ended.

    def receive(self):
        """Reads the data that has arrived, without waiting, and processes its frames.

        Returns False if there was none.
        """
        try:
            data = self.socket.recv(RECEIVE_MAX_BYTES, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            data = b''
        if not data:
            self.server.remove_connection(self)
            return True
        if self.partial_frame:
            data = self.partial_frame + data
        try:
            frames, size = decode_frames(data)
            self.partial_frame = data[size:]
            for kind, number, payload in frames:
                if kind == REQUESTS:
                    self.server.add_requests(self, payload)
                else:
                    self.process_frame(kind, number, payload)
        except Exception as error:
            log('closing the connection to a server worker: %s' % describe_error(error))
            self.shut_down()
            self.server.remove_connection(self)
        return True

    def process_frame(self, kind, number, payload):
        """Processes any frame except a batch of requests."""
        if kind == TAKE_BACK:
            self.server.give_back(self, decode_numbers(payload))
            return
        if kind == FILES or kind == CHANNEL:
            if kind == FILES:
                self.set_channel(payload)
            else:
                self.server.add_channel(self, payload)
            self.server.wake_waiting_threads()
            return
        if kind not in (CONTENT, CONTENT_END, ROOM, GONE, STACK):
            raise ProtocolError('unknown frame kind %d' % kind)
        added_window = decode_number(payload) if kind == ROOM else 0
        request = self.requests.get(number)
        if request is None:
            return  # The request is already finished.
        if kind == ROOM:
            with self.lock:
                request.send_window += added_window
        elif kind == STACK:
            self.server.log_stack(request)
        elif kind == GONE:
            request.is_disconnected = True
            self.server.drop_if_unstarted(request)
        else:
            reader = request.input
            if reader is None:
                return
            if kind == CONTENT:
                reader.add_piece(payload)
            else:
                reader.is_complete = True
        self.server.wake_waiting_threads()
