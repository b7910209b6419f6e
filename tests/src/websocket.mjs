// An application with WebSockets, in Node, to which the server under test forwards requests. It
// prints its port.
//
// /chat speaks WebSocket (RFC 6455): its first message has the fields of the request, and it sends
// back every other one. All other paths switch to WebSocket and continue with bytes of any kind:
//
// /echo     sends every byte back, and "over" after the end
// /ends     sends "bye" and its end immediately, and continues to read
// /flood    sends endlessly, as fast as the other side reads
// /silent   reads nothing before a request for /go
// /cut      sends "part", and resets the connection when the first byte arrives
//
// /wrong switches with another response to the key, /refused responds with 403, /plain with 200.
// /told reports the received and sent bytes, and the end, of the last of these connections.

import crypto from "node:crypto";
import http from "node:http";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

let told = {};
let silent = null;

const server = http.createServer((request, response) => {
  response.setHeader("Content-Type", "application/json");
  if (request.url === "/go") silent.resume();
  response.end(JSON.stringify(told));
});

server.on("upgrade", (request, socket, head) => {
  // No other code handles errors of the socket.
  socket.on("error", () => {});
  const key = request.headers["sec-websocket-key"];
  const accept = crypto.createHash("sha1").update(key + GUID).digest("base64");
  if (request.url === "/refused" || request.url === "/plain") {
    const line = request.url === "/plain" ? "200 OK" : "403 Forbidden";
    const fields = "Connection: close\r\nContent-Type: a/b\r\nContent-Length: 2";
    return socket.end(`HTTP/1.1 ${line}\r\n${fields}\r\n\r\nno`);
  }
  const lines = [
    "HTTP/1.1 101 Switching Protocols",
    "Upgrade: websocket",
    "Connection: Upgrade",
    `Sec-WebSocket-Accept: ${request.url === "/wrong" ? "x" : accept}`,
    "X-App: node",
  ];
  const protocols = request.headers["sec-websocket-protocol"];
  if (protocols) lines.push(`Sec-WebSocket-Protocol: ${protocols.split(", ").at(-1)}`);
  socket.write(lines.join("\r\n") + "\r\n\r\n");
  const own = (told = { key, came: 0, sent: 0, ended: false, failed: null, closed: false });
  socket.on("end", () => (own.ended = true));
  socket.on("error", (error) => (own.failed = error.code));
  socket.on("close", () => (own.closed = true));
  const read = (use) => {
    const came = (bytes) => {
      own.came += bytes.length;
      use(bytes);
    };
    if (head.length > 0) came(head);
    socket.on("data", came);
  };
  switch (request.url.split("?")[0]) {
    case "/chat":
      return chat(request, socket, read);
    case "/ends":
      socket.end("bye");
      return read(() => {});
    case "/flood":
      read(() => {});
      return flood(socket, own);
    case "/silent":
      silent = socket;
      read(() => {});
      socket.pause();
      return socket.on("end", () => socket.end("over"));
    case "/cut":
      socket.write("part");
      return read(() => socket.resetAndDestroy());
    default:
      read((bytes) => socket.write(bytes) || (socket.pause(), socket.once("drain", () => socket.resume())));
      socket.on("end", () => socket.end("over"));
  }
});

function flood(socket, own) {
  const piece = Buffer.alloc(16 * 1024, "x");
  do own.sent += piece.length;
  while (socket.write(piece));
  socket.once("drain", () => flood(socket, own));
}

// Messages of one frame each (RFC 6455 §5.2).
function chat(request, socket, read) {
  let held = Buffer.alloc(0);
  const send = (opcode, payload) => {
    const long = payload.length > 125;
    const front = long ? Buffer.alloc(4) : Buffer.alloc(2);
    front[0] = 0x80 | opcode;
    front[1] = long ? 126 : payload.length;
    if (long) front.writeUInt16BE(payload.length, 2);
    socket.write(Buffer.concat([front, payload]));
  };
  send(1, Buffer.from(JSON.stringify(request.headers)));
  read((bytes) => {
    held = Buffer.concat([held, bytes]);
    for (;;) {
      if (held.length < 2) return;
      const long = (held[1] & 0x7f) === 126;
      const at = long ? 4 : 2;
      if (held.length < at) return;
      const length = long ? held.readUInt16BE(2) : held[1] & 0x7f;
      if (held.length < at + 4 + length) return;
      const [mask, payload] = [held.subarray(at, at + 4), held.subarray(at + 4, at + 4 + length)];
      const plain = Buffer.from(payload.map((byte, index) => byte ^ mask[index % 4]));
      const opcode = held[0] & 0xf;
      held = held.subarray(at + 4 + length);
      send(opcode, plain);
      if (opcode === 8) return socket.end();
    }
  });
}

server.listen(0, "127.0.0.1", () => console.log(server.address().port));
