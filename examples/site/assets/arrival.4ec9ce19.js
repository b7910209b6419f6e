// Shows how this page was transferred: the protocol and sizes that the browser measured, and
// response headers of the server. The page is also complete without this script, or if the browser
// provides fewer measurements.

const panel = document.getElementById("arrival");

if (panel) {
  const [navigation] = performance.getEntriesByType("navigation");
  fetch(location.pathname, { method: "HEAD", cache: "no-store" })
    .then((response) => show(panel, facts(navigation, response.headers)))
    .catch(() => {}); // Offline, or the page is a local file: the panel stays hidden.
}

/** Returns pairs of a label and a text, for each value that is available. */
function facts(navigation, headers) {
  const pairs = [];
  if (navigation?.nextHopProtocol) pairs.push(["Protocol", navigation.nextHopProtocol]);
  if (navigation?.encodedBodySize) {
    const coding = headers.get("Content-Encoding") ?? "identity";
    pairs.push(["On the wire", `${bytes(navigation.encodedBodySize)} as ${coding}`]);
    pairs.push(["Unpacked", bytes(navigation.decodedBodySize)]);
  }
  for (const name of ["ETag", "Cache-Control"]) {
    if (headers.get(name)) pairs.push([name, headers.get(name)]);
  }
  return pairs;
}

/** Adds the pairs to the list in the panel, and makes the panel visible. */
function show(panel, pairs) {
  if (pairs.length === 0) return;
  const list = panel.querySelector("dl");
  for (const [label, text] of pairs) {
    const row = document.createElement("div");
    row.append(element("dt", label), element("dd", text));
    list.append(row);
  }
  panel.hidden = false;
}

function element(name, text) {
  const created = document.createElement(name);
  created.textContent = text;
  return created;
}

function bytes(count) {
  return `${count.toLocaleString("en")} bytes`;
}
