"""Batches, send windows, disconnected clients, requests that are taken back, malformed frames."""

import marshal
import os
import struct
import time
import unittest

from peer import (
    END, GIVEN_BACK, GONE, HEAD, REQUESTS, RESPONSE, RESPONSE_CONTENT, ROOM, TAKE_BACK, Child)

# "/wait" waits until the test has created a file, so no test depends on timing.
APPLICATION = '''
import os, threading, time

lock = threading.Lock()
events = []


def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.001)


def hello(environ, start):
    events.append(environ['QUERY_STRING'])
    start('200 OK', [])
    return [b'hello']


def wait(environ, start):
    events.append('wait')
    with lock, open(environ['QUERY_STRING'] + '.started', 'a') as file:
        file.write('.')
    wait_for(environ['QUERY_STRING'])
    start('200 OK', [])
    return [b'waited']


def seen(environ, start):
    start('200 OK', [])
    found, events[:] = list(events), []
    return [repr(found).encode()]


class Stream:
    def __init__(self, size, delay):
        self.size, self.delay = size, delay

    def __iter__(self):
        return self

    def __next__(self):
        if self.delay:
            time.sleep(self.delay)
        return b'x' * self.size

    def close(self):
        events.append('closed')


def endless(environ, start):
    start('200 OK', [])
    return Stream(int(environ['QUERY_STRING']), 0)


def slow(environ, start):
    start('200 OK', [])
    return Stream(1, 0.01)


def large(environ, start):
    start('200 OK', [])
    return [b'x' * int(environ['QUERY_STRING'])]


def write_to_the_gone(environ, start):
    write = start('200 OK', [])
    try:
        while True:
            write(b'x' * 65536)
    except ConnectionError:
        events.append('write failed')
        raise


class ReadMeanwhile:
    """A replacement of `read_lock` that acts as if the backup reader held it.

    It reads a request before the main thread gets the lock.
    """

    def __init__(self, server):
        self.server, self.lock = server, server.read_lock

    def __enter__(self):
        while not self.server.backlog:
            self.server.poll_sockets(-1)
        self.server.read_lock = self.lock
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


def read_meanwhile(environ, start):
    server = start.__self__.connection.server
    server.read_lock = ReadMeanwhile(server)
    time.sleep(0.001)  # After a slow call, the main thread does not read directly.
    start('200 OK', [])
    return [b'']


def app(environ, start_response):
    return globals()[environ['PATH_INFO'][1:]](environ, start_response)
'''


class Flow(unittest.TestCase):
    options = ()

    def setUp(self):
        self.child = Child(APPLICATION, options=self.options)
        self.link = self.child.connect()
        self.file = os.path.join(self.child.home, 'go')

    def tearDown(self):
        self.child.__exit__()

    def go(self):
        open(self.file, 'w').close()

    def wait_for_start(self, count):
        path = self.file + '.started'
        while not os.path.exists(path) or os.path.getsize(path) < count:
            time.sleep(0.001)

    def seen(self):
        return eval(self.link.get('/seen').content)

    def assert_seen(self, event):
        """Asserts that the application has recorded only this event.

        A single thread closes its iterable before it runs the next request. With several threads,
        the event may come later, so this method repeats its request.
        """
        seen = self.seen()
        while self.options and not seen:
            seen = self.seen()
        self.assertEqual(seen, [event])

    def take_back(self, *numbers):
        self.link.send(TAKE_BACK, 0, struct.pack('<%dI' % len(numbers), *numbers))
        frame = self.link.read_frame_of(0)
        self.assertEqual(frame.kind, GIVEN_BACK)
        return list(struct.unpack('<%dI' % (len(frame.content) // 4), frame.content))

    def hellos(self, count):
        return [{'PATH_INFO': '/hello', 'QUERY_STRING': str(number)} for number in range(count)]

    def test_a_request_that_the_backup_reader_has_read_is_run(self):
        self.link.get('/read_meanwhile')
        self.assertEqual(self.link.get('/hello').content, b'hello')

    def test_the_requests_of_a_batch_are_run_in_order(self):
        for _ in range(20):
            numbers = self.link.batch(*self.hellos(32))
            for number in numbers:
                self.assertEqual(self.link.finish(number).content, b'hello')
            if self.options == ():
                self.assertEqual(self.seen(), [str(number) for number in range(32)])

    def test_a_batch_that_arrives_byte_by_byte(self):
        content = marshal.dumps([(7, dict(self.hellos(1)[0], REQUEST_METHOD='GET'), b'')], 2)
        data = struct.pack('<III', REQUESTS, 0, len(content)) + content
        for offset in range(len(data)):
            self.link.socket.sendall(data[offset:offset + 1])
        self.assertEqual(self.link.finish(7).content, b'hello')

    def test_a_batch_of_one_mebibyte(self):
        requests = self.hellos(4)
        for request in requests:
            request['content'] = b'x' * 260000
        for number in self.link.batch(*requests):
            self.assertEqual(self.link.finish(number).content, b'hello')

    def test_a_held_response_is_sent_during_a_slow_call(self):
        # After many quick calls, the process holds small responses back.
        for _ in range(8):
            for number in self.link.batch(*self.hellos(32)):
                self.link.finish(number)
        requests = self.hellos(3)
        requests.append({'PATH_INFO': '/wait', 'QUERY_STRING': self.file})
        numbers = self.link.batch(*requests)
        for number in numbers[:3]:
            self.assertEqual(self.link.finish(number).content, b'hello')
        self.go()
        self.assertEqual(self.link.finish(numbers[3]).content, b'waited')

    def test_requests_are_taken_back_while_the_application_is_busy(self):
        threads = int(self.options[1]) if self.options else 1
        waiting = [{'PATH_INFO': '/wait', 'QUERY_STRING': self.file}] * threads
        numbers = self.link.batch(*(waiting + self.hellos(4)))
        busy, rest = numbers[:threads], numbers[threads:]
        self.wait_for_start(threads)
        self.assertEqual(self.take_back(), [])
        self.assertEqual(self.take_back(*busy), [])
        self.assertEqual(self.take_back(rest[1], rest[2], 12345), [rest[1], rest[2]])
        self.assertEqual(self.take_back(rest[1]), [])
        # This request arrives while the application is busy.
        late = self.link.start('/hello', QUERY_STRING='late')
        self.assertEqual(self.take_back(late), [late])
        self.go()
        for number in busy:
            self.assertEqual(self.link.finish(number).content, b'waited')
        for number in (rest[0], rest[3]):
            self.assertEqual(self.link.finish(number).content, b'hello')
        self.assertEqual(sorted(self.seen()), ['0', '3'] + ['wait'] * threads)

    def test_connections_are_accepted_while_the_application_is_busy(self):
        number = self.link.start('/wait', QUERY_STRING=self.file)
        self.wait_for_start(1)
        other = self.child.connect()
        late = other.start('/hello', QUERY_STRING='late')
        self.go()
        self.assertEqual(other.finish(late).content, b'hello')
        self.assertEqual(self.link.finish(number).content, b'waited')

    def test_a_response_does_not_exceed_the_send_window(self):
        number = self.link.start('/endless', QUERY_STRING='10000')
        self.assertEqual(self.link.read_frame_of(number).kind, HEAD)
        sent = 0
        while sent < 256 * 1024:
            frame = self.link.read_frame_of(number)
            self.assertEqual(frame.kind, RESPONSE_CONTENT)
            sent += len(frame.content)
        self.assertEqual(sent, 256 * 1024)
        # The process reads frames while the application waits for the window to be enlarged.
        self.assertEqual(self.take_back(99), [])
        self.link.send(ROOM, number, struct.pack('<I', 5))
        self.assertEqual(self.link.read_frame_of(number).content, b'x' * 5)
        self.assertEqual(self.take_back(99), [])
        self.assertEqual(list(self.link.other_frames), [])
        self.link.send(GONE, number)
        self.assertEqual(self.link.finish(number).kinds, [END])
        self.assert_seen('closed')

    def test_frames_have_at_most_64_kib_of_a_body(self):
        response = self.link.get('/large', QUERY_STRING=str(3000001))
        self.assertEqual(len(response.content), 3000001)
        self.assertEqual(response.last.kind, END)
        for frame in response.frames:
            if frame.kind == RESPONSE_CONTENT:
                self.assertLessEqual(len(frame.content), 64 * 1024)
        response = self.link.get('/large', QUERY_STRING=str(65536))
        self.assertEqual(response.kinds, [RESPONSE])

    def test_a_client_that_disconnects_during_a_slow_response(self):
        number = self.link.start('/slow')
        self.assertEqual(self.link.read_frame_of(number).kind, HEAD)
        self.assertEqual(self.link.read_frame_of(number).kind, RESPONSE_CONTENT)
        self.link.send(GONE, number)
        response = self.link.finish(number)
        self.assertEqual(response.last.kind, END)
        self.assert_seen('closed')
        self.assertEqual(self.child.log(), '')

    def test_write_fails_once_the_client_has_disconnected(self):
        number = self.link.start('/write_to_the_gone')
        self.assertEqual(self.link.read_frame_of(number).kind, HEAD)
        self.link.send(GONE, number)
        self.assertEqual(self.link.finish(number).last.kind, END)
        self.assert_seen('write failed')
        self.assertEqual(self.child.log(), '')

    def test_a_client_that_disconnects_before_its_request_is_started(self):
        threads = int(self.options[1]) if self.options else 1
        waiting = [{'PATH_INFO': '/wait', 'QUERY_STRING': self.file}] * threads
        numbers = self.link.batch(*(waiting + self.hellos(2)))
        self.wait_for_start(threads)
        self.link.send(GONE, numbers[-2])
        self.assertEqual(self.link.finish(numbers[-2]).kinds, [END])
        self.go()
        self.assertEqual(self.link.finish(numbers[-1]).content, b'hello')
        self.assertNotIn('0', self.seen())

    def test_the_end_of_a_connection_disconnects_its_requests(self):
        other = self.child.connect()
        stream = other.start('/endless', QUERY_STRING='1000')
        other.read_frame_of(stream)
        other.batch(*self.hellos(3))
        other.close()
        seen = []
        while 'closed' not in seen:
            seen += self.seen()
        self.assertEqual(self.link.get('/hello').content, b'hello')

    def test_requests_of_a_connection_that_has_ended_are_not_started(self):
        threads = int(self.options[1]) if self.options else 1
        numbers = self.link.batch(*[{'PATH_INFO': '/wait', 'QUERY_STRING': self.file}] * threads)
        self.wait_for_start(threads)
        other = self.child.connect()
        other.batch(*self.hellos(3))
        other.close()
        # When the process responds for the second time, it has read from all sockets that were
        # ready before, so it knows that the other connection has ended.
        for _ in range(2):
            self.assertEqual(self.take_back(99), [])
        self.go()
        for number in numbers:
            self.assertEqual(self.link.finish(number).content, b'waited')
        self.assertEqual(self.seen(), ['wait'] * threads)

    def test_frames_of_finished_requests_are_ignored(self):
        number = self.link.start('/hello')
        self.link.finish(number)
        for kind in (2, 3, GONE):
            self.link.send(kind, number)
        self.link.send(ROOM, number, struct.pack('<I', 1000))
        self.assertEqual(self.link.get('/hello').content, b'hello')

    def test_malformed_frames_end_only_their_connection(self):
        frames = [
            struct.pack('<III', 99, 0, 0), struct.pack('<III', 0, 0, 0),
            struct.pack('<III', RESPONSE, 0, 0), struct.pack('<III', REQUESTS, 0, 0),
            struct.pack('<III', REQUESTS, 0, 1024 * 1024 + 1),
            struct.pack('<III', REQUESTS, 0, 5) + b'wrong',
            struct.pack('<III', TAKE_BACK, 0, 3) + b'abc',
            struct.pack('<III', ROOM, 1, 0), struct.pack('<III', ROOM, 1, 8) + b'8' * 8,
        ]
        for value in (7, [7], [(1, 2)], [(1, {}, b'', 4)], None):
            content = marshal.dumps(value, 2)
            frames.append(struct.pack('<III', REQUESTS, 0, len(content)) + content)
        for data in frames:
            with self.subTest(data=data[:40]):
                other = self.child.connect()
                other.socket.sendall(data)
                with self.assertRaises((EOFError, ConnectionError)):
                    other.read_frame()
                self.assertEqual(self.link.get('/hello').content, b'hello')


class FlowOfThreads(Flow):
    options = ('--threads', '3')


if __name__ == '__main__':
    unittest.main()
