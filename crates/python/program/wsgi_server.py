# The main loop of a process that runs a WSGI application.
#
# With one thread, the main thread reads requests, runs them in order and sends the responses. While
# the application waits for a request body, or for the send window of a response to be enlarged, the
# main thread reads frames for it. With more threads, the main thread only reads frames, and a pool
# of threads runs the requests.
#
# A process with one thread also has a backup reader, a second thread. While a call of the
# application takes long, it reads frames in place of the main thread, so that the server can take
# requests back and the process notices disconnected clients; it also sends the held responses. It
# costs almost nothing while calls are short: it checks every BACKUP_READER_INTERVAL_SECONDS whether
# the number of calls has grown, and waits on a lock while the process is idle. It never waits for a
# socket, so the two threads do not compete for the global interpreter lock.

import _collections
import _signal
import _socket
import gc
import io
import marshal
import os
import select
import sys
import time
from _thread import allocate_lock, get_ident

# These functions are stored before the application is loaded, because it may replace those of the
# modules (gevent does).
sleep = time.sleep
clock = time.perf_counter
BytesIO = io.BytesIO


class WsgiServer(WsgiThreads):
    """The connections, the backlog of requests, and the application of one process."""

    def __init__(self, application, options, listener):
        self.application = application
        self.threads = options.threads
        self.listener = listener
        self.connections = {}
        # Sockets on which file descriptors are sent, by the tokens that identify them.
        self.channels = {}
        self.epoll = select.epoll()
        self.epoll.register(listener.fileno(), select.EPOLLIN)
        # Signals write to this pipe, so that a signal just before epoll_wait() still ends the wait.
        self.wake_reader, self.wake_writer = os.pipe()
        os.set_blocking(self.wake_reader, False)
        os.set_blocking(self.wake_writer, False)
        self.epoll.register(self.wake_reader, select.EPOLLIN)
        # Requests that were read and not started yet.
        self.backlog = _collections.deque()
        self.is_stopping = False
        self.is_forked = False
        # Held by the thread that waits for sockets and reads from them.
        self.read_lock = allocate_lock()
        self.main_thread = get_ident()
        # The number of batches that were read directly since the last use of epoll, and the number
        # of batches until direct reads are tried again.
        self.direct_read_count = 0
        self.direct_read_pause = 0
        # The number of calls of the application, and how many of the last ones in a row were quick.
        self.call_count = 0
        self.quick_call_count = 0
        # Whether the main thread is running requests or other calls.
        self.is_busy = False
        self.backup_reader_is_awake = False
        # The backup reader waits for this lock while the process is idle; releasing it wakes it.
        self.backup_reader_wake_lock = allocate_lock()
        self.backup_reader_wake_lock.acquire()
        # Two conditions if there is a pool of threads, otherwise None: the first one wakes threads
        # of the pool for new requests, and the second one wakes threads that wait for a frame.
        self.pool_condition = None
        self.frames_arrived = None
        self.running_count = 0
        self.common_environ = {
            'wsgi.version': (1, 0),
            'wsgi.errors': sys.stderr,
            'wsgi.multithread': options.threads > 1,
            'wsgi.multiprocess': options.processes > 1,
            'wsgi.run_once': False,
            'wsgi.input_terminated': True,
            'wsgi.file_wrapper': FileWrapper,
        }

    # Reading frames

    def poll_sockets(self, timeout):
        """Waits for ready sockets and reads from them.

        It waits up to `timeout` seconds, or without a limit if that is -1.
        """
        for descriptor, _ in self.epoll.poll(timeout):
            connection = self.connections.get(descriptor)
            if connection is not None:
                connection.receive()
            elif descriptor == self.wake_reader:
                try:
                    os.read(self.wake_reader, 4096)
                except BlockingIOError:
                    pass  # Another thread has emptied the pipe.
            elif self.is_stopping:
                # Otherwise epoll would report the listener again and again.
                self.epoll.unregister(descriptor)
                self.listener.close()
            else:
                self.accept()

    def poll_sockets_if_idle(self, timeout):
        """Waits for sockets and reads from them, unless there is a request or the process stops.

        The backup reader may have read that request while this thread waited for the lock.
        Nothing else may ever arrive after it, so waiting now could block forever.
        """
        with self.read_lock:
            if not self.backlog and not self.is_stopping:
                self.poll_sockets(timeout)

    def accept(self):
        try:
            descriptor, _ = self.listener._accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # The worker has closed the connection in the meantime.
        except OSError as error:
            log_failed_accept(error)
            self.epoll.unregister(self.listener.fileno())
            start_thread(self.resume_accepting)
            return
        stream = _socket.socket(fileno=descriptor)
        stream.setblocking(True)
        connection = Connection(self, stream)
        self.connections[connection.descriptor] = connection
        self.epoll.register(connection.descriptor, select.EPOLLIN)
        connection.send(encode_frame(READY, 0, describe_process('wsgi', self.threads)))

    def resume_accepting(self):
        """Registers the listener again after a pause. A thread of its own executes this method."""
        sleep(ACCEPT_RETRY_SECONDS)
        if not self.is_stopping:
            self.epoll.register(self.listener.fileno(), select.EPOLLIN)

    def remove_connection(self, connection):
        """Closes a connection that has ended, and marks its requests as disconnected."""
        if self.connections.pop(connection.descriptor, None) is None:
            return
        connection.is_lost = True
        with connection.lock:
            connection.close_channel()
        self.epoll.unregister(connection.descriptor)
        for request in list(connection.requests.values()):
            request.is_disconnected = True
            self.drop_if_unstarted(request)
        with connection.send_lock:
            connection.socket.close()
        self.wake_waiting_threads()

    def add_channel(self, connection, token):
        """Makes a connection a channel for file descriptors. Nothing more is read from it."""
        del self.connections[connection.descriptor]
        self.epoll.unregister(connection.descriptor)
        self.channels[token] = connection.socket

    def add_requests(self, connection, payload):
        """Adds a batch of requests to the backlog."""
        batch = []
        requests = connection.requests
        for number, environ, body in marshal.loads(payload):
            requests[number] = request = WsgiRequest(connection, number, environ, body)
            if body is None:
                request.input = RequestBody(request)
            batch.append(request)
        self.backlog.extend(batch)
        if self.is_stopping:
            self.give_back_backlog()
        elif self.pool_condition is not None:
            with self.pool_condition:
                self.pool_condition.notify(len(batch))

    def remove_from_backlog(self, request):
        """Removes a request from the backlog. Returns False if it was not there."""
        while True:
            try:
                self.backlog.remove(request)
                break
            except ValueError:
                return False
            except (IndexError, RuntimeError):
                pass  # Another thread has changed the backlog at the same time; try again.
        request.connection.requests.pop(request.number, None)
        return True

    def give_back(self, connection, numbers):
        """Gives the requests back to the server, except those that have already started."""
        given_back = []
        for number in numbers:
            request = connection.requests.get(number)
            if request is not None and self.remove_from_backlog(request):
                given_back.append(number)
        payload = b''.join([u32_format.pack(number) for number in given_back])
        connection.send(encode_frame(GIVEN_BACK, 0, payload))

    def give_back_backlog(self):
        """Gives all requests of the backlog back to the server."""
        for connection in list(self.connections.values()):
            numbers = [request.number for request in list(self.backlog)
                       if request.connection is connection]
            if numbers:
                self.give_back(connection, numbers)

    def drop_if_unstarted(self, request):
        """Finishes a request if its client has disconnected before the request was started."""
        if self.remove_from_backlog(request):
            request.connection.send(encode_frame(END, request.number))

    def log_stack(self, request):
        """Logs the stack trace of the thread that runs a request."""
        frame = sys._current_frames().get(request.thread or self.main_thread)
        if frame is None or request in self.backlog:
            return
        frames = []
        while frame is not None:
            frames.append((frame, frame.f_lineno))
            frame = frame.f_back
        frames.reverse()
        log_stack(request.label(), frames, request.id)

    # Waiting for a request body or a larger send window

    def wait(self, request, is_ready):
        """Lets a thread of the application wait until frames have made `is_ready()` true."""
        if self.is_forked:
            raise ClientDisconnected(
                'a forked process cannot read or send: only its parent has the connection to the '
                'client')
        runs_request = get_ident() == (request.thread or self.main_thread)
        while not is_ready():
            if not runs_request:
                # This is a thread that the application has started. Another thread reads frames for
                # it: the main thread, or the backup reader while the main thread is busy.
                if request.number not in request.connection.requests:
                    raise OSError('the request is finished')
                sleep(BACKUP_READER_INTERVAL_SECONDS)
            elif self.pool_condition is not None:
                with self.frames_arrived:
                    if not is_ready():
                        self.frames_arrived.wait()
            else:
                with self.read_lock:
                    # The backup reader may have read the frame in the meantime.
                    if not is_ready():
                        self.poll_sockets(-1)

    def wake_waiting_threads(self):
        if self.pool_condition is not None:
            with self.frames_arrived:
                self.frames_arrived.notify_all()

    # Running requests

    def run_request(self, request):
        """Calls the application for one request, and queues or sends the response."""
        environ, body = request.environ, request.body
        # The environ refers to the request. Deleting the opposite reference avoids a reference
        # cycle, which only the garbage collector could free.
        request.environ = None
        request_id = environ.get('HTTP_X_REQUEST_ID')
        if request_id is not None:
            request.id = request_id
            request_id_context.set(request_id)
        try:
            environ.update(self.common_environ)
            if body is not None:
                environ['wsgi.input'] = BytesIO(body)
            else:
                environ['wsgi.input'] = io.BufferedReader(request.input, WANT_MAX_BYTES)
            environ['wsgi.early_hints'] = request.early_hints
            request.method = environ['REQUEST_METHOD']
            request.path = environ.get('PATH_INFO', '')
            result = self.application(environ, request.start_response)
            if type(result) is list or type(result) is tuple:
                request.send_body_parts(result)
            else:
                self.send_result(request, result)
            if not request.last_frame_sent:
                request.finish()
        except BaseException as error:
            self.fail_request(request, error)
        if request_id is not None:
            request_id_context.set(None)
        request.connection.requests.pop(request.number, None)
        if body is None:
            request.input.request = None
        if self.is_forked:
            exit_forked_process(0)

    def send_result(self, request, result):
        """Sends the items of an iterable, and closes the iterable exactly once in every case."""
        try:
            if type(result) is not FileWrapper or not request.send_file(result):
                request.send_iterable(result)
            request.finish()
        except BaseException as error:
            self.fail_request(request, error)
        finally:
            close = getattr(result, 'close', None)
            if close is not None:
                # Some applications do work in close() that the response need not wait for.
                request.flush_complete_response()
                close()

    def fail_request(self, request, error):
        if self.is_forked:
            exit_forked_process(error)
        try:
            request.fail(error)
        finally:
            # The traceback refers to stack frames, which refer to the exception: a reference cycle.
            error.__traceback__ = None

    def serve(self):
        """Serves requests until SIGTERM arrives."""
        if self.threads > 1:
            self.serve_with_pool()
        else:
            self.serve_on_main_thread()
        self.close_connections()

    def serve_on_main_thread(self):
        start_thread(self.run_backup_reader)
        while not self.is_stopping:
            if self.backlog:
                self.run_batch()
            else:
                self.poll_sockets_if_idle(-1)
        self.stop()

    def run_batch(self):
        """Runs the backlog, then reads the data that has arrived in the meantime."""
        self.is_busy = True
        if not self.backup_reader_is_awake:
            self.wake_backup_reader()
        self.run_backlog()
        self.is_busy = False
        self.read_directly()

    def run_backlog(self):
        """Runs the requests of the backlog.

        Responses of quick calls are held, so that several of them share one send() call.
        """
        backlog, run_request = self.backlog, self.run_request
        connection = None
        begin = clock()
        while not self.is_stopping:
            try:
                request = backlog.popleft()
            except IndexError:
                break  # The backlog is empty; perhaps the backup reader has given back the rest.
            if request.connection is not connection:
                if connection is not None:
                    connection.flush()
                connection = request.connection
            self.call_count += 1
            run_request(request)
            end = clock()
            if end - begin < QUICK_CALL_MAX_SECONDS:
                self.quick_call_count += 1
                if (self.quick_call_count < QUICK_CALLS_MIN
                        or len(connection.queued_frames) >= HELD_MAX_RESPONSES):
                    connection.flush()
            else:
                self.quick_call_count = 0
                connection.flush()
            begin = end
        if connection is not None:
            connection.flush()

    def read_directly(self):
        """Reads from the only connection without epoll_wait(), which saves a system call.

        That succeeds while the server sends batches faster than the application runs them. If there
        was no data, the next direct read follows only after some batches.
        """
        if len(self.connections) != 1 or not self.quick_call_count:
            return
        if self.direct_read_pause:
            self.direct_read_pause -= 1
        elif self.direct_read_count < DIRECT_READS_MAX:
            self.direct_read_count += 1
            with self.read_lock:
                for connection in list(self.connections.values()):
                    if not connection.receive():
                        self.direct_read_pause = DIRECT_READ_PAUSE_BATCHES
        else:
            # Use epoll once, because other workers may be waiting for their connection.
            self.direct_read_count = 0

    def stop(self):
        """Gives back all requests that were not started. All others have finished."""
        self.is_stopping = True
        self.give_back_backlog()
        with self.read_lock:
            self.poll_sockets(0)
        for connection in list(self.connections.values()):
            connection.flush()

    def close_connections(self):
        """Half-closes the connections, and waits until the server has read everything and closed.

        If this process closed a connection first, a frame that the server is just sending would
        fail, and the server would drop the connection with the frames that it has not read.
        """
        for connection in list(self.connections.values()):
            connection.half_close()
        end = clock() + CLOSE_TIMEOUT_SECONDS
        while self.connections and clock() < end:
            with self.read_lock:
                self.poll_sockets(max(0, end - clock()))

    # Signals and forks

    def handle_signals(self):
        """Installs handlers: SIGTERM stops the process, and SIGINT is ignored.

        Ctrl+C sends SIGINT to the server, too, which then stops its processes with SIGTERM.
        """
        def stop(number, frame):
            self.is_stopping = True

        def ignore(number, frame):
            pass

        _signal.signal(_signal.SIGTERM, stop)
        # SIGINT has a handler instead of SIG_IGN, which programs that the application starts would
        # inherit.
        _signal.signal(_signal.SIGINT, ignore)
        _signal.set_wakeup_fd(self.wake_writer, warn_on_full_buffer=False)
        register_fork_hooks(self.close_in_fork)

    def close_in_fork(self):
        """Closes the sockets in a forked process, because only its parent serves requests."""
        if self.is_forked:
            # This process was forked from a forked one, which may have reused the numbers of the
            # descriptors below and may have set handlers of its own.
            return
        self.is_forked = True
        reset_signal_handlers()
        for connection in list(self.connections.values()):
            connection.is_lost = True
            # A thread that does not exist in this process may hold the lock, so it is replaced.
            connection.send_lock = allocate_lock()
            connection.lock = allocate_lock()
            connection.socket.close()
            for request in list(connection.requests.values()):
                request.is_disconnected = True
        for channel in self.channels.values():
            channel.close()
        self.listener.close()
        self.epoll.close()
        os.close(self.wake_reader)
        os.close(self.wake_writer)


def serve_wsgi(options, listener):
    application = load_or_report(options)
    if application is None:
        sys.exit(1)
    serve_until_stopped(WsgiServer(application, options, _socket.socket(fileno=listener)))
    sys.exit(0)


def serve_until_stopped(server):
    close_program_file()
    server.handle_signals()
    # Objects that exist now will stay alive: the garbage collector need not scan them again.
    gc.collect()
    if hasattr(gc, 'freeze'):
        gc.freeze()
    server.serve()
