"""Checks that Python's HTTP clients receive a response that is sent before they have sent the body.

python3 early_response.py HTTP-URL HTTPS-URL CERTIFICATE

Each URL rejects the request body. Over HTTP/1 the server discards a body of any length, however
slowly it arrives; over HTTP/2 it accepts up to 1 MiB.

This script does not send more than that over HTTP/2, because httpx reads nothing before it has sent
everything. By then it has received the response, a PING and RST_STREAM with NO_ERROR, but waits for
a flow-control window that the server does not open any more, and ends with a timeout. nghttp2
(curl) and Node receive the response.
"""

import ssl
import sys
import time
import urllib.error
import urllib.request

import httpx
import requests

LARGE, SMALL = b"x" * (16 << 20), b"x" * (900 << 10)
# Longer than the time after which a server without support for slow clients gives up.
PAUSE_SECONDS = 3


def slow_body():
    """Yields a body with a pause, for a client that reads nothing before it has sent everything."""
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
    http_url, https_url, certificate = sys.argv[1:]
    results = []
    for url in (http_url, https_url):
        results.append(("urllib", url, with_urllib(url, certificate, LARGE)))
        for name, content in (("large", LARGE), ("slow", slow_body())):
            response = requests.post(url, data=content, verify=certificate)
            results.append((f"requests, {name}", url, response.status_code))
        context = ssl.create_default_context(cafile=certificate)
        with httpx.Client(verify=context, trust_env=False, timeout=60) as client:
            results.append(("httpx", url, client.post(url, content=LARGE).status_code))
    options = {"verify": context, "trust_env": False, "timeout": 60}
    with httpx.Client(http1=False, http2=True, **options) as client:
        for _ in range(3):
            response = client.post(https_url, content=SMALL)
            results.append((f"httpx, {response.http_version}", https_url, response.status_code))
    unexpected = [entry for entry in results if entry[2] not in (405, 413)]
    if unexpected:
        sys.exit(f"{unexpected}")
    print(len(results), end="")


main()
