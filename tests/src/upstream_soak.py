# A server in Python that is killed and stopped while requests arrive: PORT NOTES.
#
# GET /page/ID/BYTES responds with the ID, repeated up to BYTES bytes. POST /do/ID appends the ID to
# the file NOTES before it responds with the length of the received content.

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def content(self):
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return len(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        came = 0
        while size := int(self.rfile.readline().split(b";")[0], 16):
            came += len(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return came

    def respond(self):
        came = self.content()
        what, name, size = (self.path[1:].split("/") + ["", "0"])[:3]
        if what == "do":
            with open(sys.argv[2], "a") as notes:
                notes.write(name + "\n")
            body = f"{name} {came}".encode()
        else:
            text, count = f"{name}-", int(size)
            body = (text * (count // len(text) + 1))[:count].encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("X-Server", "python")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = respond

    def log_message(self, *arguments):
        pass


ThreadingHTTPServer.request_queue_size = 128
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
