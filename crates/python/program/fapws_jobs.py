# The main loop of a process that runs a fapws application: requests, timers and deferred calls, all
# on the main thread.
#
# Timers that are due are called between two batches of requests. Deferred calls are made one at a
# time, when no request has arrived. As in fapws, each of these calls delays the requests of its
# process for as long as it takes.
#
# Of all processes of an application, only one calls timers, and no two processes call timers or
# deferred functions at the same time. Record locks (fcntl, F_SETLK) on bytes of the file of this
# program ensure that. All processes that a server starts share this file, also after a reload, and
# it needs no path in the file system. A record lock belongs to a process: it is released when the
# process ends, however that happens, and forked processes do not inherit it.
#
# A lock on a file of the application would not work: if the file is replaced, it has another inode,
# just when old and new processes run at the same time. Bytes beyond the end of a file can be
# locked; their offset is derived from the folder and the name of the application, which a reload
# does not change.

import fcntl

# How often a process that has calls to make checks whether another process still holds the lock.
LOCK_RETRY_SECONDS = 0.01


class FapwsLocks:
    """The record locks of an application: for calling timers, and for making any call at all."""

    def __init__(self, descriptor, folder, application):
        self.descriptor = descriptor
        name = '\0'.join((os.path.abspath(folder), application))
        import hashlib
        digest = hashlib.sha256(name.encode('utf-8', 'surrogateescape')).digest()
        # An even number below 2^62, so that two adjacent bytes are used.
        self.offset = int.from_bytes(digest[:8], 'little') >> 2 & ~1

    def acquire(self, byte, may_wait=False):
        """Acquires a lock. Returns False if another process holds it, unless `may_wait` is set."""
        flags = fcntl.LOCK_EX if may_wait else fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            fcntl.lockf(self.descriptor, flags, 1, self.offset + byte)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def release(self, byte):
        fcntl.lockf(self.descriptor, fcntl.LOCK_UN, 1, self.offset + byte)


TIMERS_LOCK, CALL_LOCK = 0, 1


class FapwsServer(WsgiServer):
    """A WsgiServer that also calls timers and deferred functions."""

    def __init__(self, application, options, listener, evwsgi, locks):
        WsgiServer.__init__(self, application, options, listener)
        self.evwsgi = evwsgi
        self.locks = locks
        self.owns_timers = False
        self.is_waiting_for_timers = False
        # Whether the previous pass of the loop has called timers.
        self.last_pass_called_timers = False
        # Whether another process holds CALL_LOCK; this process tries again after a pause.
        self.is_call_lock_taken = False
        evwsgi.wake = self.wake_for_jobs

    def wake_for_jobs(self):
        if get_ident() != self.main_thread:
            self.wake_main_thread()

    def serve(self):
        start_thread(self.run_backup_reader)
        while not self.is_stopping:
            if self.backlog:
                self.run_batch()
                self.run_jobs(False)
            else:
                self.poll_sockets_if_idle(self.idle_timeout_seconds())
                self.run_jobs(not self.backlog)
        self.stop()
        self.finish_deferred_calls()
        self.close_connections()

    def idle_timeout_seconds(self):
        """Returns how long the loop may wait for requests, or -1 for no limit."""
        self.try_to_own_timers()
        if self.is_call_lock_taken:
            return LOCK_RETRY_SECONDS
        if self.evwsgi.deferred:
            return 0
        dues = [timer.due for timer in self.running_timers()]
        return max(0, min(dues) - time.monotonic()) if dues else -1

    # Timers

    def try_to_own_timers(self):
        """Acquires TIMERS_LOCK, which allows this process to call timers.

        If another process holds it, a thread waits until it is released.
        """
        if self.owns_timers or self.is_waiting_for_timers or not self.evwsgi.timers:
            return
        if self.locks.acquire(TIMERS_LOCK):
            self.owns_timers = True
        else:
            self.is_waiting_for_timers = True
            start_thread(self.wait_to_own_timers)

    def wait_to_own_timers(self):
        self.locks.acquire(TIMERS_LOCK, may_wait=True)
        self.owns_timers = True
        if self.is_stopping:
            self.release_timers()
        self.wake_main_thread()

    def release_timers(self):
        """Releases TIMERS_LOCK, so that another process can call timers."""
        if self.owns_timers:
            self.owns_timers = False
            self.locks.release(TIMERS_LOCK)

    def running_timers(self):
        """Returns the timers that this process must call, after setting their first due times."""
        if not self.owns_timers:
            return []
        running = [timer for timer in self.evwsgi.timers if not timer.is_stopped]
        for timer in running:
            if timer.due is None:
                timer.due = time.monotonic() + timer.delay
        return running

    def call_timer(self, timer):
        # As in libev, a late timer does not make up for missed calls: its next call is due now at
        # the earliest.
        timer.due = max(timer.due + timer.delay, time.monotonic())
        if not timer.delay:
            timer.is_stopped = True
        try:
            if timer.function() is False:
                timer.is_stopped = True
        except BaseException as error:
            timer.is_stopped = True
            self.log_job_failure('a timer has failed, and is stopped', error)

    # Calls

    def run_jobs(self, is_idle):
        """Calls the timers that are due, or else one deferred function if no request waits."""
        due = self.running_timers()
        if due:
            now = time.monotonic()
            due = [timer for timer in due if timer.due <= now]
        self.is_call_lock_taken = False
        may_defer = is_idle and self.evwsgi.deferred and not self.is_stopping
        # Timers that take longer than their delays are always due. They must not block deferred
        # calls forever, so every second pass makes one of those.
        if due and not (may_defer and self.last_pass_called_timers):
            self.last_pass_called_timers = True
            for timer in due:
                if not self.run_job(self.call_timer, timer):
                    break
        elif may_defer:
            self.last_pass_called_timers = False
            self.run_job(self.call_deferred)

    def run_job(self, function, *arguments):
        """Calls a function while holding CALL_LOCK. Returns False if another process holds it."""
        if not self.locks.acquire(CALL_LOCK):
            self.is_call_lock_taken = True
            return False
        self.call_count += 1
        self.quick_call_count = 0
        self.is_busy = True
        if not self.backup_reader_is_awake:
            self.wake_backup_reader()
        try:
            function(*arguments)
        finally:
            self.is_busy = False
            if self.is_forked:
                exit_forked_process(0)
            self.locks.release(CALL_LOCK)
        return True

    def call_deferred(self):
        function, argument = self.evwsgi.deferred[0]
        try:
            function(argument)
        except BaseException as error:
            self.log_job_failure('a deferred call has failed', error)
        finally:
            del self.evwsgi.deferred[0]

    def log_job_failure(self, text, error):
        if self.is_forked:
            exit_forked_process(error)
        log(text)
        print_traceback(error)
        error.__traceback__ = None

    def finish_deferred_calls(self):
        """Releases the lock for timers, and makes all deferred calls that are left."""
        self.release_timers()
        while self.evwsgi.deferred:
            if not self.run_job(self.call_deferred):
                sleep(LOCK_RETRY_SECONDS)


def serve_fapws_application(evwsgi):
    if options.threads > 1:
        log('fapws applications are single-threaded; ignoring --threads %d' % options.threads)
        options.threads = 1
    locks = FapwsLocks(reopen_program_file(), options.folder, options.application)
    application = FapwsApplication(evwsgi)
    server = FapwsServer(application, options, _socket.socket(fileno=listener), evwsgi, locks)
    application.server = server
    serve_until_stopped(server)
