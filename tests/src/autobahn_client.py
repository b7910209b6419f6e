"""Runs test cases of the Autobahn test suite against a server that echoes every message.

python3 autobahn_client.py SUITE URL CASES

SUITE is the folder of the package autobahntestsuite. CASES selects cases by the start of their
numbers: "1,2,10" selects all cases whose numbers begin with one of these. For each case, the script
prints its number, its results for behaviour and close, and the explanations of these results.

The suite is written for Python 2. It stays unmodified on disk: some replacements are made when its
cases are loaded, and every str of a case is a sequence of bytes, as in Python 2.
"""

import re
import sys
import types
from importlib.machinery import FileFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from autobahn.twisted.websocket import (
    WebSocketClientFactory,
    WebSocketClientProtocol,
    connectWS,
)
from twisted.internet import reactor

TIMEOUT_SECONDS = 500
# The number of cases that run at the same time. Most of them wait for a timeout.
CONNECTIONS_MAX = 4
SUITE, URL = Path(sys.argv[1]), sys.argv[2]
CASES = str(SUITE / "case")
REPLACEMENTS = [
    (r"(?m)^( *)print\b.*", r"\1pass"),
    (r"\bxrange\(", "range("),
    (r"\(object, Case", "(Case"),
    (r"binascii\.b2a_hex\(", "repr("),
    (r"v\.validate\((.*)\)", r"v.validate(\1.encode('latin-1'))"),
    (r"\.payload\) / ", ".payload) // "),
    (r"\brequestNoContextTakeover\b", "request_no_context_takeover"),
    (r"\brequestMaxWindowBits\b", "request_max_window_bits"),
    (r"from zope.interface import implements", "implements = id"),
]


class Python2Loader(SourceFileLoader):
    def get_code(self, name):
        text = Path(self.path).read_bytes().decode("latin-1")
        for pattern, replacement in REPLACEMENTS:
            text = re.sub(pattern, replacement, text)
        return compile(text.encode(), self.path, "exec")


def load_cases():
    def finder(path):
        if path != CASES:
            raise ImportError(path)
        return FileFinder(path, (Python2Loader, [".py"]))

    sys.path_hooks.insert(0, finder)
    sys.path.insert(0, CASES)
    resources = types.ModuleType("pkg_resources")
    resources.resource_filename = lambda _, name: str(SUITE / name)
    sys.modules["pkg_resources"] = resources
    loader = Python2Loader("all_cases", CASES + "/__init__.py")
    module = module_from_spec(spec_from_loader("all_cases", loader))
    loader.exec_module(module)
    return module.Cases


def as_bytes(value):
    """Returns an event with every str converted to bytes, so that events can be compared."""
    if isinstance(value, str):
        return value.encode("latin-1")
    if isinstance(value, (list, tuple)):
        return [as_bytes(item) for item in value]
    return value


class Fuzzer(WebSocketClientProtocol):
    """The connection of a test case. It waits longer for the server than the case requires."""

    connectionWasOpen = False

    def connectionMade(self):
        self.txFrameStats = {}
        super().connectionMade()

    def connectionLost(self, reason):
        super().connectionLost(reason)
        self.case.onConnectionLost(self.failedByMe)
        self.done()

    def onOpen(self):
        self.connectionWasOpen = True
        self.case.onOpen()

    def onMessage(self, payload, isBinary):
        self.case.onMessage(payload, isBinary)

    def onPong(self, payload):
        self.case.onPong(payload)

    def onClose(self, *arguments):
        self.case.onClose(*arguments)

    def enableWirelog(self, _):
        """Does nothing, because there is no log of the transferred bytes."""

    def schedule_if_open(self, seconds, action):
        def run_if_open():
            if self.state != self.STATE_CLOSED:
                action()

        reactor.callLater(seconds, run_if_open)

    def continueLater(self, delay, action, tag=None):
        self.schedule_if_open(delay, action)

    def killAfter(self, _):
        self.schedule_if_open(TIMEOUT_SECONDS, self._fail_connection)

    def closeAfter(self, delay):
        # A case that expects no events ends after this delay. The others end as soon as they have
        # received the expected events.
        expected = self.case.expected
        expects_events = any(expected.values()) or not expected
        self.schedule_if_open(TIMEOUT_SECONDS if expects_events else delay, self.sendClose)

    def sendFrame(self, opcode, payload=b"", **options):
        self.txFrameStats[opcode] = self.txFrameStats.get(opcode, 0) + 1
        super().sendFrame(opcode, as_bytes(payload), **options)

    def sendMessage(self, payload, *arguments, **options):
        super().sendMessage(as_bytes(payload), *arguments, **options)

    def sendMessageFrameData(self, payload, **options):
        return super().sendMessageFrameData(as_bytes(payload), **options)

    def sendCloseFrame(self, code=None, reasonUtf8=None, isReply=False):
        super().sendCloseFrame(code, as_bytes(reasonUtf8), isReply)


class CaseRunner:
    """Runs the test cases, each on its own connection."""

    def __init__(self, cases):
        self.cases, self.running_count = iter(cases), 0
        for _ in range(CONNECTIONS_MAX):
            self.start_next_case()

    def start_next_case(self):
        case = next(self.cases, None)
        if case is not None:
            self.running_count += 1
            self.connect(case)
        elif self.running_count == 0:
            reactor.stop()

    def connect(self, case_class):
        factory = WebSocketClientFactory(URL)
        factory.setProtocolOptions(
            failByDrop=False,
            openHandshakeTimeout=TIMEOUT_SECONDS,
            closeHandshakeTimeout=TIMEOUT_SECONDS,
            serverConnectionDropTimeout=TIMEOUT_SECONDS,
        )

        def build_protocol(_):
            protocol = Fuzzer()
            protocol.factory = factory
            protocol.case = case = case_class(protocol)
            case.compare = lambda one, other: as_bytes(one) == as_bytes(other)
            protocol.done = lambda: self.report(case_class, case)
            return protocol

        factory.buildProtocol = build_protocol
        factory.clientConnectionFailed = lambda _, reason: self.fail(reason)
        connectWS(factory)

    def report(self, case_class, case):
        print(case_number(case_class), case.behavior, case.behaviorClose, end=" ", sep="|")
        print(case.result, case.resultClose, flush=True)
        self.running_count -= 1
        self.start_next_case()

    def fail(self, reason):
        print("no connection:", reason.getErrorMessage())
        reactor.stop()


def case_number(case_class):
    return case_class.__name__[len("Case") :].replace("_", ".")


def main():
    prefixes = tuple(f"{prefix}." for prefix in sys.argv[3].split(","))
    selected_cases = [
        case for case in load_cases() if (case_number(case) + ".").startswith(prefixes)
    ]
    reactor.callWhenRunning(CaseRunner, selected_cases)
    reactor.run()


main()
