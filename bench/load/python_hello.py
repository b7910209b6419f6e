"""Minimal applications for WSGI and ASGI. For some benchmarks, they send a file, the received body
or an event each second.

If this file is run as a program, with a port, it serves the WSGI application with fastpysgi.
"""

import os
import sys

BODY = b'hello world!\n'
HEADERS = [('Content-Type', 'text/plain'), ('Content-Length', str(len(BODY)))]
ASGI_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS]
PIECE_BYTES = 64 << 10
FILE = os.path.join(os.path.dirname(__file__), 'python_file.bin')


def app(environ, start_response):
    if environ['QUERY_STRING'] == 'file':
        start_response('200 OK', [('Content-Type', 'text/plain')])
        return environ['wsgi.file_wrapper'](open(FILE, 'rb'))
    if environ['QUERY_STRING'] == 'echo':
        start_response('200 OK', [('Content-Type', 'application/octet-stream')])
        return iter(lambda: environ['wsgi.input'].read(PIECE_BYTES), b'')
    start_response('200 OK', HEADERS)
    return [BODY]


async def send_events(send):
    # This import is not at the top, so that the WSGI application needs no memory for asyncio.
    import asyncio
    fields = [(b'content-type', b'text/event-stream')]
    await send({'type': 'http.response.start', 'status': 200, 'headers': fields})
    while True:
        await send({'type': 'http.response.body', 'body': b'data: now\n\n', 'more_body': True})
        await asyncio.sleep(1)


async def main(scope, receive, send):
    if scope['type'] != 'http':
        return
    if scope['path'].endswith('/events'):
        await send_events(send)
    await send({'type': 'http.response.start', 'status': 200, 'headers': ASGI_HEADERS})
    await send({'type': 'http.response.body', 'body': BODY})


if __name__ == '__main__':
    import fastpysgi
    fastpysgi.run(app, '127.0.0.1', int(sys.argv[1]))
