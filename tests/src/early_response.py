"""Python's clients send more than the server reads, and have to see the response that came before.

python3 early_response.py HTTP-URL HTTPS-URL CERTIFICATE

Each URL refuses the sent content. Over HTTP/1 any length is dropped, however slowly it arrives;
over HTTP/2 up to a mebibyte.

More than that is not sent over HTTP/2: httpx reads nothing before it has sent everything. It has
the response, a PING and RST_STREAM with NO_ERROR by then, waits for a window that the server does
not open any more, and ends with a timeout. nghttp2 (curl) and Node see the response.
"""

import ssl
import sys
import time
import urllib.error
import urllib.request

import httpx
import requests

LARGE, LITTLE = b"x" * (16 << 20), b"x" * (900 << 10)
# Longer than a server waits that knows nothing of slow clients.
PAUSE_SECONDS = 3


def slow():
    """Yields content with a pause, for a client that reads nothing before its last byte is sent."""
    yield LARGE[: 1 << 20]
    time.sleep(PAUSE_SECONDS)
    yield LARGE[: 4 << 20]


def with_urllib(url, certificate, content):
    context = ssl.create_default_context(cafile=certificate) if url.startswith("https") else None
    try:
        urllib.request.urlopen(url, data=content, context=context)
    except urllib.error.HTTPError as error:
        return error.code


def main():
    plain, encrypted, certificate = sys.argv[1:]
    seen = []
    for url in (plain, encrypted):
        seen.append(("urllib", url, with_urllib(url, certificate, LARGE)))
        for name, content in (("large", LARGE), ("slow", slow())):
            response = requests.post(url, data=content, verify=certificate)
            seen.append((f"requests, {name}", url, response.status_code))
        context = ssl.create_default_context(cafile=certificate)
        with httpx.Client(verify=context, trust_env=False, timeout=60) as client:
            seen.append(("httpx", url, client.post(url, content=LARGE).status_code))
    options = {"verify": context, "trust_env": False, "timeout": 60}
    with httpx.Client(http1=False, http2=True, **options) as client:
        for _ in range(3):
            response = client.post(encrypted, content=LITTLE)
            seen.append((f"httpx, {response.http_version}", encrypted, response.status_code))
    wrong = [entry for entry in seen if entry[2] not in (405, 413)]
    if wrong:
        sys.exit(f"{wrong}")
    print(len(seen), end="")


main()
