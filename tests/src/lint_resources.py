"""Lets REDbot check many resources in one process: its start takes longer than a check.

python3 lint_resources.py URL...

Writes one JSON document: for each URL the HAR document that REDbot writes about it.
"""

import json
import sys
from configparser import ConfigParser

import thor
from redbot.formatter import find_formatter
from redbot.resource import HttpResource


def look_at(config, url, tell):
    """Checks one resource, then calls `tell` with the text of the HAR document."""
    resource = HttpResource(config)
    resource.set_request(url)
    told = []
    options = {"tty_out": False, "descend": False}
    formatter = find_formatter("har", "text", False)(config, resource, told.append, options)
    formatter.bind_resource(resource)
    formatter.on("formatter_done", lambda: tell("".join(told)))
    resource.check()


def look_at_all(urls):
    """Returns the HAR document of each."""
    parser = ConfigParser()
    parser.read_dict({"redbot": {"enable_local_access": "True"}})
    found = {}

    def look_at_next():
        waiting = [url for url in urls if url not in found]
        if not waiting:
            thor.stop()
            return

        def told(text):
            found[waiting[0]] = json.loads(text)
            look_at_next()

        look_at(parser["redbot"], waiting[0], told)

    look_at_next()
    thor.run()
    return found


json.dump(look_at_all(sys.argv[1:]), sys.stdout)
