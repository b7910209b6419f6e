"""The process of a WSGI application: signals, threads, forks, descriptors, standard output."""

import os
import signal
import struct
import time
import unittest

from peer import (
    END, GIVEN_BACK, HEAD, READY, RESPONSE_CONTENT, ROOM, TAKE_BACK, Child, Link)

APPLICATION = '''
import atexit, collections, multiprocessing, os, signal, subprocess, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
barrier = threading.Barrier(3)


@atexit.register
def at_exit():
    if os.getpid() == parent:
        print('at exit')


parent = os.getpid()


def answer(start, value):
    start('200 OK', [])
    return [repr(value).encode()]


def wait(environ, start):
    with open(os.path.join(HERE, 'started'), 'a') as file:
        file.write('.')
    while not os.path.exists(os.path.join(HERE, 'go')):
        time.sleep(0.001)
    return answer(start, 'waited')


def hello(environ, start):
    return answer(start, 'hello')


def works_on(environ, start):
    write = start('200 OK', [('Content-Length', '2')])
    write(b'ok')
    return wait_for_go()


def yields_and_works_on(environ, start):
    start('200 OK', [('Content-Length', '2')])
    yield b'ok'
    wait_for_go()


def wait_for_go():
    while not os.path.exists(os.path.join(HERE, 'go')):
        time.sleep(0.001)
    return []


def stream(environ, start):
    start('200 OK', [])
    return [b'x' * 400000]


def meet(environ, start):
    barrier.wait()
    return answer(start, (environ['wsgi.multithread'], threading.current_thread().name[:5]))


def upload(environ, start):
    return answer(start, len(environ['wsgi.input'].read()))


def fork_and_return(environ, start):
    if not os.fork():
        return answer(start, 'forked')
    return answer(start, 'parent')


def fork_and_stream(environ, start):
    start('200 OK', [])
    child = os.fork()
    yield b'forked' if not child else b'parent'
    if not child:
        for _ in range(1000):
            yield b'forked' * 1000


def fork_and_exit(environ, start):
    child = os.fork()
    if not child:
        sys.exit(7)
    return answer(start, os.WEXITSTATUS(os.waitpid(child, 0)[1]))


def fork_and_fail(environ, start):
    child = os.fork()
    if not child:
        raise ValueError('in the fork')
    return answer(start, os.WEXITSTATUS(os.waitpid(child, 0)[1]))


def sockets():
    names = []
    for name in os.listdir('/proc/self/fd'):
        try:
            names.append(os.readlink('/proc/self/fd/' + name))
        except OSError:
            pass
    return sum(name.startswith('socket:') for name in names), names


def descriptors_of_fork(environ, start):
    reader, writer = os.pipe()
    if not os.fork():
        os.write(writer, repr(sockets()[0]).encode())
        os._exit(0)
    os.wait()
    return answer(start, (sockets()[0], int(os.read(reader, 1000))))


def fork_of_fork(environ, start):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        # The descriptors get the numbers of those that the server has closed.
        opened = [os.open('/dev/zero', os.O_RDONLY) for _ in range(20)]
        try:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        except ValueError:
            pass  # PyPy allows it only in the main thread.
        handler = signal.getsignal(signal.SIGTERM)
        child_of_child = os.fork()
        if not child_of_child:
            found = [os.read(descriptor, 1) for descriptor in opened]
            found.append(signal.getsignal(signal.SIGTERM) == handler)
            os.write(writer, repr(found).encode())
            os._exit(0)
        os.waitpid(child_of_child, 0)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with open(reader, 'rb') as result:
        return answer(start, eval(result.read() or b'None'))


def signals_of_fork(environ, start):
    ends = []
    for number in (signal.SIGTERM, signal.SIGINT):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.write(writer, b'.')
                while True:
                    time.sleep(0.01)
            except KeyboardInterrupt:
                os._exit(3)
        os.read(reader, 1)
        ended, attempts = 0, 0
        # From version 3.13 to at least 3.14, CPython loses signals of a process that a thread has
        # forked. This also happens in a script without a server.
        loses_signals = sys.version_info >= (3, 13)
        while not ended:
            if attempts == 0 or loses_signals and attempts % 10 == 0:
                os.kill(child, number)
            attempts += 1
            time.sleep(0.01)
            ended, status = os.waitpid(child, os.WNOHANG)
        ends.append(status)
    return answer(start, ends)


ends_forks = False


# This hook is registered before that of the server, so a forked process calls it first.
def end_fork():
    if ends_forks:
        os.kill(os.getpid(), signal.SIGTERM)


os.register_at_fork(after_in_child=end_fork)


def signal_at_fork(environ, start):
    global ends_forks
    ends_forks = True
    child = os.fork()
    if not child:
        os._exit(7)
    ends_forks = False
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return answer(start, (os.waitpid(child, 0)[1], sorted(map(int, mask))))


def descriptors_of_program(environ, start):
    found = subprocess.check_output(['ls', '-l', '/proc/self/fd']).decode()
    return answer(start, (found.count('socket:'), os.readlink('/proc/self/fd/0')))


def work(value):
    return value * 2


def pool(environ, start):
    with multiprocessing.get_context('fork').Pool(2) as pool:
        return answer(start, pool.map(work, [1, 2, 3]))


def prints(environ, start):
    print('a line of the application')
    return answer(start, 0)


def count_polls(environ, start):
    """Waits for its send window, and then sends how often the process has polled its sockets."""
    server, polls = start.__self__.connection.server, []
    # The listener stays open elsewhere, like that of the real server.
    os.dup(server.listener.fileno())
    poll_sockets = server.poll_sockets

    def count(timeout):
        polls.append(timeout)
        poll_sockets(timeout)

    server.poll_sockets = count
    start('200 OK', [])
    yield b'x' * (256 * 1024 + 1)
    yield b' %d' % len(polls)


accepts = []


class CountedListener:
    def __init__(self, listener):
        self.listener = listener

    def __getattr__(self, name):
        if name == '_accept':
            accepts.append(name)
        return getattr(self.listener, name)


def use_all_descriptors(environ, start):
    import resource
    server = start.__self__.connection.server
    server.accept.__globals__['ACCEPT_RETRY_SECONDS'] = float(environ['QUERY_STRING'])
    server.listener = CountedListener(server.listener)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, 1000))
    return answer(start, free)


def allow_more_descriptors(environ, start):
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))
    return answer(start, 1000)


def count_accepts(environ, start):
    return answer(start, len(accepts))


class StoppingBacklog(collections.deque):
    """Stops the process when a thread has removed a request and not counted it yet."""

    def popleft(self):
        request = super().popleft()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
        return request


def stop_at_next(environ, start):
    server = start.__self__.connection.server
    server.backlog = StoppingBacklog(server.backlog)
    return answer(start, 0)


def app(environ, start_response):
    return globals()[environ['PATH_INFO'][1:]](environ, start_response)
'''


class Process(unittest.TestCase):
    options = ()

    def setUp(self):
        self.child = Child(APPLICATION, options=self.options)
        self.link = self.child.connect()

    def tearDown(self):
        self.child.__exit__()

    def wait_for_start(self, count=1):
        path = os.path.join(self.child.folder, 'started')
        while not os.path.exists(path) or os.path.getsize(path) < count:
            time.sleep(0.001)

    def go(self):
        open(os.path.join(self.child.folder, 'go'), 'w').close()

    def value(self, path, **more):
        response = self.link.get(path, **more)
        self.assertEqual(response.status, '200 OK', response.frames)
        return eval(response.content)

    def test_standard_output_is_flushed_by_line(self):
        self.value('/prints')
        self.assertEqual(self.child.output(), 'a line of the application\n')

    def test_sigterm_while_idle(self):
        self.value('/hello')
        self.child.stop()
        self.assertEqual(self.child.wait(), 0)
        self.assertEqual(self.child.output(), 'at exit\n')
        with self.assertRaises((EOFError, OSError)):
            self.child.connect()
        self.assertEqual(self.child.log(), '')

    def test_sigterm_before_any_connection(self):
        with Child(APPLICATION, options=self.options) as child:
            # The process accepts a connection only after it has loaded the application.
            child.connect().close()
            child.stop()
            self.assertEqual(child.wait(), 0)

    def test_sigterm_finishes_started_requests_and_gives_back_the_others(self):
        threads = int(self.options[1]) if self.options else 1
        numbers = self.link.batch(*([{'PATH_INFO': '/wait'}] * threads
                                    + [{'PATH_INFO': '/hello'}] * 3))
        self.wait_for_start(threads)
        self.child.stop()
        frame = self.link.read_frame_of(0)
        self.assertEqual(frame.kind, GIVEN_BACK)
        self.assertEqual(list(struct.unpack('<3I', frame.content)), numbers[-3:])
        late = self.link.start('/hello')
        frame = self.link.read_frame_of(0)
        self.assertEqual(struct.unpack('<I', frame.content), (late,))
        self.go()
        for number in numbers[:threads]:
            self.assertEqual(self.link.finish(number).content, b"'waited'")
        self.assertEqual(self.child.wait(), 0)

    def test_the_server_can_send_until_it_has_read_the_last_frame(self):
        self.child.stop()
        self.assertRaises(EOFError, self.link.read_frame)
        late = self.link.start('/hello')
        self.link.send(TAKE_BACK, 0, struct.pack('<I', late))
        self.link.close()
        self.assertEqual(self.child.wait(), 0)
        self.assertEqual(self.child.log(), '')

    def test_sigterm_while_a_response_waits_for_its_send_window(self):
        number = self.link.start('/stream')
        self.assertEqual(self.link.read_frame_of(number).kind, HEAD)
        self.child.stop()
        size = 0
        while size < 256 * 1024:
            frame = self.link.read_frame_of(number)
            self.assertEqual(frame.kind, RESPONSE_CONTENT)
            size += len(frame.content)
        self.link.send(ROOM, number, struct.pack('<I', 400000))
        response = self.link.finish(number, grants_window=False)
        self.assertEqual(size + len(response.content), 400000)
        self.assertEqual(response.last.kind, END)
        self.assertEqual(self.child.wait(), 0)

    def test_a_connection_that_arrives_after_sigterm_causes_no_busy_loop(self):
        number = self.link.start('/count_polls')
        self.assertEqual(self.link.read_frame_of(number).kind, HEAD)
        size = 0
        while size < 256 * 1024:
            size += len(self.link.read_frame_of(number).content)
        self.child.stop()
        with Link(self.child.address):
            for _ in range(200):
                self.link.send(TAKE_BACK)
                self.assertEqual(self.link.read_frame_of(0).kind, GIVEN_BACK)
            self.link.send(ROOM, number, struct.pack('<I', 1000))
            response = self.link.finish(number)
        self.assertLess(int(response.content.split()[1]), 220)

    def test_a_full_table_of_descriptors_causes_no_busy_loop(self):
        self.value('/use_all_descriptors', QUERY_STRING='1000')
        with Link(self.child.address):
            for _ in range(200):
                self.value('/hello')
            self.assertEqual(self.value('/count_accepts'), 1)
        self.assertEqual(self.child.log().count('cannot accept a connection'), 1)

    def test_connections_are_accepted_when_descriptors_are_free_again(self):
        self.value('/use_all_descriptors', QUERY_STRING='0.001')
        with Link(self.child.address) as link:
            while self.value('/count_accepts') < 3:
                pass
            self.value('/allow_more_descriptors')
            self.assertEqual(link.read_frame().kind, READY)

    def test_sigint_is_ignored(self):
        number = self.link.start('/wait')
        self.wait_for_start()
        self.child.process.send_signal(signal.SIGINT)
        self.go()
        self.assertEqual(self.link.finish(number).content, b"'waited'")
        self.child.process.send_signal(signal.SIGINT)
        self.assertEqual(self.value('/hello'), 'hello')

    def test_a_forked_process_sends_no_frames(self):
        for path, content in (('/fork_and_return', b"'parent'"), ('/fork_and_stream', b'parent')):
            with self.subTest(path):
                response = self.link.get(path)
                self.assertEqual(response.content, content)
                for _ in range(20):
                    self.assertEqual(self.value('/hello'), 'hello')
                self.assertEqual(list(self.link.other_frames), [])
        self.assertEqual(self.child.log(), '')

    def test_a_forked_process_ends_as_a_script_would(self):
        self.assertEqual(self.value('/fork_and_exit'), 7)
        self.assertEqual(self.value('/fork_and_fail'), 1)
        self.assertIn('ValueError: in the fork', self.child.log())
        self.assertEqual(self.value('/hello'), 'hello')

    def test_a_forked_process_has_no_sockets_of_the_server(self):
        self.assertEqual(self.value('/descriptors_of_fork'), (2, 0))

    def test_a_fork_of_a_fork_keeps_the_descriptors_and_handlers_of_the_application(self):
        self.assertEqual(self.value('/fork_of_fork'), [b'\0'] * 20 + [True])

    def test_a_forked_process_has_the_default_signal_handlers(self):
        terminated, interrupted = self.value('/signals_of_fork')
        self.assertEqual(os.WTERMSIG(terminated), signal.SIGTERM)
        self.assertEqual(os.WEXITSTATUS(interrupted), 3)
        self.assertEqual(self.value('/hello'), 'hello')

    def test_a_complete_response_is_sent_before_the_application_returns(self):
        for path in ('/works_on', '/yields_and_works_on'):
            self.assertEqual(self.link.get(path).content, b'ok')
            self.go()
            self.assertEqual(self.value('/hello'), 'hello')
            os.remove(os.path.join(self.child.folder, 'go'))

    def test_a_signal_during_a_fork_ends_the_forked_process(self):
        for _ in range(2):
            self.assertEqual(self.value('/signal_at_fork'), (signal.SIGTERM, []))

    def test_a_subprocess_has_no_sockets_of_the_server(self):
        self.assertEqual(self.value('/descriptors_of_program'), (0, '/dev/null'))

    def test_a_multiprocessing_pool(self):
        self.assertEqual(self.value('/pool'), [2, 4, 6])
        self.assertEqual(self.value('/hello'), 'hello')


class ProcessOfThreads(Process):
    options = ('--threads', '3')

    def test_requests_run_at_the_same_time(self):
        # Each request waits at a barrier until all three run.
        numbers = self.link.batch(*[{'PATH_INFO': '/meet'}] * 3)
        for number in numbers:
            self.assertEqual(eval(self.link.finish(number).content), (True, 'wsgi-'))

    def test_sigterm_before_a_thread_has_counted_its_request(self):
        self.value('/stop_at_next')
        self.assertEqual(self.value('/hello'), 'hello')

    def test_threads_wait_for_bodies_and_windows_at_the_same_time(self):
        uploads = [self.link.start('/upload', 'POST', None) for _ in range(2)]
        stream = self.link.start('/stream')
        self.assertEqual(len(self.link.finish(stream).content), 400000)
        for number in uploads:
            response = self.link.finish(number, b'x' * 300000)
            self.assertEqual(response.content, b'300000')


class Options(unittest.TestCase):
    def test_multiprocess_is_true_for_several_processes(self):
        source = '''
def app(environ, start):
    start('200 OK', [])
    return [repr(environ['wsgi.multiprocess']).encode()]
'''
        with Child(source, options=('--processes', '2')) as child:
            self.assertEqual(child.connect().get().content, b'True')


if __name__ == '__main__':
    unittest.main()
