"""Checks many resources with REDbot in one process, because starting it takes longer than a check.

python3 lint_resources.py URL...

Prints a JSON object whose keys are the URLs, and whose values are HAR documents of REDbot.
"""

import json
import sys
from configparser import ConfigParser

import thor
from redbot.formatter import find_formatter
from redbot.resource import HttpResource


def check_resource(config, url, on_done):
    """Checks one resource, then calls `on_done` with the text of the HAR document."""
    resource = HttpResource(config)
    resource.set_request(url)
    pieces = []
    options = {"tty_out": False, "descend": False}
    formatter = find_formatter("har", "text", False)(config, resource, pieces.append, options)
    formatter.bind_resource(resource)
    formatter.on("formatter_done", lambda: on_done("".join(pieces)))
    resource.check()


def check_resources(urls):
    """Returns a dict from URLs to HAR documents."""
    parser = ConfigParser()
    parser.read_dict({"redbot": {"enable_local_access": "True"}})
    documents = {}

    def check_next():
        unchecked_urls = [url for url in urls if url not in documents]
        if not unchecked_urls:
            thor.stop()
            return

        def on_done(text):
            documents[unchecked_urls[0]] = json.loads(text)
            check_next()

        check_resource(parser["redbot"], unchecked_urls[0], on_done)

    check_next()
    thor.run()
    return documents


json.dump(check_resources(sys.argv[1:]), sys.stdout)
