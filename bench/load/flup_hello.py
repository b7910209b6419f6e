"""A FastCGI application that uses flup: `python flup_hello.py SOCKET`."""

import sys

from flup.server.fcgi import WSGIServer


def hello(_environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello world!\n"]


WSGIServer(hello, bindAddress=sys.argv[1], umask=0).run()
