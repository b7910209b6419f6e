# The loop of a process that runs an ASGI application.

import asyncio
import functools
import gc
import os
import signal
import socket
import sys


class AsgiServer:
    """The connections and the application of one process."""

    def __init__(self, loop, application, listener):
        self.loop = loop
        self.application = application
        self.listener = listener
        self.start_task = functools.partial(asyncio.Task, loop=loop)
        if loop.get_task_factory() is not None:
            # The application has set it at its startup.
            self.start_task = loop.create_task
        elif sys.version_info >= (3, 12):
            # An application that need not wait is done before the loop knows of its task.
            self.start_task = functools.partial(self.start_task, eager_start=True)
        self.connections = set()
        # Tasks that make a connection of a socket that was accepted.
        self.accepting = set()
        self.state = {}
        self.is_stopping = False
        # Set while the end waits: wakes it when a request or a connection is over.
        self.progress = None
        self.stopped = loop.create_future()
        self.is_forked = False
        self.watch = LoopWatch(self)

    def accept(self):
        try:
            stream, _ = self.listener.accept()
        except OSError:
            return  # The worker has given up, or there are no descriptors: it connects again.
        stream.setblocking(False)
        task = self.loop.create_task(self.connect(stream))
        self.accepting.add(task)
        task.add_done_callback(self.accepting.discard)

    async def connect(self, stream):
        try:
            await self.loop.connect_accepted_socket(lambda: AsgiConnection(self, stream), stream)
        except OSError as error:
            log('cannot accept a connection of the server: %s' % describe_error(error))

    async def run(self, request):
        """Calls the application for one request and ends its response."""
        # Of the task alone, which has a context of its own, and of what it starts.
        running_id.set(request.scope['headers'])
        try:
            result = await self.application(request.scope, request.receive, request.send)
            if not request.is_complete or result is not None:
                request.finish(result)
        except BaseException as error:
            self.fail(request, error)
        request.connection.requests.pop(request.number, None)
        if self.is_forked:
            leave_forked_process(0)
        if self.is_stopping:
            self.note_progress()

    def fail(self, request, error):
        if self.is_forked:
            leave_forked_process(error)
        try:
            request.fail(error)
        finally:
            # The traceback refers to frames that refer to it.
            error.__traceback__ = None

    def note_progress(self):
        if self.progress is not None and not self.progress.done():
            self.progress.set_result(None)

    async def serve(self):
        """Serves until SIGTERM, and then until all requests are over."""
        self.loop.add_reader(self.listener.fileno(), self.accept)
        await self.stopped
        self.loop.remove_reader(self.listener.fileno())
        self.listener.close()
        while self.accepting or any(one.requests for one in self.connections):
            self.progress = self.loop.create_future()
            if self.accepting:
                await asyncio.wait(list(self.accepting))
            else:
                await self.progress

    async def close_connections(self):
        """Ends the connections after all that was queued is read.

        They are closed when the server has closed them: what it sends meanwhile must not fail,
        because it then would not read the rest.
        """
        for connection in list(self.connections):
            connection.flush()
            connection.transport.write_eof()
        timer = self.loop.call_later(CLOSE_TIMEOUT_SECONDS, self.abort_connections)
        while self.connections:
            self.progress = self.loop.create_future()
            await self.progress
        timer.cancel()

    def abort_connections(self):
        for connection in list(self.connections):
            connection.transport.abort()

    # Signals and forks

    def handle_signals(self):
        """SIGTERM stops; SIGINT is for the server, which then sends SIGTERM."""
        self.loop.add_signal_handler(signal.SIGTERM, self.stop)
        self.loop.add_signal_handler(signal.SIGINT, int)
        register_for_forks(self.close_in_fork)

    def stop(self):
        self.is_stopping = True
        if not self.stopped.done():
            self.stopped.set_result(None)

    def close_in_fork(self):
        """Replaces the sockets in a process that the application has forked: it is no reader."""
        self.is_forked = True
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        null = os.open(os.devnull, os.O_RDWR)
        descriptors = [self.listener.fileno()]
        for connection in self.connections:
            descriptors.append(connection.transport.get_extra_info('socket').fileno())
        for descriptor in descriptors:
            if descriptor >= 0:
                os.dup2(null, descriptor)
        os.close(null)


def write_task_stack(request):
    """Writes the stack of the task of a request to standard error."""
    frames = []
    awaited = request.task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, 'cr_frame', None) or getattr(awaited, 'gi_frame', None)
        if frame is not None:
            frames.append((frame, frame.f_lineno))
        awaited = getattr(awaited, 'cr_await', None) or getattr(awaited, 'gi_yieldfrom', None)
    write_stack(request.label(), frames, request.scope['headers'])


def make_loop():
    """Returns a loop of uvloop if the application has it, else the one of Python."""
    try:
        # A folder of this name beside the application is a module, too.
        from uvloop import new_event_loop
    except Exception:
        return asyncio.new_event_loop()
    return new_event_loop()


def accepts_one_argument(application):
    """Whether an application is one of ASGI 2: called with the scope, it returns a callable."""
    import inspect
    call = application if inspect.isroutine(application) else type(application).__call__
    # From 3.12 on it knows functions that are marked as such, too, and the other is deprecated.
    is_coroutine_function = \
        (inspect if sys.version_info >= (3, 12) else asyncio).iscoroutinefunction
    if not inspect.isclass(application) and is_coroutine_function(call):
        return False
    try:
        parameters = list(inspect.signature(application).parameters.values())
    except (TypeError, ValueError):
        return False
    needed = [one for one in parameters
              if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
              and one.default is one.empty]
    return len(needed) == 1 and all(one.kind != one.VAR_POSITIONAL for one in parameters)


def adapt_asgi2(application):
    async def call(scope, receive, send):
        await application(scope)(receive, send)
    return call


async def run_asgi(loop, options, listener):
    """Loads the application and serves it. Returns the status to exit with."""
    application = load_or_report(options)
    if application is None:
        return 1
    close_program_file()
    if accepts_one_argument(application):
        application = adapt_asgi2(application)
    lifespan = Lifespan(application, loop)
    try:
        await lifespan.startup()
    except LoadError as error:
        log('cannot start the application: %s' % error)
        return 1
    server = AsgiServer(loop, application, socket.socket(fileno=listener))
    server.state = lifespan.state
    server.handle_signals()
    # What is loaded now stays: the collector need not look at it again.
    gc.collect()
    if hasattr(gc, 'freeze'):
        gc.freeze()
    await server.serve()
    await lifespan.shutdown()
    await server.close_connections()
    return 0


def end_loop(loop):
    """Cancels what the application has left, and ends the loop."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    if hasattr(loop, 'shutdown_default_executor'):
        loop.run_until_complete(loop.shutdown_default_executor())
    asyncio.set_event_loop(None)
    loop.close()


def serve_asgi(options, listener):
    if options.loaded is None:
        # The folder of the application may contain uvloop.
        prepare_path(options)
    loop = make_loop()
    asyncio.set_event_loop(loop)
    status = loop.run_until_complete(run_asgi(loop, options, listener))
    end_loop(loop)
    sys.exit(status)
