# A watchdog that reports a blocked event loop: the application runs for long without `await`.
#
# The server sends STACK to get the stack trace of a request that exceeds its time limit, and the
# event loop logs the stack of the request's task. A blocked loop cannot read that frame. This
# watchdog, a thread, finds the unread frame, and logs the stack of the event loop's thread. It
# checks every LOOP_CHECK_SECONDS while there are requests, and otherwise waits on a lock. A call of
# an extension module that holds the global interpreter lock blocks the watchdog, too.

import socket
import sys
import time
from _thread import allocate_lock, get_ident


class LoopWatchdog:
    """A thread that checks whether the event loop reads the STACK frames of the server."""

    def __init__(self, server):
        self.server = server
        self.loop_thread = get_ident()
        # The thread waits for this lock while there are no requests; releasing it wakes the thread.
        self.wake_lock = allocate_lock()
        self.is_awake = False
        self.is_started = False

    def wake(self):
        """Wakes the thread. The event loop calls this when a request arrives and it is asleep."""
        self.is_awake = True
        if not self.is_started:
            self.is_started = True
            self.wake_lock.acquire()
            start_thread(self.run)
            return
        try:
            self.wake_lock.release()
        except RuntimeError:
            pass  # The thread has not waited since the last wake-up, so it is awake anyway.

    def has_requests(self):
        return any(connection.requests for connection in list(self.server.connections))

    def run(self):
        while True:
            unread = set()
            while self.is_awake:
                time.sleep(LOOP_CHECK_SECONDS)
                if not self.has_requests():
                    self.is_awake = False
                    # A request may have arrived in the meantime, when the flag was still true, and
                    # then has not woken this thread.
                    self.is_awake = self.has_requests()
                    continue
                previously_unread, unread = unread, self.find_unread_stack_frames()
                # Frames that were also unread at the previous check have waited long enough.
                self.log_blocked_requests(previously_unread & unread)
            self.wake_lock.acquire()

    def find_unread_stack_frames(self):
        """Returns the requests for which a STACK frame waits in a socket's receive buffer."""
        found = set()
        for connection in list(self.server.connections):
            try:
                data = connection.socket.recv(PEEK_MAX_BYTES, socket.MSG_PEEK)
                frames, _ = decode_frames(connection.partial_frame + data)
            except (OSError, ProtocolError):
                continue  # No data is unread, or the connection has ended.
            for kind, number, _ in frames:
                request = connection.requests.get(number)
                if kind == STACK and request is not None and not request.stack_was_logged:
                    found.add(request)
        return found

    def log_blocked_requests(self, requests):
        """Logs these requests, and once the stack of the event loop that does not run them."""
        frames = self.find_loop_frames() if requests else []
        for request in requests:
            request.stack_was_logged = True
            detail = '; the event loop is blocked'
            log_stack(request.label(), frames, request.scope['headers'], detail)
            # The stack is the same for all requests, so it is printed only for the first one.
            frames = []

    def find_loop_frames(self):
        """Returns the stack of the event loop's thread, from the application's first frame on."""
        frame = sys._current_frames().get(self.loop_thread)
        frames = []
        while frame is not None and not (frames and is_program_frame(frame)):
            if not is_program_frame(frame):
                frames.append((frame, frame.f_lineno))
            frame = frame.f_back
        frames.reverse()
        return frames
