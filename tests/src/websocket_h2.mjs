// Uses WebSocket over a stream of HTTP/2 with the application in websocket.mjs (RFC 8441).
//
// node websocket_h2.mjs PORT
//
// It prints the received message.

import http2 from "node:http2";

const session = http2.connect(`https://localhost:${process.argv[2]}`, { rejectUnauthorized: false });

// A message of one frame (RFC 6455 §5.2); the key of the mask is 0.
function frame(opcode, text) {
  const front = [0x80 | opcode, 0x80 | text.length, 0, 0, 0, 0];
  return Buffer.concat([Buffer.from(front), Buffer.from(text)]);
}

session.on("remoteSettings", (settings) => {
  if (!settings.enableConnectProtocol) throw new Error("the server takes no extended CONNECT");
  const stream = session.request({
    ":method": "CONNECT",
    ":protocol": "websocket",
    ":path": "/chat",
    "sec-websocket-version": "13",
  });
  const came = [];
  stream.on("response", (fields) => {
    if (fields[":status"] !== 200) throw new Error(`status ${fields[":status"]}`);
    stream.write(frame(1, "hello"));
  });
  let isClosed = false;
  stream.on("data", (bytes) => {
    came.push(bytes);
    if (!isClosed && Buffer.concat(came).subarray(-5).toString() === "hello") {
      isClosed = true;
      stream.write(frame(8, ""));
    }
  });
  stream.on("end", () => {
    const all = Buffer.concat(came);
    // The message follows the first message, which has the fields of the request.
    console.log(all.subarray(-9).toString("latin1").replace(/[^ -~]/g, "."));
    stream.end();
    session.close();
  });
});
