"""curl over HTTP/3, and over nothing else: a file, a request that is forwarded, and an upload.

Usage: curl_h3.py PORT
"""

import hashlib
import sys

from curl_cffi import requests

UPLOAD = hashlib.shake_256(b"upload").digest(1 << 20)


def ask(method, path, **options):
    url = f"https://127.0.0.1:{sys.argv[1]}{path}"
    response = requests.request(
        method, url, http_version="v3only", verify=False, timeout=60, **options
    )
    # CURL_HTTP_VERSION_3.
    assert response.http_version == 30, response.http_version
    return response


file = ask("GET", "/")
assert (file.status_code, file.text) == (200, "home"), (file.status_code, file.text)
forwarded = ask("GET", "/api/users?a=b", headers={"X-Asked": "yes"}).json()
assert forwarded["url"] == "/api/users?a=b", forwarded
assert forwarded["headers"]["x-asked"] == "yes", forwarded
assert forwarded["headers"]["x-forwarded-proto"] == "https", forwarded
uploaded = ask("PUT", "/up", data=UPLOAD).json()
assert uploaded["bytes"] == len(UPLOAD), uploaded
