# The loop of a process that runs a WSGI application.
#
# With one thread, the main thread reads requests, runs them in order and sends the responses; while
# the application waits for content or room, the main thread reads for it. With more threads, the
# main thread only reads, and a pool runs the requests.
#
# With one thread, a second thread, the watch, reads while a call of the application takes long, so
# that requests can be taken back, responses that are held are sent, and it is known that a client
# has left. It costs nothing while calls are short: it sleeps, looks every WATCH_INTERVAL_SECONDS
# whether the number of calls has grown, and waits on a lock while the process is idle. It never
# waits for a socket, so the two threads do not compete for the interpreter.

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
from _thread import allocate_lock, get_ident, start_new_thread

# These are used after the application was loaded, which may replace them (as gevent does).
sleep = time.sleep
clock = time.perf_counter
BytesIO = io.BytesIO


class WsgiServer(WsgiThreads):
    """The connections, the backlog and the application of one process."""

    def __init__(self, application, options, listener):
        self.application = application
        self.threads = options.threads
        self.listener = listener
        self.connections = {}
        # Sockets by which descriptors of files are sent, by their names.
        self.channels = {}
        self.epoll = select.epoll()
        self.epoll.register(listener.fileno(), select.EPOLLIN)
        # Signals write here, so that one that arrives just before a wait ends the wait.
        self.wake_reader, self.wake_writer = os.pipe()
        os.set_blocking(self.wake_reader, False)
        os.set_blocking(self.wake_writer, False)
        self.epoll.register(self.wake_reader, select.EPOLLIN)
        # Requests that were read and not started.
        self.backlog = _collections.deque()
        self.is_stopping = False
        self.is_forked = False
        # The thread that holds it waits for sockets and reads them.
        self.reading = allocate_lock()
        self.main_thread = get_ident()
        # Batches that were read directly since others were looked for, and batches until the next.
        self.direct_reads = 0
        self.direct_pause = 0
        # Calls of the application, and how many of the last ones were quick, in a row.
        self.calls = 0
        self.quick_calls = 0
        self.is_busy = False
        self.is_watched = False
        self.watch_alarm = allocate_lock()
        self.watch_alarm.acquire()
        # With more threads: wakes those of the pool for requests, and those that wait for frames.
        self.pool = None
        self.progress = None
        self.running = 0
        self.common_environ = {
            'wsgi.version': (1, 0),
            'wsgi.errors': sys.stderr,
            'wsgi.multithread': options.threads > 1,
            'wsgi.multiprocess': options.processes > 1,
            'wsgi.run_once': False,
            'wsgi.input_terminated': True,
            'wsgi.file_wrapper': FileWrapper,
        }

    # Reading

    def read(self, timeout):
        """Reads what has arrived, and waits for it up to `timeout` seconds, without end if -1."""
        for descriptor, _ in self.epoll.poll(timeout):
            connection = self.connections.get(descriptor)
            if connection is not None:
                connection.receive()
            elif descriptor == self.wake_reader:
                try:
                    os.read(self.wake_reader, 4096)
                except BlockingIOError:
                    pass  # Another thread has read it.
            elif not self.is_stopping:
                self.accept()

    def read_if_idle(self, timeout):
        """Reads and waits, unless the watch has read a request or the end while it had the lock:
        nothing else need arrive after it.
        """
        with self.reading:
            if not self.backlog and not self.is_stopping:
                self.read(timeout)

    def accept(self):
        try:
            descriptor, _ = self.listener._accept()
        except OSError:
            return  # The worker has given up, or there are no descriptors: it connects again.
        stream = _socket.socket(fileno=descriptor)
        stream.setblocking(True)
        connection = Connection(self, stream)
        self.connections[connection.descriptor] = connection
        self.epoll.register(connection.descriptor, select.EPOLLIN)
        connection.send(encode_frame(READY, 0, describe_process('wsgi', self.threads)))

    def forget(self, connection):
        """Closes a connection that has ended. Its clients have left."""
        if self.connections.pop(connection.descriptor, None) is None:
            return
        connection.is_lost = True
        with connection.lock:
            connection.forget_channel()
        self.epoll.unregister(connection.descriptor)
        for request in list(connection.requests.values()):
            request.is_gone = True
            self.drop(request)
        with connection.send_lock:
            connection.socket.close()
        self.wake_waiting()

    def add_channel(self, connection, token):
        """Makes a connection a channel for descriptors. Nothing more is read from it."""
        del self.connections[connection.descriptor]
        self.epoll.unregister(connection.descriptor)
        self.channels[token] = connection.socket

    def add_requests(self, connection, content):
        """Adds a batch to the backlog."""
        batch = []
        requests = connection.requests
        for number, environ, content in marshal.loads(content):
            requests[number] = request = WsgiRequest(connection, number, environ, content)
            if content is None:
                request.input = RequestContent(request)
            batch.append(request)
        self.backlog.extend(batch)
        if self.is_stopping:
            self.give_back_all()
        elif self.pool is not None:
            with self.pool:
                self.pool.notify(len(batch))

    def take(self, request):
        """Takes a request out of the backlog. Returns whether it was there."""
        while True:
            try:
                self.backlog.remove(request)
                break
            except ValueError:
                return False
            except (IndexError, RuntimeError):
                pass  # Another thread has changed the backlog meanwhile.
        request.connection.requests.pop(request.number, None)
        return True

    def give_back(self, connection, numbers):
        """Gives requests back that were not started."""
        given = []
        for number in numbers:
            request = connection.requests.get(number)
            if request is not None and self.take(request):
                given.append(number)
        content = b''.join([number_content.pack(number) for number in given])
        connection.send(encode_frame(GIVEN_BACK, 0, content))

    def give_back_all(self):
        for connection in list(self.connections.values()):
            numbers = [request.number for request in list(self.backlog)
                       if request.connection is connection]
            if numbers:
                self.give_back(connection, numbers)

    def drop(self, request):
        """Ends a request of a client that has left before it was started."""
        if self.take(request):
            request.connection.send(encode_frame(END, request.number))

    def write_stack(self, request):
        """Writes the stack of the thread that runs a request to standard error."""
        frame = sys._current_frames().get(request.thread or self.main_thread)
        if frame is None or request in self.backlog:
            return
        frames = []
        while frame is not None:
            frames.append((frame, frame.f_lineno))
            frame = frame.f_back
        frames.reverse()
        write_stack(request.label(), frames, request.id)

    # Waiting for content and for room

    def wait(self, request, is_ready):
        """Waits in a thread of the application until frames have made `is_ready` true."""
        if self.is_forked:
            raise ClientDisconnected('this process was forked from the one with the client')
        if self.pool is not None:
            with self.progress:
                while not is_ready():
                    self.progress.wait()
            return
        is_main = get_ident() == self.main_thread
        while not is_ready():
            if is_main:
                with self.reading:
                    # The watch may have read it meanwhile.
                    if not is_ready():
                        self.read(-1)
            elif request.number not in request.connection.requests:
                raise OSError('the request is over')
            else:
                # A thread that the application has started. The main thread reads for it, or the
                # watch does while the main thread waits for this one.
                sleep(WATCH_INTERVAL_SECONDS)

    def wake_waiting(self):
        if self.pool is not None:
            with self.progress:
                self.progress.notify_all()

    # Running

    def run(self, request):
        """Calls the application for one request and queues its response."""
        environ, content = request.environ, request.content
        # The environ refers to the request: without this, each would be garbage of a cycle.
        request.environ = None
        request_id = environ.get('HTTP_X_REQUEST_ID')
        if request_id is not None:
            request.id = request_id
            running_id.set(request_id)
        try:
            environ.update(self.common_environ)
            if content is not None:
                environ['wsgi.input'] = BytesIO(content)
            else:
                environ['wsgi.input'] = io.BufferedReader(request.input, WANT_MAX_BYTES)
            environ['wsgi.early_hints'] = request.early_hints
            request.method = environ['REQUEST_METHOD']
            request.path = environ.get('PATH_INFO', '')
            result = self.application(environ, request.start_response)
            if type(result) is list or type(result) is tuple:
                request.send_parts(result)
            else:
                self.send_result(request, result)
            if not request.is_done:
                request.finish()
        except BaseException as error:
            self.fail(request, error)
        if request_id is not None:
            running_id.set(None)
        request.connection.requests.pop(request.number, None)
        if content is None:
            request.input.request = None
        if self.is_forked:
            leave_forked_process(0)

    def send_result(self, request, result):
        """Sends what an iterable yields, and closes it in any case, once."""
        try:
            if type(result) is not FileWrapper or not request.send_file(result):
                request.send_iterable(result)
            request.finish()
        except BaseException as error:
            self.fail(request, error)
        finally:
            close = getattr(result, 'close', None)
            if close is not None:
                # Some do in it what need not be done before the response.
                request.release()
                close()

    def fail(self, request, error):
        if self.is_forked:
            leave_forked_process(error)
        try:
            request.fail(error)
        finally:
            # The traceback refers to frames that refer to it.
            error.__traceback__ = None

    def serve(self):
        """Serves until SIGTERM."""
        if self.threads > 1:
            self.serve_with_pool()
        else:
            self.serve_alone()

    def serve_alone(self):
        start_new_thread(self.watch, ())
        while not self.is_stopping:
            if self.backlog:
                self.run_batch()
            else:
                self.read_if_idle(-1)
        self.stop()

    def run_batch(self):
        """Runs the backlog, and reads what has arrived meanwhile."""
        self.is_busy = True
        if not self.is_watched:
            self.start_watch()
        self.run_backlog()
        self.is_busy = False
        self.read_directly()

    def run_backlog(self):
        """Runs the backlog. The responses of quick calls are held, so that several are sent at
        once.
        """
        backlog, run = self.backlog, self.run
        connection = None
        begin = clock()
        while not self.is_stopping:
            try:
                request = backlog.popleft()
            except IndexError:
                break  # It is empty, perhaps because the watch has given the last one back.
            if request.connection is not connection:
                if connection is not None:
                    connection.flush()
                connection = request.connection
            self.calls += 1
            run(request)
            end = clock()
            if end - begin < QUICK_CALL_MAX_SECONDS:
                self.quick_calls += 1
                if (self.quick_calls < QUICK_CALLS_MIN
                        or len(connection.queued) >= HELD_MAX_RESPONSES):
                    connection.flush()
            else:
                self.quick_calls = 0
                connection.flush()
            begin = end
        if connection is not None:
            connection.flush()

    def read_directly(self):
        """Reads the only connection without asking first whether something has arrived.

        It saves a call while the server is ahead. If it was not, this is not tried for a while.
        """
        if len(self.connections) != 1 or not self.quick_calls:
            return
        if self.direct_pause:
            self.direct_pause -= 1
        elif self.direct_reads < DIRECT_READS_MAX:
            self.direct_reads += 1
            with self.reading:
                for connection in list(self.connections.values()):
                    if not connection.receive():
                        self.direct_pause = DIRECT_READ_PAUSE_BATCHES
        else:
            # Others may wait for their connection to be accepted.
            self.direct_reads = 0

    def stop(self):
        """Gives back what was not started. What was started is over."""
        self.is_stopping = True
        self.give_back_all()
        with self.reading:
            self.read(0)
        for connection in list(self.connections.values()):
            connection.flush()

    # Signals and forks

    def handle_signals(self):
        """SIGTERM stops; SIGINT is for the server, which then sends SIGTERM."""
        def stop(number, frame):
            if self.is_forked:
                _signal.signal(number, _signal.SIG_DFL)
                os.kill(os.getpid(), number)
            self.is_stopping = True

        def ignore(number, frame):
            if self.is_forked:
                _signal.default_int_handler(number, frame)

        _signal.signal(_signal.SIGTERM, stop)
        # A handler, because an ignored signal would be ignored by programs that are started, too.
        _signal.signal(_signal.SIGINT, ignore)
        _signal.set_wakeup_fd(self.wake_writer, warn_on_full_buffer=False)
        register_for_forks(self.close_in_fork)

    def close_in_fork(self):
        """Closes the sockets in a process that the application has forked: it is no reader."""
        self.is_forked = True
        try:
            _signal.set_wakeup_fd(-1)
            _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        except ValueError:
            pass  # PyPy does not yet know that this thread is the main one: the handlers ask.
        for connection in list(self.connections.values()):
            connection.is_lost = True
            # The lock may be held by a thread that this process does not have.
            connection.send_lock = allocate_lock()
            connection.lock = allocate_lock()
            connection.socket.close()
            for request in list(connection.requests.values()):
                request.is_gone = True
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
    # What is loaded now stays: the collector need not look at it again.
    gc.collect()
    if hasattr(gc, 'freeze'):
        gc.freeze()
    server.serve()
