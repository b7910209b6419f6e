// A server in Node that is killed and stopped while requests arrive: PORT NOTES.
//
// GET /page/ID/BYTES responds with the ID, repeated up to BYTES bytes. POST /do/ID appends the ID
// to the file NOTES before it responds with the length of the received content.

import fs from "node:fs";
import http from "node:http";

const [port, notes] = process.argv.slice(2);

const server = http.createServer((request, response) => {
  const [, what, id, bytes] = request.url.split("/");
  let came = 0;
  request.on("data", (piece) => (came += piece.length));
  request.on("end", () => {
    response.setHeader("Content-Type", "text/plain");
    response.setHeader("X-Server", "node");
    if (what === "do") {
      fs.appendFileSync(notes, `${id}\n`);
      return response.end(`${id} ${came}`);
    }
    const text = `${id}-`;
    const count = Number(bytes ?? 0);
    response.end(text.repeat(Math.ceil(count / text.length)).slice(0, count));
  });
});

server.listen(Number(port), "127.0.0.1");
