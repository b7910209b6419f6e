# Connections to the workers of Pinion.
#
# This and other parts for WSGI use the modules that `collections`, `signal` and `socket` are made
# of: an application that needs none of them does without their memory, which is 1 MiB.

import _collections
import _socket
from _thread import allocate_lock


class Connection:
    """One connection of a worker: its frames in both directions, and its requests."""

    def __init__(self, server, stream):
        self.server = server
        self.socket = stream
        self.descriptor = stream.fileno()
        # The beginning of a frame whose rest has not arrived.
        self.partial = b''
        # Requests that are not over, by number.
        self.requests = {}
        # Frames that wait to be sent. Any thread may append; only the holder of `send_lock` takes.
        self.queued = _collections.deque()
        self.send_lock = allocate_lock()
        # Guards what a thread that reads and a thread of the application count.
        self.lock = allocate_lock()
        self.is_lost = False
        # The name of the channel by which descriptors of files are sent; b'' if there is none.
        self.channel_token = None

    def send_descriptor(self, request, descriptor):
        """Sends the descriptor of a file by the channel. Returns whether that was possible."""
        server = self.server
        if not self.channel_token:
            if server.is_stopping:
                return False  # It accepts no connections any more.
            self.channel_token = None
            self.send(encode_frame(WANT_CHANNEL, 0))
            server.wait(request, lambda: (
                self.has_channel() or request.is_gone or server.is_stopping))
        channel = server.channels.get(self.channel_token)
        if channel is None:
            return False
        try:
            send_descriptor(channel, request.number, descriptor)
        except BlockingIOError:
            return False  # The server has not taken the last ones yet.
        except OSError:
            server.forget_channel(self)
            return False
        return True

    def has_channel(self):
        """Whether the channel is there, or the server has said that there is none."""
        return self.channel_token == b'' or self.channel_token in self.server.channels

    def queue(self, frame):
        """Queues the last frame of a request. It is sent at once if the server holds none."""
        self.queued.append(frame)
        self.server.hold(self, len(frame))

    def send(self, frame):
        """Sends a frame, and all that are queued."""
        self.queued.append(frame)
        self.flush()

    def flush(self):
        queued = self.queued
        with self.send_lock:
            if not queued:
                return
            data = queued.popleft()
            if queued:
                frames = [data]
                while queued:
                    frames.append(queued.popleft())
                data = b''.join(frames)
            if self.is_lost:
                return
            try:
                self.socket.sendall(data)
            except OSError:
                self.fail()

    def fail(self):
        """Ends the connection. The thread that reads closes it once it finds its end."""
        self.is_lost = True
        try:
            self.socket.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass  # It has ended already.
        for request in list(self.requests.values()):
            request.is_gone = True

    def receive(self):
        """Reads what has arrived without waiting. Returns whether there was anything."""
        try:
            data = self.socket.recv(RECEIVE_MAX_BYTES, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            data = b''
        if not data:
            self.server.forget(self)
            return True
        if self.partial:
            data = self.partial + data
        try:
            frames, size = decode_frames(data)
            self.partial = data[size:]
            for kind, number, content in frames:
                if kind == REQUESTS:
                    self.server.add_requests(self, content)
                else:
                    self.control(kind, number, content)
        except Exception as error:
            log('a connection of the server ends: %s' % describe_error(error))
            self.fail()
            self.server.forget(self)
        return True

    def control(self, kind, number, content):
        """Processes a frame about a request."""
        if kind == TAKE_BACK:
            self.server.give_back(self, decode_numbers(content))
            return
        if kind == FILES or kind == CHANNEL:
            if kind == FILES:
                self.channel_token = content
            else:
                self.server.add_channel(self, content)
            self.server.wake_waiting()
            return
        if kind not in (CONTENT, CONTENT_END, ROOM, GONE, STACK):
            raise ProtocolError('a frame of kind %d' % kind)
        room = decode_number(content) if kind == ROOM else 0
        request = self.requests.get(number)
        if request is None:
            return  # It is over.
        if kind == ROOM:
            with self.lock:
                request.room += room
        elif kind == STACK:
            self.server.write_stack(request)
        elif kind == GONE:
            request.is_gone = True
            self.server.drop(request)
        else:
            reader = request.input
            if reader is None:
                return
            if kind == CONTENT:
                reader.add(content)
            else:
                reader.is_complete = True
        self.server.wake_waiting()
