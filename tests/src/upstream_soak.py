# An HTTP server that is killed and stopped while requests arrive. Arguments: PORT LOG_FILE.
#
# GET /page/ID/BYTES responds with the ID, repeated up to that many bytes. POST /do/ID appends the
# ID to the log file before it responds with the length of the request body.

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def read_body(self):
        """Reads the request body and returns its length."""
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return len(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        body_bytes = 0
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body_bytes += len(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body_bytes

    def respond(self):
        body_bytes = self.read_body()
        action, name, size = (self.path[1:].split("/") + ["", "0"])[:3]
        if action == "do":
            with open(sys.argv[2], "a") as log_file:
                log_file.write(name + "\n")
            body = f"{name} {body_bytes}".encode()
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
