"""Uses curl with HTTP/3 only: it requests a file and a forwarded URL, and uploads a file.

Usage: curl_h3.py PORT
"""

import hashlib
import sys

from curl_cffi import requests

UPLOAD = hashlib.shake_256(b"upload").digest(1 << 20)


def send_request(method, path, **options):
    url = f"https://127.0.0.1:{sys.argv[1]}{path}"
    response = requests.request(
        method, url, http_version="v3only", verify=False, timeout=60, **options
    )
    # 30 is CURL_HTTP_VERSION_3.
    assert response.http_version == 30, response.http_version
    return response


file = send_request("GET", "/")
assert (file.status_code, file.text) == (200, "home"), (file.status_code, file.text)
forwarded = send_request("GET", "/api/users?a=b", headers={"X-Asked": "yes"}).json()
assert forwarded["url"] == "/api/users?a=b", forwarded
assert forwarded["headers"]["x-asked"] == "yes", forwarded
assert forwarded["headers"]["x-forwarded-proto"] == "https", forwarded
uploaded = send_request("PUT", "/up", data=UPLOAD).json()
assert uploaded["bytes"] == len(UPLOAD), uploaded
