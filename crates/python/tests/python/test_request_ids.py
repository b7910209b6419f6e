"""Lines of standard output and standard error begin with the X-Request-Id of their request."""

import unittest

from asgi_peer import AsgiChild
from peer import STACK, Child

WSGI = '''
import logging, os, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
# Like most frameworks, this handler looks the stream up only once.
handler = logging.StreamHandler()
barrier = threading.Barrier(2)


def app(environ, start):
    path = environ['PATH_INFO']
    if path == '/prints':
        print('first\\nsecond')
        print('third', end='')
        print(' goes on')
    elif path == '/logs':
        handler.emit(logging.makeLogRecord({'msg': 'logged'}))
        print('also', 'this', file=environ['wsgi.errors'])
        sys.stderr.writelines(['a\\n', '', 'b\\n'])
    elif path == '/fails':
        1 / 0
    elif path == '/meets':
        barrier.wait()
        print('met')
        barrier.wait()
    elif path == '/waits':
        while not os.path.exists(os.path.join(HERE, 'go')):
            time.sleep(0.001)
    elif path == '/stream':
        sys.stdout.buffer.write(b'bytes\\n')
        streams = [sys.stdout, sys.stderr]
        assert [stream.fileno() for stream in streams] == [1, 2]
        assert [stream.mode for stream in streams] == ['w', 'w']
        assert sys.stderr.errors == 'backslashreplace'
        assert streams == [sys.__stdout__, sys.__stderr__]
        assert print('umlaut \\xe4') is None and sys.stdout.write('four\\n') == 5
    start('200 OK', [])
    return [b'done']
'''

ASGI = '''
import asyncio, contextvars, os

HERE = os.path.dirname(os.path.abspath(__file__))
inside = []


async def later():
    await asyncio.sleep(0)
    print('of a task')


async def app(scope, receive, send):
    if scope['type'] == 'lifespan':
        print('begins')
        raise NotImplementedError
    if scope['path'] == '/waits':
        while not os.path.exists(os.path.join(HERE, 'go')):
            await asyncio.sleep(0.001)
    inside.append(scope['path'])
    while scope['path'] == '/meets' and len(inside) < 2:
        await asyncio.sleep(0.001)
    print('of the application')
    await asyncio.create_task(later())
    # Like `asyncio.to_thread` of later Python versions, this runs in a copy of the context.
    run = contextvars.copy_context().run
    await asyncio.get_running_loop().run_in_executor(None, run, print, 'of a thread')
    await send({'type': 'http.response.start', 'status': 200})
    await send({'type': 'http.response.body', 'body': b'done'})
'''


def go(child):
    open(child.folder + '/go', 'w').close()


class WsgiRequestIds(unittest.TestCase):
    def setUp(self):
        self.child = Child(WSGI).__enter__()
        self.addCleanup(self.child.__exit__)
        self.link = self.child.connect()

    def run_request(self, path, request_id):
        more = {} if request_id is None else {'HTTP_X_REQUEST_ID': request_id}
        self.link.get(path, **more)

    def test_lines_have_the_id_of_their_request(self):
        self.run_request('/prints', '5f0c')
        self.run_request('/prints', None)
        self.run_request('/prints', 'a-b')
        self.assertEqual(
            self.child.output(),
            '[5f0c] first\n[5f0c] second\n[5f0c] third goes on\n'
            'first\nsecond\nthird goes on\n'
            '[a-b] first\n[a-b] second\n[a-b] third goes on\n')

    def test_lines_of_standard_error_have_the_id(self):
        self.run_request('/logs', '5f0c')
        self.assertEqual(
            self.child.log(), '[5f0c] logged\n[5f0c] also this\n[5f0c] a\n[5f0c] b\n')

    def test_each_line_of_a_traceback_has_the_id(self):
        self.run_request('/fails', '5f0c')
        lines = self.child.log().splitlines()
        self.assertIn('[5f0c] GET /fails: the application has failed', lines)
        self.assertEqual(lines[-1], '[5f0c] ZeroDivisionError: division by zero')
        self.assertTrue(all(line.startswith('[5f0c] ') for line in lines), lines)

    def test_unsafe_ids_are_not_printed(self):
        for value in ('', 'a\tb', '1] GET / [2', '\xe4', 'x' * 1000):
            self.run_request('/prints', value)
        lines = self.child.output().splitlines()
        self.assertEqual(lines[:12], ['first', 'second', 'third goes on'] * 4)
        self.assertEqual(lines[12], '[%s] first' % ('x' * 64))

    def test_the_streams_keep_their_properties(self):
        self.run_request('/stream', '5f0c')
        self.assertEqual(self.child.log(), '')
        self.assertEqual(self.child.output(), 'bytes\n[5f0c] umlaut \xe4\n[5f0c] four\n')

    def test_the_stack_trace_of_a_request_has_the_id(self):
        number, = self.link.batch({'PATH_INFO': '/waits', 'HTTP_X_REQUEST_ID': '5f0c'})
        while 'exceeded the time limit' not in self.child.log():
            self.link.send(STACK, number)
        go(self.child)
        self.link.finish(number)
        lines = self.child.log().splitlines()
        self.assertTrue(all(line.startswith('[5f0c] ') for line in lines), lines)


class Threads(unittest.TestCase):
    def test_each_thread_has_the_id_of_its_request(self):
        with Child(WSGI, options=['--threads', '2']) as child:
            link = child.connect()
            numbers = link.batch(*({'PATH_INFO': '/meets', 'HTTP_X_REQUEST_ID': request_id}
                                   for request_id in ('one', 'two')))
            for number in numbers:
                link.finish(number)
            self.assertEqual(sorted(child.output().splitlines()), ['[one] met', '[two] met'])


class AsgiRequestIds(unittest.TestCase):
    def test_tasks_and_threads_have_the_id_of_their_request(self):
        with AsgiChild(ASGI) as child:
            link = child.connect()
            numbers = link.batch(*({'path': '/meets', 'headers': [(b'x-request-id', request_id)]}
                                   for request_id in (b'one', b'two')))
            for number in numbers:
                link.finish(number)
            link.get('/')
            places = 'of the application', 'of a task', 'of a thread'
            expected = ['begins'] + list(places)
            expected += ['[%s] %s' % (name, place) for name in ('one', 'two') for place in places]
            self.assertEqual(sorted(child.output().splitlines()), sorted(expected))

    def test_the_stack_trace_of_a_request_has_the_id(self):
        with AsgiChild(ASGI) as child:
            link = child.connect()
            number = link.start('/waits', headers=[(b'x-request-id', b'5f0c')])
            while 'exceeded the time limit' not in child.log():
                link.send(STACK, number)
            go(child)
            link.finish(number)
            lines = child.log().splitlines()
            stack = [line for line in lines if 'lifespan' not in line]
            self.assertTrue(all(line.startswith('[5f0c] ') for line in stack), lines)


if __name__ == '__main__':
    unittest.main()
