# The loop of a process that runs an application of fapws: requests, timers and deferred calls, all
# on the main thread.
#
# A timer that is due is called between two batches of requests. A deferred call is made when no
# request has arrived, one at a time. So each of them delays requests that this process has as long
# as it takes, as in fapws.
#
# One process of all calls timers, and no two processes call timers or deferred calls at the same
# time. This is by record locks (fcntl, F_SETLK) on bytes of the file of this program, which is the
# same for all processes that a server starts, also after a reload, and which needs no place in the
# file system. Such a lock is that of a process: it ends with the process however that ends, and a
# process that the application forks does not hold it. A lock on a file of the application would
# have another inode once the file was replaced, just when old and new processes run beside each
# other. Bytes behind the end of the file can be locked; their numbers are made of the folder and
# the name of the application, which a reload does not change.

import fcntl

# How often a process looks whether another one has ended its call, while it has calls to make.
JOB_PAUSE_SECONDS = 0.01


class FapwsLocks:
    """The locks of an application: the right to call timers, and that to call anything."""

    def __init__(self, descriptor, folder, application):
        self.descriptor = descriptor
        name = '\0'.join((os.path.abspath(folder), application))
        import hashlib
        digest = hashlib.sha256(name.encode('utf-8', 'surrogateescape')).digest()
        # Below 2^62, and even: two bytes.
        self.offset = int.from_bytes(digest[:8], 'little') >> 2 & ~1

    def take(self, byte, may_wait=False):
        """Takes a lock. Returns whether it was free."""
        flags = fcntl.LOCK_EX if may_wait else fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            fcntl.lockf(self.descriptor, flags, 1, self.offset + byte)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def free(self, byte):
        fcntl.lockf(self.descriptor, fcntl.LOCK_UN, 1, self.offset + byte)


TIMERS_LOCK, CALL_LOCK = 0, 1


class FapwsServer(WsgiServer):
    """A server of WSGI that also calls timers and deferred calls."""

    def __init__(self, application, options, listener, evwsgi, locks):
        WsgiServer.__init__(self, application, options, listener)
        self.evwsgi = evwsgi
        self.locks = locks
        self.has_timers = False
        self.waits_for_timers = False
        # The last pass has called timers.
        self.has_called_timers = False
        # Another process makes a call; this one looks again after a pause.
        self.is_locked_out = False
        evwsgi.wake = self.wake_for_jobs

    def wake_for_jobs(self):
        if get_ident() != self.main_thread:
            self.wake()

    def serve(self):
        start_new_thread(self.watch, ())
        while not self.is_stopping:
            if self.backlog:
                self.run_batch()
                self.run_jobs(False)
            else:
                self.read_if_idle(self.idle_seconds())
                self.run_jobs(not self.backlog)
        self.stop()
        self.finish_jobs()

    def idle_seconds(self):
        """Returns how long the loop may wait for requests; -1 is without end."""
        self.take_timers()
        if self.is_locked_out:
            return JOB_PAUSE_SECONDS
        if self.evwsgi.deferred:
            return 0
        dues = [timer.due for timer in self.running_timers()]
        return max(0, min(dues) - time.monotonic()) if dues else -1

    # Timers

    def take_timers(self):
        """Tries to become the process that calls timers, or lets a thread wait for it."""
        if self.has_timers or self.waits_for_timers or not self.evwsgi.timers:
            return
        if self.locks.take(TIMERS_LOCK):
            self.has_timers = True
        else:
            self.waits_for_timers = True
            start_new_thread(self.wait_for_timers, ())

    def wait_for_timers(self):
        self.locks.take(TIMERS_LOCK, may_wait=True)
        self.has_timers = not self.is_stopping
        self.wake()

    def running_timers(self):
        """Returns the timers that this process is to call, each with its time."""
        if not self.has_timers:
            return []
        running = [timer for timer in self.evwsgi.timers if not timer.is_stopped]
        for timer in running:
            if timer.due is None:
                timer.due = time.monotonic() + timer.delay
        return running

    def call_timer(self, timer):
        # As in libev: a timer that is late is called once, and then from now on.
        timer.due = max(timer.due + timer.delay, time.monotonic())
        if not timer.delay:
            timer.is_stopped = True
        try:
            if timer.function() is False:
                timer.is_stopped = True
        except BaseException as error:
            timer.is_stopped = True
            self.report_job('a timer has failed, and is stopped', error)

    # Calls

    def run_jobs(self, is_idle):
        """Calls the timers that are due, or else one deferred call if no request has arrived."""
        due = self.running_timers()
        if due:
            now = time.monotonic()
            due = [timer for timer in due if timer.due <= now]
        self.is_locked_out = False
        may_defer = is_idle and self.evwsgi.deferred and not self.is_stopping
        # Timers that take longer than their delays must not keep deferred calls waiting for ever.
        if due and not (may_defer and self.has_called_timers):
            self.has_called_timers = True
            for timer in due:
                if not self.run_job(self.call_timer, timer):
                    break
        elif may_defer:
            self.has_called_timers = False
            self.run_job(self.call_deferred)

    def run_job(self, function, *arguments):
        """Calls a function unless another process makes a call. Returns whether it was called."""
        if not self.locks.take(CALL_LOCK):
            self.is_locked_out = True
            return False
        self.calls += 1
        self.quick_calls = 0
        self.is_busy = True
        if not self.is_watched:
            self.start_watch()
        try:
            function(*arguments)
        finally:
            self.is_busy = False
            if self.is_forked:
                leave_forked_process(0)
            self.locks.free(CALL_LOCK)
        return True

    def call_deferred(self):
        function, argument = self.evwsgi.deferred[0]
        try:
            function(argument)
        except BaseException as error:
            self.report_job('a deferred call has failed', error)
        finally:
            del self.evwsgi.deferred[0]

    def report_job(self, text, error):
        if self.is_forked:
            leave_forked_process(error)
        log(text)
        print_traceback(error)
        error.__traceback__ = None

    def finish_jobs(self):
        """Lets another process call the timers, and makes all deferred calls that are left."""
        if self.has_timers:
            self.has_timers = False
            self.locks.free(TIMERS_LOCK)
        while self.evwsgi.deferred:
            if not self.run_job(self.call_deferred):
                sleep(JOB_PAUSE_SECONDS)
        for connection in list(self.connections.values()):
            connection.flush()


def serve_fapws_application(evwsgi):
    if options.threads > 1:
        log('an application of fapws has one thread in each process')
        options.threads = 1
    locks = FapwsLocks(reopen_program_file(), options.folder, options.application)
    application = FapwsApplication(evwsgi)
    server = FapwsServer(application, options, _socket.socket(fileno=listener), evwsgi, locks)
    application.server = server
    serve_until_stopped(server)
