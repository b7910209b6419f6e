# Finds out that the event loop is blocked: the application does something long without `await`.
#
# The server asks for the stack of a request that is over its time (STACK). The loop writes that of
# the task. A loop that is blocked does not read the question: a thread finds it unread, and writes
# where the loop is. The thread looks each WATCH_LOOP_SECONDS while there are requests, and waits on
# a lock otherwise. A call that keeps the interpreter to itself blocks this thread, too.

import socket
import sys
import time
from _thread import allocate_lock, get_ident, start_new_thread


class LoopWatch:
    """The thread that looks whether the loop reads what the server asks."""

    def __init__(self, server):
        self.server = server
        self.loop_thread = get_ident()
        self.alarm = allocate_lock()
        self.is_awake = False
        self.is_started = False

    def wake(self):
        """Lets the thread look. The loop calls it for the first of several requests."""
        self.is_awake = True
        if not self.is_started:
            self.is_started = True
            self.alarm.acquire()
            start_new_thread(self.run, ())
            return
        try:
            self.alarm.release()
        except RuntimeError:
            pass  # The thread has not waited for the last one yet.

    def has_requests(self):
        return any(connection.requests for connection in list(self.server.connections))

    def run(self):
        while True:
            unread = set()
            while self.is_awake:
                time.sleep(WATCH_LOOP_SECONDS)
                if not self.has_requests():
                    self.is_awake = False
                    # A request has perhaps come at the same time, and found it still true.
                    self.is_awake = self.has_requests()
                    continue
                before, unread = unread, self.find_unread()
                # What was there at the last look, too, the loop has had the time to read.
                self.report(before & unread)
            self.alarm.acquire()

    def find_unread(self):
        """Returns the requests whose stacks the server asks for in what the loop has not read."""
        found = set()
        for connection in list(self.server.connections):
            try:
                data = connection.socket.recv(PEEK_MAX_BYTES, socket.MSG_PEEK)
                frames, _ = decode_frames(connection.partial + data)
            except (OSError, ProtocolError):
                continue  # All was read, or the connection ends.
            for kind, number, _ in frames:
                request = connection.requests.get(number)
                if kind == STACK and request is not None and not request.has_stack:
                    found.add(request)
        return found

    def report(self, requests):
        """Writes where the loop is that does not get to these requests."""
        frames = self.find_frames() if requests else []
        for request in requests:
            request.has_stack = True
            why = ', and the event loop is blocked'
            write_stack(request.label(), frames, request.scope['headers'], why)
            # Once is enough.
            frames = []

    def find_frames(self):
        """Returns the frames of the loop, from the first one of the application on."""
        frame = sys._current_frames().get(self.loop_thread)
        frames = []
        while frame is not None and not (frames and is_own_frame(frame)):
            if not is_own_frame(frame):
                frames.append((frame, frame.f_lineno))
            frame = frame.f_back
        frames.reverse()
        return frames
