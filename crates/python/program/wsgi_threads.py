# The threads of a process that runs a WSGI application, beside the main thread: the watch, which
# reads for it while a call of the application takes long, and the pool, which runs requests.


class WsgiThreads:
    """What these threads do with the connections and the backlog of a server."""

    # The watch

    def start_watch(self):
        self.is_watched = True
        try:
            self.watch_alarm.release()
        except RuntimeError:
            pass  # The watch has not waited for the last one yet.

    def watch(self):
        """Reads for the main thread while a call of the application takes long."""
        while True:
            self.watch_alarm.acquire()
            calls = -1
            while True:
                sleep(WATCH_INTERVAL_SECONDS)
                if self.calls != calls:
                    calls = self.calls
                elif self.is_busy:
                    self.watch_call()
                else:
                    self.is_watched = False
                    if not self.is_busy:
                        break
                    # A request has begun at the same time, and perhaps found it still true.
                    self.is_watched = True

    def watch_call(self):
        for connection in list(self.connections.values()):
            if connection.queued:
                connection.flush()
        if self.reading.acquire(False):
            try:
                self.read(0)
            except Exception as error:
                log('cannot read from the server: %s' % describe_error(error))
            finally:
                self.reading.release()
        if self.is_stopping:
            self.give_back_all()

    # The pool

    def serve_with_pool(self):
        import threading
        self.progress = threading.Condition()
        self.pool = threading.Condition()
        for number in range(self.threads):
            threading.Thread(target=self.work, name='wsgi-%d' % (number + 1), daemon=True).start()
        while not self.is_stopping:
            with self.reading:
                self.read(-1)
        self.give_back_all()
        self.wake_waiting()
        while self.running:
            with self.reading:
                self.read(-1)
        self.stop()

    def work(self):
        """Runs requests of the backlog in a thread of the pool."""
        while True:
            with self.pool:
                while not self.backlog:
                    self.pool.wait()
                try:
                    request = self.backlog.popleft()
                except IndexError:
                    continue
                self.running += 1
            request.thread = get_ident()
            try:
                self.run(request)
                request.connection.flush()
            finally:
                with self.pool:
                    self.running -= 1
                    if self.is_stopping and not self.running:
                        self.wake()

    def wake(self):
        try:
            os.write(self.wake_writer, b'\0')
        except BlockingIOError:
            pass  # It is full, so it wakes anyway.
