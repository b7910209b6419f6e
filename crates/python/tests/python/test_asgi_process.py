"""The process of an ASGI application: loading, lifespan, the event loop, signals and forks."""

import os
import signal
import socket
import struct
import time
import unittest

from asgi_peer import AsgiChild
from peer import FAILED, GIVEN_BACK, READY, STACK, TAKE_BACK, TIMEOUT_SECONDS

HELPERS = '''
import asyncio, os

HERE = os.path.dirname(os.path.abspath(__file__))
events = []


def record(event):
    with open(os.path.join(HERE, 'events'), 'a') as file:
        file.write(event + '\\n')


async def wait_for(name):
    while not os.path.exists(os.path.join(HERE, name)):
        await asyncio.sleep(0.001)


async def reply(send, body):
    await send({'type': 'http.response.start', 'status': 200})
    await send({'type': 'http.response.body', 'body': body})
'''

LIFESPAN = HELPERS + '''
async def app(scope, receive, send):
    if scope['type'] == 'lifespan':
        assert scope['asgi']['version'] == '3.0'
        message = await receive()
        assert message == {'type': 'lifespan.startup'}
        await asyncio.sleep(0)
        scope['state']['shared'] = events
        record('startup')
        await send({'type': 'lifespan.startup.complete'})
        message = await receive()
        assert message == {'type': 'lifespan.shutdown'}
        await asyncio.sleep(0)
        record('shutdown')
        await send({'type': 'lifespan.shutdown.complete'})
        return
    if scope['path'] == '/wait':
        record('wait')
        await wait_for('go')
        record('waited')
    scope['state']['own'] = scope['path']
    scope['state']['shared'].append(scope['path'])
    await reply(send, repr(scope['state']).encode())
'''


BLOCKS = HELPERS + '''
import time


def block():
    record('blocks')
    while not os.path.exists(os.path.join(HERE, 'go')):
        time.sleep(0.001)


async def app(scope, receive, send):
    if scope['path'] == '/wait':
        record('waits')
        await wait_for('go')
    if scope['path'] == '/block':
        block()
    await reply(send, scope['path'].encode())
'''


def wait_until(is_there):
    for _ in range(TIMEOUT_SECONDS * 100):
        if is_there():
            return
        time.sleep(0.01)
    raise AssertionError('it does not happen')


class Stacks(unittest.TestCase):
    """Requests that exceed their time limit: their stack traces are logged."""

    def events(self, child):
        path = os.path.join(child.folder, 'events')
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return file.read().split()

    def go(self, child):
        open(os.path.join(child.folder, 'go'), 'w').close()

    def test_the_stack_of_a_waiting_request_is_logged(self):
        with AsgiChild(BLOCKS) as child:
            link = child.connect()
            number = link.start('/wait')
            wait_until(lambda: self.events(child) == ['waits'])
            link.send(STACK, number)
            wait_until(lambda: 'in wait_for\n' in child.log())
            self.assertIn('GET /wait exceeded the time limit. Current stack:\n', child.log())
            self.assertNotIn('blocked', child.log())
            self.go(child)
            self.assertEqual(link.finish(number).content, b'/wait')

    def test_a_blocked_event_loop_is_reported(self):
        with AsgiChild(BLOCKS) as child:
            link = child.connect()
            other = child.connect()
            waits = other.start('/wait')
            wait_until(lambda: self.events(child) == ['waits'])
            number = link.start('/block')
            wait_until(lambda: self.events(child) == ['waits', 'blocks'])
            more = link.start('/more')
            for a_link, a_number in ((link, number), (other, waits)):
                a_link.send(STACK, a_number)
                line = '%s exceeded the time limit; the event loop is blocked' % (
                    'GET /block' if a_link is link else 'GET /wait')
                wait_until(lambda: line + '. Current stack:\n' in child.log())
            stack = child.log().split('stack:\n')[1]
            self.assertRegex(stack, r'^  File ".*app.py", line \d+, in app\n +block\(\)\n')
            self.assertIn('in block\n', stack)
            self.go(child)
            for a_number in number, more:
                self.assertEqual(link.finish(a_number).status, '200')
            self.assertEqual(other.finish(waits).content, b'/wait')
            # The event loop has now read the STACK frames. It does not log another stack trace,
            # because the watchdog has already logged one.
            self.assertEqual(child.log().count('exceeded the time limit'), 2)

    def test_an_event_loop_that_is_blocked_again_is_reported(self):
        """The watchdog sleeps between the two requests, because there is no request then."""
        with AsgiChild(BLOCKS) as child:
            link = child.connect()
            for count in range(1, 3):
                number = link.start('/block')
                wait_until(lambda: len(self.events(child)) == count)
                link.send(STACK, number)
                wait_until(lambda: child.log().count('is blocked. Current stack:') == count)
                self.go(child)
                self.assertEqual(link.finish(number).content, b'/block')
                os.unlink(os.path.join(child.folder, 'go'))
                self.assertEqual(link.get('/x').content, b'/x')
                time.sleep(1)


class Process(unittest.TestCase):
    def child(self, source, *options, **more):
        child = AsgiChild(source, options=options, **more)
        self.addCleanup(child.__exit__)
        return child

    def end(self, child):
        """Stops a process, and closes its connections so that it exits."""
        child.stop()
        for link in child.links:
            self.assertRaises(EOFError, link.read_frame)
            link.close()
        self.assertEqual(child.wait(), 0)

    def path(self, child, name):
        return os.path.join(child.folder, name)

    def events(self, child):
        with open(self.path(child, 'events')) as file:
            return file.read().split()

    def wait_for_event(self, child, event):
        while not os.path.exists(self.path(child, 'events')) or event not in self.events(child):
            time.sleep(0.001)

    def assert_ends(self, child, *texts):
        self.assertEqual(child.wait(), 1)
        for text in texts:
            self.assertIn(text, child.log())
        # The process has not accepted a connection, so no worker got READY.
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(TIMEOUT_SECONDS)
            self.assertRaises(OSError, stream.connect, child.address)

    # The lifespan

    def test_startup_comes_first_and_shutdown_last(self):
        child = self.child(LIFESPAN)
        link = child.connect()
        self.assertEqual(self.events(child), ['startup'])
        number = link.start('/wait')
        self.wait_for_event(child, 'wait')
        child.stop()
        # A request that arrives after the signal is given back, so that the server can send it to
        # another process.
        while True:
            late = link.start('/late')
            frame = link.read_frame()
            if frame.kind == GIVEN_BACK:
                break
        self.assertEqual(struct.unpack('<I', frame.content), (late,))
        open(self.path(child, 'go'), 'w').close()
        self.assertIn(b'/wait', link.finish(number).content)
        self.assertRaises(EOFError, link.read_frame)
        link.close()
        self.assertEqual(child.wait(), 0)
        self.assertEqual(self.events(child), ['startup', 'wait', 'waited', 'shutdown'])

    def test_each_request_has_a_copy_of_the_state(self):
        link = self.child(LIFESPAN).connect()
        self.assertEqual(link.get('/a').content, b"{'shared': ['/a'], 'own': '/a'}")
        self.assertEqual(link.get('/b').content, b"{'shared': ['/a', '/b'], 'own': '/b'}")

    def test_a_failed_startup_ends_the_process(self):
        failed = '''
            async def app(scope, receive, send):
                await receive()
                await send({'type': 'lifespan.startup.failed', 'message': 'no database'})
        '''
        self.assert_ends(self.child(failed), 'cannot start the application', 'no database')
        raises = failed + '''
                raise ValueError('once more')
        '''
        child = self.child(raises)
        self.assert_ends(child, 'no database')
        self.assertNotIn('once more', child.log())
        exits = '''
            async def app(scope, receive, send):
                raise SystemExit('no database')
        '''
        self.assert_ends(self.child(exits), 'cannot start the application', 'no database')

    def test_an_application_without_lifespan_is_served(self):
        for line in ('assert scope["type"] == "http"', 'if scope["type"] == "lifespan": return',
                     'if scope["type"] == "lifespan": await send({"type": "wrong"})'):
            child = self.child(HELPERS + '''
async def app(scope, receive, send):
    %s
    await reply(send, b'hello')
''' % line)
            link = child.connect()
            self.assertEqual(link.get('/').content, b'hello')
            self.end(child)
            self.assertEqual(child.log(), '')

    def test_an_exception_at_startup_is_logged(self):
        child = self.child(HELPERS + '''
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        raise ValueError("no luck")
    await reply(send, b'hello')
''')
        self.assertEqual(child.connect().get('/').content, b'hello')
        self.assertIn('ValueError: no luck', child.log())
        self.end(child)

    def test_a_failed_shutdown_is_logged(self):
        for end, expected in (
                ("await send({'type': 'lifespan.shutdown.failed', 'message': 'no luck'})",
                 'has failed: no luck'),
                ("await send({'type': 'lifespan.shutdown.failed'})",
                 'has failed: it has given no reason'),
                ("raise ValueError('no luck')", 'has failed: ValueError: no luck')):
            child = self.child('''
async def app(scope, receive, send):
    await receive()
    await send({'type': 'lifespan.startup.complete'})
    await receive()
    %s
''' % end)
            child.connect()
            self.end(child)
            self.assertIn(expected, child.log())

    def test_the_lifespan_may_end_early(self):
        child = self.child(HELPERS + '''
async def app(scope, receive, send):
    if scope['type'] == 'lifespan':
        await receive()
        return await send({'type': 'lifespan.startup.complete'})
    await reply(send, b'hello')
''')
        self.assertEqual(child.connect().get('/').content, b'hello')
        self.end(child)
        self.assertEqual(child.log(), '')

    # Loading

    def test_the_loop_runs_while_the_application_is_loaded(self):
        child = self.child(HELPERS + '''
loop = asyncio.get_running_loop()
background = loop.create_task(asyncio.sleep(0, 'done'))


async def app(scope, receive, send):
    assert scope['type'] == 'http'
    assert loop is asyncio.get_running_loop()
    await reply(send, (await background).encode())
''')
        self.assertEqual(child.connect().get('/').content, b'done')

    def test_an_import_error_ends_the_process(self):
        self.assert_ends(self.child('import no_such_module\n'), 'ModuleNotFoundError')
        self.assert_ends(self.child('other = 1\n'), 'cannot load the application')

    def test_a_factory(self):
        child = self.child(HELPERS + '''
def make():
    async def made(scope, receive, send):
        await reply(send, b'made')
    return made
''', '--factory', application='app:make')
        self.assertEqual(child.connect().get('/').content, b'made')

    def test_callables_of_several_kinds_are_applications(self):
        source = HELPERS + '''
import functools


class Instance:
    async def __call__(self, scope, receive, send):
        await reply(send, b'instance')

    def method(self, scope, receive, send):
        return reply(send, b'method')


class Awaited:
    """An ASGI 3 application that is a class with awaitable instances."""

    def __init__(self, scope, receive, send):
        self.send = send

    def __await__(self):
        return reply(self.send, b'awaited').__await__()


class Old:
    """An ASGI 2 application that is a class."""

    def __init__(self, scope):
        self.scope = scope

    async def __call__(self, receive, send):
        await reply(send, b'old')


def old_function(scope):
    async def run(receive, send):
        await reply(send, b'old_function')
    return run


def wide(*arguments):
    return reply(arguments[2], b'wide')


async def with_more(more, scope, receive, send):
    await reply(send, more)


instance = Instance()
method = instance.method
partial = functools.partial(with_more, b'partial')
'''
        names = {'instance': 'instance', 'method': 'method', 'Awaited': 'awaited', 'Old': 'old',
                 'old_function': 'old_function', 'wide': 'wide', 'partial': 'partial'}
        for name, expected in names.items():
            child = self.child(source, application='app:' + name)
            self.assertEqual(child.connect().get('/').content, expected.encode(), name)

    # The process

    def test_several_connections(self):
        child = self.child(LIFESPAN)
        links = [child.connect() for _ in range(4)]
        numbers = [link.start('/wait') for link in links]
        self.assertEqual(links[0].get('/').status, '200')
        open(self.path(child, 'go'), 'w').close()
        for link, number in zip(links, numbers):
            self.assertEqual(link.finish(number).status, '200')

    def test_responses_that_are_sent_during_the_shutdown_arrive(self):
        child = self.child(HELPERS + '''
async def app(scope, receive, send):
    assert scope['type'] == 'http'
    await wait_for('go')
    await send({'type': 'http.response.start', 'status': 200})
    await send({'type': 'http.response.body', 'body': b'x' * 250000})
''')
        link = child.connect()
        numbers = [link.start('/') for _ in range(8)]
        child.stop()
        open(self.path(child, 'go'), 'w').close()
        for number in numbers:
            self.assertEqual(len(link.finish(number).content), 250000)
        self.assertRaises(EOFError, link.read_frame)
        link.close()
        self.assertEqual(child.wait(), 0)

    def test_requests_that_arrive_after_the_last_frame(self):
        child = self.child(LIFESPAN)
        link = child.connect()
        child.stop()
        self.assertRaises(EOFError, link.read_frame)
        number = link.start('/')
        link.send(TAKE_BACK, 0, struct.pack('<I', number))
        link.close()
        self.assertEqual(child.wait(), 0)
        self.assertEqual(child.log(), '')

    def test_remaining_tasks_are_cancelled(self):
        child = self.child(HELPERS + '''
async def left():
    try:
        record('begun')
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        record('cancelled')
        raise


async def app(scope, receive, send):
    assert scope['type'] == 'http'
    app.task = asyncio.ensure_future(left())
    await reply(send, b'hello')
''')
        child.connect().get('/')
        self.wait_for_event(child, 'begun')
        self.end(child)
        self.assertEqual(self.events(child), ['begun', 'cancelled'])

    def test_a_full_table_of_descriptors(self):
        child = self.child(HELPERS + '''
import resource


class CountedListener:
    def __init__(self, listener):
        self.listener = listener

    def __getattr__(self, name):
        if name == 'accept':
            events.append(name)
        return getattr(self.listener, name)


async def app(scope, receive, send):
    assert scope['type'] == 'http'
    if scope['path'] == '/full':
        server = send.__self__.connection.server
        server.accept.__globals__['ACCEPT_RETRY_SECONDS'] = 1000
        server.listener = CountedListener(server.listener)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, 1000))
    if scope['path'] == '/free':
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))
        send.__self__.connection.server.start_accepting()
    await reply(send, b'%d' % len(events))
''')
        link = child.connect()
        link.get('/full')
        with child.make_link(child.address) as waiting:
            for _ in range(100):
                link.get('/')
            self.assertEqual(link.get('/').content, b'1')
            self.assertEqual(child.log().count('cannot accept a connection'), 1)
            link.get('/free')
            self.assertEqual(waiting.read_frame().kind, READY)

    def test_standard_input_is_empty(self):
        child = self.child(HELPERS + '''
import sys
text = sys.stdin.read()


async def app(scope, receive, send):
    await reply(send, repr(text).encode())
''')
        self.assertEqual(child.connect().get('/').content, b"''")

    def test_a_forked_process_neither_reads_nor_sends_frames(self):
        child = self.child(HELPERS + '''
import sys


async def app(scope, receive, send):
    assert scope['type'] == 'http'
    forked = os.fork()
    if not forked:
        await reply(send, b'forked')
        if scope['path'] == '/exit':
            sys.exit(7)
        return
    await reply(send, b'%d' % os.WEXITSTATUS(os.waitpid(forked, 0)[1]))
''')
        link = child.connect()
        self.assertEqual(link.get('/').content, b'0')
        self.assertEqual(link.get('/exit').content, b'7')
        self.assertEqual(link.get('/').content, b'0')
        self.end(child)

    def test_a_thread_forks(self):
        child = self.child(HELPERS + '''
import signal


def fork():
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        paths = []
        for name in os.listdir('/proc/self/fd'):
            if os.path.exists('/proc/self/fd/' + name):
                paths.append(os.readlink('/proc/self/fd/' + name))
        os.write(writer, repr(sum(path.startswith('socket:') for path in paths)).encode())
        signal.pause()
    found = eval(os.read(reader, 100))
    os.kill(child, signal.SIGTERM)
    return found, os.waitpid(child, 0)[1]


async def app(scope, receive, send):
    assert scope['type'] == 'http'
    loop = asyncio.get_running_loop()
    await reply(send, repr(await loop.run_in_executor(None, fork)).encode())
''')
        # The sockets are those by which the event loop wakes itself.
        self.assertEqual(eval(child.connect().get('/').content), (2, signal.SIGTERM))
        self.assertEqual(child.log(), '')

    def test_a_fork_of_a_fork_keeps_the_descriptors_of_the_application(self):
        child = self.child(HELPERS + '''
def read_in_fork_of_fork(writer):
    # A daemon closes the descriptors that it has inherited; their numbers are then used again.
    os.dup2(writer, 100)
    os.closerange(3, 100)
    opened = [os.open('/dev/zero', os.O_RDONLY) for _ in range(20)]
    child = os.fork()
    if not child:
        os.write(100, repr([os.read(descriptor, 1) for descriptor in opened]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os._exit(0)


async def app(scope, receive, send):
    assert scope['type'] == 'http'
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        read_in_fork_of_fork(writer)
    os.waitpid(child, 0)
    os.close(writer)
    with open(reader, 'rb') as result:
        await reply(send, result.read())
''')
        self.assertEqual(eval(child.connect().get('/').content), [b'\0'] * 20)

    def test_a_signal_during_a_fork_ends_the_forked_process(self):
        child = self.child(HELPERS + '''
import signal

forks = []
# This hook is registered before that of the server, so a forked process calls it first.
os.register_at_fork(after_in_child=lambda: forks and os.kill(os.getpid(), signal.SIGTERM))


async def app(scope, receive, send):
    assert scope['type'] == 'http'
    forks.append(scope)
    forked = os.fork()
    if not forked:
        os._exit(7)
    await reply(send, b'%d' % os.waitpid(forked, 0)[1])
''')
        link = child.connect()
        self.assertEqual(link.get('/').content, b'%d' % signal.SIGTERM)
        self.end(child)

    def test_the_process_continues_after_failures(self):
        child = self.child('async def app(scope, receive, send): raise ValueError("no luck")\n')
        link = child.connect()
        for _ in range(3):
            self.assertEqual(link.get('/').last.kind, FAILED)


if __name__ == '__main__':
    unittest.main()
