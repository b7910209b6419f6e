// Node's clients send more than the server reads, and must see the response that came before.
//
// node early_response.mjs HTTP-URL HTTPS-URL CERTIFICATE
//
// Each URL refuses the sent content. Over HTTP/1 any length is dropped; over HTTP/2 up to a
// mebibyte, and then the client is asked to stop, which it treats as a response without an error.

import { readFileSync } from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import https from "node:https";

const LARGE = Buffer.alloc(16 << 20, "x");
const LITTLE = Buffer.alloc(900 << 10, "x");
// Node ends a stream on its own that keeps more than 10 MB (maxSessionMemory).
const MORE = [1_100_000, 4 << 20].map((bytes) => Buffer.alloc(bytes, "x"));

const [plain, encrypted, certificate] = process.argv.slice(2);
const ca = readFileSync(certificate);

// The whole response, after all of the content.
function overHttp1(client, url) {
  return new Promise((resolve, reject) => {
    const headers = { "Content-Length": LARGE.length };
    const request = client.request(url, { method: "POST", ca, headers }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode));
      response.on("error", reject);
    });
    request.on("error", reject);
    request.end(LARGE);
  });
}

function overHttp2(url, content) {
  return new Promise((resolve, reject) => {
    const session = http2.connect(url, { ca });
    session.on("error", reject);
    const { pathname } = new URL(url);
    const stream = session.request({ ":method": "POST", ":path": pathname });
    let status;
    stream.on("response", (headers) => (status = headers[":status"]));
    stream.on("error", reject);
    stream.on("close", () => {
      session.close();
      resolve(status);
    });
    stream.resume();
    stream.end(content);
  });
}

const seen = [await overHttp1(http, plain), await overHttp1(https, encrypted)];
for (const content of [LITTLE, LITTLE, ...MORE]) {
  seen.push(await overHttp2(encrypted, content));
}
if (!seen.every((status) => status === 405 || status === 413)) {
  console.error(seen);
  process.exit(1);
}
process.stdout.write(String(seen.length));
