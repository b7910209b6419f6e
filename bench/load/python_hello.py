"""The smallest applications, for WSGI and ASGI, and one that sends a file.

Run as a program with a port, it serves the WSGI application with fastpysgi.
"""

import os
import sys

CONTENT = b'hello world!\n'
FIELDS = [('Content-Type', 'text/plain'), ('Content-Length', str(len(CONTENT)))]
ASGI_FIELDS = [(name.lower().encode(), value.encode()) for name, value in FIELDS]
FILE = os.path.join(os.path.dirname(__file__), 'python_file.bin')


def app(environ, start_response):
    if environ['QUERY_STRING'] == 'file':
        start_response('200 OK', [('Content-Type', 'text/plain')])
        return environ['wsgi.file_wrapper'](open(FILE, 'rb'))
    start_response('200 OK', FIELDS)
    return [CONTENT]


async def main(scope, receive, send):
    if scope['type'] != 'http':
        return
    await send({'type': 'http.response.start', 'status': 200, 'headers': ASGI_FIELDS})
    await send({'type': 'http.response.body', 'body': CONTENT})


if __name__ == '__main__':
    import fastpysgi
    fastpysgi.run(app, '127.0.0.1', int(sys.argv[1]))
