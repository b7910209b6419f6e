"""ASGI over HTTP: the scope, receive, send, their checks, and the end of a response."""

import ast
import sys
import unittest

from asgi_peer import AsgiChild, scope
from peer import ABORT, END, FAILED, HEAD, HINTS, RESPONSE, RESPONSE_CONTENT

APPLICATION = '''
import asyncio, os, threading

HERE = os.path.dirname(os.path.abspath(__file__))


async def reply(send, body, status=200, headers=()):
    await send({'type': 'http.response.start', 'status': status, 'headers': list(headers)})
    await send({'type': 'http.response.body', 'body': body})


async def read(receive):
    body = b''
    while True:
        message = await receive()
        assert message['type'] == 'http.request', message
        body += message['body']
        if not message['more_body']:
            return body


async def show_scope(scope, receive, send):
    await reply(send, repr(scope).encode())


async def echo(scope, receive, send):
    await reply(send, await read(receive))


async def messages(scope, receive, send):
    """Sends the messages in the query string."""
    for message in eval(scope['query_string']):
        await send(message)


async def catch(scope, receive, send):
    """Sends messages; the response names the exception that sending the last one raises."""
    *messages, last = eval(scope['query_string'])
    for message in messages:
        await send(message)
    try:
        await send(last)
    except Exception as error:
        await reply(send, ('%s: %s' % (type(error).__name__, error)).encode())


async def after_the_end(scope, receive, send):
    await read(receive)
    await reply(send, b'whole')
    with open(os.path.join(HERE, 'after'), 'w') as file:
        file.write(repr(await receive()))
    try:
        await send({'type': 'http.response.body'})
    except RuntimeError as error:
        with open(os.path.join(HERE, 'error'), 'w') as file:
            file.write(str(error))


async def seen(scope, receive, send):
    with open(os.path.join(HERE, scope['query_string'].decode())) as file:
        await reply(send, file.read().encode())


async def raises(scope, receive, send):
    raise ValueError('no luck')


async def raises_in_content(scope, receive, send):
    await send({'type': 'http.response.start', 'status': 200})
    await send({'type': 'http.response.body', 'body': b'part', 'more_body': True})
    raise ValueError('no luck')


async def exits(scope, receive, send):
    raise SystemExit(3)


async def cancels(scope, receive, send):
    asyncio.current_task().cancel()
    await asyncio.sleep(0)


async def returns(scope, receive, send):
    return None


async def returns_early(scope, receive, send):
    await send({'type': 'http.response.start', 'status': 200})


async def task(scope, receive, send):
    task = asyncio.current_task()
    assert task is not None and not task.done()
    await asyncio.sleep(0)
    assert asyncio.current_task() is task
    assert asyncio.get_running_loop() is asyncio.get_event_loop()
    await reply(send, b'same')


async def thread(scope, receive, send):
    loop = asyncio.get_running_loop()
    await reply(send, await loop.run_in_executor(None, lambda: b'from a thread'))


async def tasks(scope, receive, send):
    """Runs receive() and send() in separate tasks, as ASGI allows."""
    message = await asyncio.ensure_future(receive())
    await asyncio.gather(asyncio.ensure_future(
        send({'type': 'http.response.start', 'status': 200})))
    await asyncio.wait_for(send({'type': 'http.response.body', 'body': message['body']}), 60)


async def file(scope, receive, send):
    """Sends a file whose size is given by the query string."""
    size = int(scope['query_string'])
    path = os.path.join(HERE, 'file-%d' % size)
    with open(path, 'wb') as out:
        out.write(b'x' * size)
    await send({'type': 'http.response.start', 'status': 200})
    await send({'type': 'http.response.pathsend', 'path': path})


async def file_with_length(scope, receive, send):
    path = os.path.join(HERE, 'short')
    with open(path, 'wb') as out:
        out.write(b'x' * 100000)
    length = [(b'content-length', scope['query_string'])]
    await send({'type': 'http.response.start', 'status': 200, 'headers': length})
    await send({'type': 'http.response.pathsend', 'path': path})


async def slow_file(scope, receive, send):
    """Sends a file whose file system does not respond before a request of /file_system."""
    responds = threading.Event()
    open_file = os.open

    def open_slowly(*arguments, **more):
        os.open = open_file
        waiting.append(responds)
        responds.wait()
        return open_file(*arguments, **more)

    os.open = open_slowly
    await send({'type': 'http.response.start', 'status': 200})
    await send({'type': 'http.response.pathsend', 'path': os.path.abspath(__file__)})


waiting = []


async def file_system(scope, receive, send):
    while not waiting:
        await asyncio.sleep(0.001)
    waiting[0].set()
    await send({'type': 'http.response.start', 'status': 200})
    await send({'type': 'http.response.body'})


async def fifo(scope, receive, send):
    path = os.path.join(HERE, 'fifo')
    os.mkfifo(path)
    await send({'type': 'http.response.start', 'status': 200})
    await send({'type': 'http.response.pathsend', 'path': path})


async def app(scope, receive, send):
    assert scope['type'] == 'http'
    await globals()[scope['path'][1:]](scope, receive, send)
'''

TEXT = (b'content-type', b'text/plain')


def start(status=200, *headers):
    return {'type': 'http.response.start', 'status': status, 'headers': list(headers)}


def body(content=b'', more=False):
    return {'type': 'http.response.body', 'body': content, 'more_body': more}


class Asgi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.child = AsgiChild(APPLICATION)
        cls.link = cls.child.connect()

    @classmethod
    def tearDownClass(cls):
        cls.child.__exit__()

    def send(self, *messages, **more):
        return self.link.get('/messages', query=repr(messages).encode(), **more)

    def caught(self, *messages):
        response = self.link.get('/catch', query=repr(messages).encode())
        self.assertEqual(response.status, '200', response.content)
        return response.content.decode()

    def assert_failed(self, response, kind=FAILED, text=''):
        self.assertEqual(response.last.kind, kind, response.frames)
        self.assertIn(text, response.last.content.decode())
        self.assertEqual(self.link.get('/echo', content=b'lives').content, b'lives')

    def test_ready_names_the_interface(self):
        ready = ast.literal_eval(self.link.ready.content.decode())
        self.assertEqual(ready['interface'], 'asgi')
        self.assertEqual(ready['threads'], 1)
        self.assertEqual(ready['python'], '%d.%d.%d' % sys.version_info[:3])

    def test_the_scope_has_the_values_of_the_server_and_asgi_extensions(self):
        response = self.link.get('/show_scope', query=b'a=%20b')
        expected = scope(path='/show_scope', raw_path=b'/show_scope', query_string=b'a=%20b')
        found = ast.literal_eval(response.content.decode())
        asgi = found.pop('asgi')
        self.assertEqual(asgi['version'], '3.0')
        self.assertGreaterEqual(tuple(map(int, asgi['spec_version'].split('.'))), (2, 4))
        self.assertEqual(found.pop('state'), {})
        self.assertEqual(sorted(found.pop('extensions')), [
            'http.response.early_hint', 'http.response.informational', 'http.response.pathsend'])
        self.assertEqual(found, expected)

    def test_a_response_in_two_messages_is_one_frame(self):
        response = self.send(start(200, TEXT), body(b'hello'))
        self.assertEqual(response.kinds, [RESPONSE])
        self.assertEqual(response.status, '200')
        self.assertEqual(response.fields, [('content-type', 'text/plain'), ('content-length', '5')])
        self.assertEqual(response.content, b'hello')

    def test_headers_and_body_are_optional(self):
        response = self.send({'type': 'http.response.start', 'status': 404},
                             {'type': 'http.response.body'})
        self.assertEqual(response.status, '404')
        self.assertEqual(response.fields, [('content-length', '0')])

    def test_headers_may_be_lists_and_have_equal_names(self):
        response = self.send(start(200, [b'set-cookie', b'a=1'], [b'set-cookie', b'b=2'],
                                   [b'content-length', b'2']), body(b'ok'))
        self.assertEqual(response.fields, [
            ('set-cookie', 'a=1'), ('set-cookie', 'b=2'), ('content-length', '2')])

    def test_bytes_in_other_types_are_accepted(self):
        response = self.send(start(200, (bytearray(b'x-a'), bytearray(b'1'))),
                             body(bytearray(b'hello')))
        self.assertEqual(response.fields, [('x-a', '1'), ('content-length', '5')])
        self.assertEqual(response.content, b'hello')

    def test_a_body_above_64_kib_is_sent_in_several_frames(self):
        response = self.send(start(), body(b'x' * 65536))
        self.assertEqual(response.kinds, [RESPONSE])
        response = self.link.get('/file', query=b'65536')
        self.assertEqual(response.kinds, [RESPONSE])
        response = self.link.get('/echo', content=b'y' * 200001)
        self.assertEqual(response.kinds, [HEAD] + [RESPONSE_CONTENT] * 4 + [END])
        self.assertEqual(response.field('content-length'), '200001')
        self.assertEqual(response.content, b'y' * 200001)

    def test_each_body_message_is_a_frame(self):
        response = self.send(start(), body(b'one', True), body(b'', True), body(b'two'))
        self.assertEqual(response.kinds, [HEAD, RESPONSE_CONTENT, RESPONSE_CONTENT, END])
        self.assertIsNone(response.field('content-length'))
        self.assertEqual(response.content, b'onetwo')

    def test_the_head_is_not_sent_before_the_first_body_message(self):
        self.assert_failed(self.send(start()), FAILED, 'before its response was complete')
        self.assert_failed(self.link.get('/returns_early'), FAILED)

    def test_a_content_length_of_the_application_is_kept_and_enforced(self):
        length = (b'Content-Length', b'5')
        response = self.send(start(200, length), body(b'hello'))
        self.assertEqual(response.fields, [('content-length', '5')])
        response = self.send(start(200, length), body(b'hello', True), body(b'', True), body())
        self.assertEqual((response.kinds, response.content), ([RESPONSE], b'hello'))
        response = self.send(start(200, length), body(b'', True), body(b'hello', True), body())
        self.assertEqual(response.kinds, [HEAD, RESPONSE_CONTENT, END])
        self.assertEqual(response.content, b'hello')
        response = self.send(start(200, length), body(b'hello', True), body(b'!'))
        self.assertEqual((response.kinds, response.content), ([RESPONSE], b'hello'))
        response = self.send(start(200, length), body(b'he', True), body(b'llo', True), body())
        self.assertEqual(response.field('content-length'), '5')
        self.assertEqual(response.kinds[-1], END)
        for content in (b'hell', b'hello!', b''):
            response = self.send(start(200, length), body(content))
            self.assert_failed(response, FAILED, 'Content-Length')
        self.assert_failed(self.send(start(200, length), body(b'he', True), body(b'll')), ABORT)
        self.assert_failed(self.send(start(200, length), body(b'he', True), body(b'llo!')), ABORT)
        self.assert_failed(
            self.send(start(200, length), body(b'he', True), body(b'llo!', True)), ABORT)

    def test_an_empty_last_message_after_the_complete_body_is_no_failure(self):
        def failures():
            # After this response, an exception in the previous request was logged.
            self.link.get('/echo')
            return self.child.log().count('the application has failed')

        before = failures()
        length = (b'content-length', b'5')
        self.send(start(200, length), body(b'hello', True), body())
        self.send(start(200, length), body(b'hello', True), body(b'', True), body())
        self.assertEqual(failures(), before)
        self.send(start(200, length), body(b'hello', True), body(b'!'))
        self.assertEqual(failures(), before + 1)

    def test_invalid_content_lengths(self):
        for value in (b'-1', b'5,5', b'', b'x', b' 5', b'+5'):
            self.assertIn('invalid Content-Length',
                          self.caught(start(200, (b'content-length', value))))
        self.assertIn('twice', self.caught(
            start(200, (b'content-length', b'5'), (b'Content-Length', b'5'))))

    def test_a_response_to_head_has_no_body(self):
        response = self.send(start(200, (b'content-length', b'9')), body(), method='HEAD')
        self.assertEqual(response.kinds, [RESPONSE])
        self.assertEqual(response.fields, [('content-length', '9')])
        self.assertEqual(response.content, b'')
        response = self.send(start(), body(b'hello'), method='HEAD')
        self.assertEqual((response.field('content-length'), response.content), ('5', b''))
        response = self.send(start(), body(), method='HEAD')
        self.assertEqual(response.fields, [])
        response = self.send(start(), body(b'a', True), body(b'b', True), body(), method='HEAD')
        self.assertEqual(response.kinds, [RESPONSE])
        self.assertEqual((response.fields, response.content), ([], b''))
        response = self.link.get('/file', query=b'300000', method='HEAD')
        self.assertEqual((response.field('content-length'), response.content), ('300000', b''))

    def test_statuses_without_a_body(self):
        response = self.send(start(204, TEXT, (b'content-length', b'0')), body())
        self.assertEqual(response.fields, [('content-type', 'text/plain')])
        for status in (204, 304):
            response = self.send(start(status), body(b'ignored'))
            self.assertEqual((response.kinds, response.fields), ([RESPONSE], []))
            self.assertEqual(response.content, b'')
        response = self.send(start(304, (b'content-length', b'7')), body())
        self.assertEqual(response.fields, [('content-length', '7')])

    def test_hop_by_hop_fields_are_dropped(self):
        names = (b'Connection', b'keep-alive', b'Transfer-Encoding', b'upgrade', b'TE', b'trailer',
                 b'Proxy-Connection')
        headers = [(name, b'x') for name in names]
        response = self.send(start(200, TEXT, *headers), body(b'hello'))
        self.assertEqual(response.fields, [('content-type', 'text/plain'), ('content-length', '5')])
        self.send(start(200, TEXT, *headers), body(b'hello'))
        log = self.child.log()
        self.assertEqual(log.count('dropping the response header transfer-encoding: only'), 1, log)

    def test_messages_of_wrong_types(self):
        self.assertIn("'http.response.start'", self.caught(body(b'first')))
        self.assertIn('KeyError', self.caught({'type': 'http.response.start'}))
        self.assertIn('KeyError', self.caught({}))
        self.assertIn('RuntimeError', self.caught({'type': 'http.response.tart'}))
        self.assertIn('RuntimeError', self.caught({'type': 'websocket.accept'}))
        self.assertIn('TypeError', self.caught(start('200')))
        self.assertIn('TypeError', self.caught(start(True)))
        for status in (99, 101, 199, 600, 0, -200):
            self.assertIn('invalid response status', self.caught(start(status)))

    def test_headers_of_wrong_types(self):
        for header in (('x-a', b'1'), (b'x-a', '1'), (b'x-a', None), (1, b'1'), (b'x-a', 1),
                       ['x-a', b'1'], [b'x-a', bytearray(b'1'), 2], (b'x',), b'x-a', None):
            self.assertRegex(self.caught(start(200, header)), '^(Type|Value)Error', header)
        for name in (b'', b'x a', b'x:', b'x\n', b'x\r', b'x\0', b'\xe4', b'x\n: y'):
            self.assertIn('invalid header name', self.caught(start(200, (name, b'1'))))
        for value in (b'a\nb', b'a\rb', b'a\0b', b'\n', b'a\r\nx-b: 1', bytearray(b'\n')):
            self.assertIn('line break', self.caught(start(200, (b'x-a', value))))

    def test_bodies_of_wrong_types(self):
        for content in ('text', None, 5, [b'x']):
            self.assert_failed(self.send(start(), body(content)), FAILED, 'TypeError')
            self.assert_failed(self.send(start(), body(b'x', True), body(content)), ABORT)

    def test_a_second_start_raises(self):
        self.assert_failed(self.send(start(), start()), FAILED, 'http.response.start')
        self.assert_failed(self.send(start(), body(b'x', True), start()), ABORT)

    def test_messages_after_the_end_raise(self):
        response = self.link.get('/after_the_end')
        self.assertEqual(response.content, b'whole')
        self.assertEqual(self.link.get('/seen', query=b'after').content,
                         b"{'type': 'http.disconnect'}")
        self.assertIn(b'after the response was complete',
                      self.link.get('/seen', query=b'error').content)
        response = self.send(start(), body(b'x'), body(b'y'))
        self.assertEqual((response.kinds, response.content), ([RESPONSE], b'x'))
        self.assertEqual(self.link.get('/echo', content=b'lives').content, b'lives')

    def test_exceptions(self):
        self.assert_failed(self.link.get('/raises'), FAILED, 'ValueError: no luck')
        self.assert_failed(self.link.get('/exits'), FAILED, 'SystemExit: 3')
        self.assert_failed(self.link.get('/cancels'), FAILED, 'CancelledError')
        self.assert_failed(self.link.get('/returns'), FAILED, 'without a response')
        self.assert_failed(self.link.get('/raises_in_content'), ABORT, 'ValueError: no luck')
        log = self.child.log()
        self.assertIn('GET /raises: the application has failed', log)
        self.assertIn('ValueError: no luck', log)
        self.assertNotIn('<pinion/asgi_server.py>', log)

    def test_early_hints(self):
        hint = {'type': 'http.response.early_hint', 'links': [b'</a.css>; rel=preload', b'</b>']}
        response = self.send(hint, start(), body(b'x'))
        self.assertEqual(response.kinds, [HINTS, RESPONSE])
        self.assertEqual(response.frames[0].content,
                         b'link: </a.css>; rel=preload\nlink: </b>\n')
        informational = {'type': 'http.response.informational', 'status': 103,
                         'headers': [(b'link', b'</c>')]}
        response = self.send(informational, dict(informational, status=102), start(), body(b'x'))
        self.assertEqual(response.kinds, [HINTS, RESPONSE])
        self.assertIn('invalid status', self.caught(dict(informational, status=101)))
        self.assertIn('line break', self.caught(dict(hint, links=[b'a\nb'])))

    def test_pathsend(self):
        for size in (0, 1, 65536, 65537, 131072, 400000):
            response = self.link.get('/file', query=b'%d' % size)
            self.assertEqual(response.field('content-length'), '%d' % size)
            self.assertEqual(response.content, b'x' * size)
            self.assertIn(response.last.kind, (RESPONSE, END))
        response = self.link.get('/file_with_length', query=b'100000')
        self.assertEqual(len(response.content), 100000)
        self.assert_failed(self.link.get('/file_with_length', query=b'100001'), ABORT)
        self.assert_failed(self.link.get('/file_with_length', query=b'99999'), ABORT)
        path = {'type': 'http.response.pathsend', 'path': 'relative'}
        self.assert_failed(self.send(start(), path), FAILED, 'absolute')
        self.assert_failed(self.send(start(), dict(path, path='/no/such')), FAILED, 'NotFound')
        self.assert_failed(self.send(start(), dict(path, path=b'/etc')), FAILED, 'TypeError')

    def test_pathsend_does_not_block_other_requests(self):
        number = self.link.start('/slow_file')
        self.link.get('/file_system')
        self.assertIn(b'slow_file', self.link.finish(number).content)

    def test_pathsend_of_a_file_that_is_not_regular(self):
        self.assert_failed(self.link.get('/fifo'), FAILED, 'not a regular file')

    def test_tasks_and_threads(self):
        for path in ('/task', '/thread', '/tasks'):
            self.assertEqual(self.link.get(path, content=b'same').status, '200')

    def test_a_request_body_is_received(self):
        for size in (0, 1, 70000):
            content = b'z' * size
            self.assertEqual(self.link.get('/echo', 'POST', content).content, content)
            self.assertEqual(self.link.get('/echo', 'POST', streamed=content).content, content)

    def test_a_batch_of_requests(self):
        requests = [dict(path='/echo', content=b'%d' % number) for number in range(32)]
        for position, number in enumerate(self.link.batch(*requests)):
            self.assertEqual(self.link.finish(number).content, b'%d' % position)


if __name__ == '__main__':
    unittest.main()
