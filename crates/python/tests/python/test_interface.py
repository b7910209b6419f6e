"""The detection of the interface, WSGI or ASGI, with `--interface auto`."""

import json
import unittest

from asgi_peer import AsgiChild
from peer import END, RESPONSE, Child

ASGI = '''
import functools, sys

async def application(scope, receive, send):
    if scope['type'] == 'http':
        loaded = 'asyncio' in sys.modules
        await send({'type': 'http.response.start', 'status': 200})
        await send({'type': 'http.response.body', 'body': repr(loaded).encode()})

class Site:
    async def __call__(self, scope, receive, send):
        await application(scope, receive, send)

    async def method(self, scope, receive, send):
        await application(scope, receive, send)

    def plain(self, scope, receive, send):
        return application(scope, receive, send)

class Slots:
    __slots__ = ()
    __call__ = Site.__call__

class Asgi2:
    def __init__(self, scope):
        self.scope = scope

    async def __call__(self, receive, send):
        await application(self.scope, receive, send)

def plain(scope, receive, send):
    return application(scope, receive, send)

def mark(function):
    import inspect
    if hasattr(inspect, 'markcoroutinefunction'):
        return inspect.markcoroutinefunction(function)
    import asyncio
    function._is_coroutine = asyncio.coroutines._is_coroutine
    return function

instance = Site()
slots = Slots()
bound = Site().method
marked = mark(plain)
partial = functools.partial(functools.partial(application))
partial_instance = functools.partial(Site())

def factory():
    return Site()
'''

WSGI = '''
import functools, sys

def application(environ, start_response):
    start_response('200 OK', [])
    return [repr('asyncio' in sys.modules).encode()]

class Site:
    def __call__(self, environ, start_response):
        return application(environ, start_response)

class Anything:
    """Seems to have any attribute, like a proxy that creates its object on first use."""

    def __getattr__(self, name):
        return self

    def __call__(self, environ, start_response):
        return application(environ, start_response)

class OfClass:
    def __init__(self, environ, start_response):
        self.result = application(environ, start_response)

    def __iter__(self):
        return iter(self.result)

def generator(environ, start_response):
    yield from application(environ, start_response)

instance = Site()
anything = Anything()
partial = functools.partial(application)

def factory():
    return application
'''


class Interfaces(unittest.TestCase):
    def start_and_get(self, kind, source, name, *options):
        """Starts an application; returns the interface in READY, and the body of a response."""
        with kind(source, 'app:' + name, options=('--interface', 'auto') + options) as child:
            link = child.connect()
            response = link.get('/')
            self.assertIn(response.last.kind, (RESPONSE, END), child.log())
            self.assertEqual(child.log(), '')
            return json.loads(link.ready.content)['interface'], response.content

    def test_an_application_that_returns_a_coroutine_uses_asgi(self):
        for name in ('application', 'instance', 'slots', 'bound', 'marked', 'partial',
                     'partial_instance', 'Asgi2'):
            with self.subTest(name):
                self.assertEqual(self.start_and_get(AsgiChild, ASGI, name), ('asgi', b'True'))

    def test_other_applications_use_wsgi_and_do_not_load_asyncio(self):
        for name in ('application', 'instance', 'anything', 'OfClass', 'generator', 'partial'):
            with self.subTest(name):
                self.assertEqual(self.start_and_get(Child, WSGI, name), ('wsgi', b'False'))

    def test_the_interface_of_the_result_of_a_factory(self):
        result = self.start_and_get(AsgiChild, ASGI, 'factory', '--factory')
        self.assertEqual(result, ('asgi', b'True'))
        result = self.start_and_get(Child, WSGI, 'factory', '--factory')
        self.assertEqual(result, ('wsgi', b'False'))

    def test_the_application_is_loaded_once(self):
        for kind, source in ((AsgiChild, ASGI), (Child, WSGI)):
            source = "print('loaded')\n" + source
            with kind(source, 'app', options=('--interface', 'auto')) as child:
                child.connect().get('/')
                self.assertEqual(child.output(), 'loaded\n')

    def test_an_application_that_cannot_be_loaded_ends_the_process(self):
        for source, line in (('1 / 0', 'ZeroDivisionError'), ('app = 7', 'not callable')):
            with Child(source, options=('--interface', 'auto')) as child:
                self.assertEqual(child.wait(), 1)
                self.assertIn(line, child.log())

    def test_an_unknown_interface_ends_the_process(self):
        with Child(WSGI, options=('--interface', 'cgi')) as child:
            self.assertEqual(child.wait(), 1)
            self.assertEqual(child.log(), 'cannot start: unknown interface cgi\n')


if __name__ == '__main__':
    unittest.main()
