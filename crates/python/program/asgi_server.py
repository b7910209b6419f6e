# The event loop of a process that runs an ASGI application.

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
            # The application has set its own task factory at startup, which must be used.
            self.start_task = loop.create_task
        elif sys.version_info >= (3, 12):
            # An eager task runs immediately, so a request whose application never waits is finished
            # without scheduling its task in the event loop.
            self.start_task = functools.partial(self.start_task, eager_start=True)
        self.connections = set()
        # Tasks that create a connection for an accepted socket.
        self.accept_tasks = set()
        self.state = {}
        self.is_stopping = False
        # A future on which the shutdown waits until a request or connection ends; otherwise None.
        self.shutdown_waiter = None
        self.stop_requested = loop.create_future()
        self.is_forked = False
        self.watchdog = LoopWatchdog(self)

    def accept(self):
        try:
            stream, _ = self.listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # The worker has closed the connection in the meantime.
        except OSError as error:
            log_failed_accept(error)
            self.loop.remove_reader(self.listener.fileno())
            self.loop.call_later(ACCEPT_RETRY_SECONDS, self.start_accepting)
            return
        stream.setblocking(False)
        task = self.loop.create_task(self.create_connection(stream))
        self.accept_tasks.add(task)
        task.add_done_callback(self.accept_tasks.discard)

    def start_accepting(self):
        if not self.is_stopping:
            self.loop.add_reader(self.listener.fileno(), self.accept)

    async def create_connection(self, stream):
        try:
            await self.loop.connect_accepted_socket(lambda: AsgiConnection(self, stream), stream)
        except OSError as error:
            log('cannot accept a connection from the server: %s' % describe_error(error))

    async def run_request(self, request):
        """Calls the application for one request, and finishes the response."""
        # Each task has its own context, so this value is seen by this task and by the tasks and
        # threads that it starts.
        request_id_context.set(request.scope['headers'])
        try:
            result = await self.application(request.scope, request.receive, request.send)
            if not request.last_message_sent or result is not None:
                request.finish(result)
        except BaseException as error:
            self.fail_request(request, error)
        request.connection.requests.pop(request.number, None)
        if self.is_forked:
            exit_forked_process(0)
        if self.is_stopping:
            self.wake_shutdown()

    def fail_request(self, request, error):
        if self.is_forked:
            exit_forked_process(error)
        try:
            request.fail(error)
        finally:
            # The traceback refers to stack frames, which refer to the exception: a reference cycle.
            error.__traceback__ = None

    def wake_shutdown(self):
        if self.shutdown_waiter is not None and not self.shutdown_waiter.done():
            self.shutdown_waiter.set_result(None)

    async def serve(self):
        """Serves requests until SIGTERM arrives, then waits until all requests are finished."""
        self.start_accepting()
        await self.stop_requested
        self.loop.remove_reader(self.listener.fileno())
        self.listener.close()
        while self.accept_tasks or any(connection.requests for connection in self.connections):
            self.shutdown_waiter = self.loop.create_future()
            if self.accept_tasks:
                await asyncio.wait(list(self.accept_tasks))
            else:
                await self.shutdown_waiter

    async def close_connections(self):
        """Half-closes the connections, and waits until the server has read everything and closed.

        If this process closed a connection first, a frame that the server is just sending would
        fail, and the server would drop the connection with the frames that it has not read.
        """
        for connection in list(self.connections):
            connection.half_close()
        timer = self.loop.call_later(CLOSE_TIMEOUT_SECONDS, self.abort_connections)
        while self.connections:
            self.shutdown_waiter = self.loop.create_future()
            await self.shutdown_waiter
        timer.cancel()

    def abort_connections(self):
        for connection in list(self.connections):
            connection.transport.abort()

    # Signals and forks

    def handle_signals(self):
        """Installs handlers: SIGTERM stops the process, and SIGINT is ignored.

        Ctrl+C sends SIGINT to the server, too, which then stops its processes with SIGTERM.
        """
        self.loop.add_signal_handler(signal.SIGTERM, self.request_stop)
        self.loop.add_signal_handler(signal.SIGINT, int)
        register_fork_hooks(self.close_in_fork)

    def request_stop(self):
        self.is_stopping = True
        if not self.stop_requested.done():
            self.stop_requested.set_result(None)

    def close_in_fork(self):
        """Replaces the sockets in a forked process, because only its parent serves requests."""
        if self.is_forked:
            # This process was forked from a forked one, which may have reused the numbers of the
            # descriptors below and may have set handlers of its own.
            return
        self.is_forked = True
        reset_signal_handlers()
        null = os.open(os.devnull, os.O_RDWR)
        descriptors = [self.listener.fileno()]
        for connection in self.connections:
            descriptors.append(connection.transport.get_extra_info('socket').fileno())
        for descriptor in descriptors:
            if descriptor >= 0:
                os.dup2(null, descriptor)
        os.close(null)


def log_task_stack(request):
    """Logs the stack trace of the task that runs a request."""
    frames = []
    awaited = request.task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, 'cr_frame', None) or getattr(awaited, 'gi_frame', None)
        if frame is not None:
            frames.append((frame, frame.f_lineno))
        awaited = getattr(awaited, 'cr_await', None) or getattr(awaited, 'gi_yieldfrom', None)
    log_stack(request.label(), frames, request.scope['headers'])


def make_loop():
    """Returns an event loop of uvloop if it is installed, and otherwise one of asyncio."""
    try:
        # The import may also find a folder named `uvloop` beside the application, which lacks the
        # function.
        from uvloop import new_event_loop
    except Exception:
        return asyncio.new_event_loop()
    return new_event_loop()


def accepts_one_argument(application):
    """Returns whether an application uses ASGI 2: it takes only a scope and returns a callable."""
    import inspect
    call = application if inspect.isroutine(application) else type(application).__call__
    # From Python 3.12 on, `inspect` also recognizes functions that are only marked as coroutine
    # functions. The function of `asyncio` is deprecated in later versions.
    is_coroutine_function = \
        (inspect if sys.version_info >= (3, 12) else asyncio).iscoroutinefunction
    if not inspect.isclass(application) and is_coroutine_function(call):
        return False
    try:
        parameters = list(inspect.signature(application).parameters.values())
    except (TypeError, ValueError):
        return False
    required = [parameter for parameter in parameters
                if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
                and parameter.default is parameter.empty]
    has_variable = any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters)
    return len(required) == 1 and not has_variable


def adapt_asgi2(application):
    async def call(scope, receive, send):
        await application(scope)(receive, send)
    return call


async def run_asgi(loop, options, listener):
    """Loads the application and serves it. Returns the exit status of the process."""
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
    # Objects that exist now will stay alive: the garbage collector need not scan them again.
    gc.collect()
    if hasattr(gc, 'freeze'):
        gc.freeze()
    await server.serve()
    await lifespan.shutdown()
    await server.close_connections()
    return 0


def close_loop(loop):
    """Cancels the remaining tasks of the application, and closes the event loop."""
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
    if options.loaded_application is None:
        # The application's folder may contain uvloop.
        prepare_path(options)
    loop = make_loop()
    asyncio.set_event_loop(loop)
    status = loop.run_until_complete(run_asgi(loop, options, listener))
    close_loop(loop)
    sys.exit(status)
