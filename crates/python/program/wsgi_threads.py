# The additional threads of a process that runs a WSGI application: the backup reader, which reads
# frames while a call of the application takes long, and the pool, whose threads run requests.


class WsgiThreads:
    """Mixin of WsgiServer: the code that starts, wakes and runs the backup reader and the pool."""

    # The backup reader

    def wake_backup_reader(self):
        """Wakes the backup reader at the beginning of a call, unless it is awake."""
        self.backup_reader_is_awake = True
        try:
            self.backup_reader_wake_lock.release()
        except RuntimeError:
            pass  # The backup reader has not waited since the last wake-up, so it is awake anyway.

    def run_backup_reader(self):
        """Reads frames in place of the main thread while a call of the application takes long."""
        while True:
            self.backup_reader_wake_lock.acquire()
            call_count = -1
            while True:
                sleep(BACKUP_READER_INTERVAL_SECONDS)
                if self.call_count != call_count:
                    call_count = self.call_count
                elif self.is_busy:
                    self.serve_connections_during_call()
                else:
                    self.backup_reader_is_awake = False
                    if not self.is_busy:
                        break
                    # A call has begun in the meantime, whose thread may have seen the flag while it
                    # was still true. It then has not woken this thread, which must stay awake.
                    self.backup_reader_is_awake = True

    def serve_connections_during_call(self):
        """Sends the held responses, and reads frames unless the main thread is just doing so."""
        for connection in list(self.connections.values()):
            if connection.queued_frames:
                connection.flush()
        if self.read_lock.acquire(False):
            try:
                self.poll_sockets(0)
            except Exception as error:
                log('cannot read from the server: %s' % describe_error(error))
            finally:
                self.read_lock.release()
        if self.is_stopping:
            self.give_back_backlog()

    # The pool of threads

    def serve_with_pool(self):
        """Serves with a pool of threads until SIGTERM arrives and all requests are finished."""
        import threading
        self.frames_arrived = threading.Condition()
        self.pool_condition = threading.Condition()
        for number in range(self.threads):
            name = 'wsgi-%d' % (number + 1)
            threading.Thread(target=self.run_pool_thread, name=name, daemon=True).start()
        while not self.is_stopping:
            with self.read_lock:
                self.poll_sockets(-1)
        self.give_back_backlog()
        self.wake_waiting_threads()
        while self.is_running():
            with self.read_lock:
                self.poll_sockets(-1)
        self.stop()

    def is_running(self):
        """Returns whether a thread of the pool runs a request."""
        # A thread holds this lock from the removal of a request from the backlog until it is
        # counted.
        with self.pool_condition:
            return self.running_count > 0

    def run_pool_thread(self):
        """Runs requests of the backlog. Each thread of the pool executes this method."""
        while True:
            with self.pool_condition:
                while self.is_stopping or not self.backlog:
                    self.pool_condition.wait()
                try:
                    request = self.backlog.popleft()
                except IndexError:
                    continue
                self.running_count += 1
            request.thread = get_ident()
            try:
                self.run_request(request)
                request.connection.flush()
            finally:
                with self.pool_condition:
                    self.running_count -= 1
                    if self.is_stopping and not self.running_count:
                        self.wake_main_thread()

    def wake_main_thread(self):
        """Ends the wait of the main thread for sockets."""
        try:
            os.write(self.wake_writer, b'\0')
        except BlockingIOError:
            pass  # The pipe is full, so the main thread wakes up anyway.
