// Shows how this very page travelled: what the browser measured and what the server said.
// Without this script, or when a browser knows less, the page is complete all the same.

const panel = document.getElementById("arrival");

if (panel) {
  const [trip] = performance.getEntriesByType("navigation");
  fetch(location.pathname, { method: "HEAD", cache: "no-store" })
    .then((answer) => show(panel, facts(trip, answer.headers)))
    .catch(() => {}); // offline, or opened from disk: the panel stays hidden
}

/** Pairs of label and text, only what is really known. */
function facts(trip, fields) {
  const known = [];
  if (trip?.nextHopProtocol) known.push(["Protocol", trip.nextHopProtocol]);
  if (trip?.encodedBodySize) {
    const coding = fields.get("Content-Encoding") ?? "identity";
    known.push(["On the wire", `${bytes(trip.encodedBodySize)} as ${coding}`]);
    known.push(["Unpacked", bytes(trip.decodedBodySize)]);
  }
  for (const name of ["ETag", "Cache-Control"]) {
    if (fields.get(name)) known.push([name, fields.get(name)]);
  }
  return known;
}

function show(panel, known) {
  if (known.length === 0) return;
  const list = panel.querySelector("dl");
  for (const [label, text] of known) {
    const row = document.createElement("div");
    row.append(element("dt", label), element("dd", text));
    list.append(row);
  }
  panel.hidden = false;
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function bytes(count) {
  return `${count.toLocaleString("en")} bytes`;
}
