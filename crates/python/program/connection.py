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
        # Frames that wait to be sent, at the latest once the call of the application is over. Any
        # thread may append; only the holder of `send_lock` takes.
        self.queued = _collections.deque()
        self.send_lock = allocate_lock()
        # Guards what a thread that reads and a thread of the application count.
        self.lock = allocate_lock()
        self.is_lost = False
        # The name of the channel by which descriptors of files are sent; b'' if there is none.
        self.channel_token = b''
        # The server was asked for one and has not answered yet.
        self.wants_channel = False

    def send_file(self, request, descriptor, frames):
        """Sends the descriptor of a file by the channel, and queues the frames that refer to it.

        Returns whether that was possible.
        """
        server = self.server
        if not self.channel_token and not server.is_stopping:
            self.ask_for_channel()
            server.wait(request, lambda: (
                self.has_channel() or request.is_gone or server.is_stopping))
        # The descriptor and the frames go out before the next request for a channel: the server
        # looks for descriptors only in the one that it has opened last.
        with self.lock:
            channel = server.channels.get(self.channel_token)
            if channel is None:
                return False
            try:
                send_descriptor(channel, request.number, descriptor)
            except BlockingIOError:
                return False  # The server has not taken the last ones yet.
            except OSError:
                self.forget_channel()
                return False
            self.queued.append(frames)
        return True

    def ask_for_channel(self):
        """Asks the server for a channel, unless another thread has just done so."""
        with self.lock:
            if self.channel_token or self.wants_channel:
                return
            self.wants_channel = True
        self.send(encode_frame(WANT_CHANNEL, 0))

    def has_channel(self):
        """Whether the channel is there, or there is none and no answer is expected."""
        if self.wants_channel:
            return False
        return not self.channel_token or self.channel_token in self.server.channels

    def set_channel(self, token):
        """The server has named a channel, or has said that there is none any more."""
        with self.lock:
            self.forget_channel()
            self.channel_token = token
            self.wants_channel = False

    def forget_channel(self):
        """Closes the channel. The caller holds the lock, or is the only thread."""
        channel = self.server.channels.pop(self.channel_token, None)
        self.channel_token = b''
        if channel is not None:
            channel.close()

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
                self.set_channel(content)
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
