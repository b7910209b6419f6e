// An application behind the server under test, in Node. It prints its port.
//
// POST /count responds with the length of the content, in pieces; /stream waits for /next before
// each further event; /hints sends 103 first; /trailers has a trailer; all other paths return a
// description of the request.

import http from "node:http";

const waiting = [];

const server = http.createServer((request, response) => {
  if (request.url === "/stream") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write("data: 0\n\n");
    let count = 0;
    waiting.push(() => {
      count += 1;
      response.write(`data: ${count}\n\n`);
      if (count === 3) response.end();
    });
    return;
  }
  if (request.url === "/next") {
    waiting.forEach((next) => next());
    response.setHeader("Content-Type", "text/plain");
    return response.end("next");
  }
  if (request.url === "/hints") {
    response.writeEarlyHints({ link: "</style.css>; rel=preload; as=style" });
  }
  if (request.url === "/trailers") {
    response.writeHead(200, { "Content-Type": "text/plain", Trailer: "X-Sum" });
    response.write("content");
    response.addTrailers({ "X-Sum": "7" });
    return response.end();
  }
  let bytes = 0;
  request.on("data", (piece) => (bytes += piece.length));
  request.on("end", () => {
    response.setHeader("X-App", "node");
    response.setHeader("Content-Type", "application/json");
    const told = { method: request.method, url: request.url, headers: request.headers, bytes };
    response.end(JSON.stringify({ ...told, trailers: request.trailers }));
  });
});

server.on("upgrade", (request, socket, head) => {
  socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n");
  socket.write(head);
  socket.on("data", (bytes) => socket.write(bytes));
  socket.on("end", () => socket.end("over"));
  socket.on("error", () => {});
});

server.listen(0, "127.0.0.1", () => console.log(server.address().port));
