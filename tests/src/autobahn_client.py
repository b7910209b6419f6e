"""Runs the cases of Autobahn's test suite against a server that sends every message back.

python3 autobahn_client.py SUITE URL CASES

SUITE is the folder of the package autobahntestsuite. CASES names cases by their first numbers:
"1,2,10" selects all cases whose numbers begin with one of these. For each case it prints its
number, its behaviour, its close, and the reasons.

The suite is written for Python 2. It is not changed: its cases are read with a few replacements,
and a str of theirs is a sequence of bytes, as it was in Python 2.
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

PATIENCE_SECONDS = 500
# Cases that run at the same time: most of them wait for something.
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
    """Events in a form in which they can be compared: every text is bytes."""
    if isinstance(value, str):
        return value.encode("latin-1")
    if isinstance(value, (list, tuple)):
        return [as_bytes(item) for item in value]
    return value


class Fuzzer(WebSocketClientProtocol):
    """The connection of a case. It waits for the server much longer than a case requires."""

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
        """There is no log of bytes."""

    def later(self, seconds, action):
        def act():
            if self.state != self.STATE_CLOSED:
                action()

        reactor.callLater(seconds, act)

    def continueLater(self, delay, action, tag=None):
        self.later(delay, action)

    def killAfter(self, _):
        self.later(PATIENCE_SECONDS, self._fail_connection)

    def closeAfter(self, delay):
        # Cases that expect nothing end after this time. The others end once they have the expected
        # data.
        expected = self.case.expected
        expects = any(expected.values()) or not expected
        self.later(PATIENCE_SECONDS if expects else delay, self.sendClose)

    def sendFrame(self, opcode, payload=b"", **options):
        self.txFrameStats[opcode] = self.txFrameStats.get(opcode, 0) + 1
        super().sendFrame(opcode, as_bytes(payload), **options)

    def sendMessage(self, payload, *arguments, **options):
        super().sendMessage(as_bytes(payload), *arguments, **options)

    def sendMessageFrameData(self, payload, **options):
        return super().sendMessageFrameData(as_bytes(payload), **options)

    def sendCloseFrame(self, code=None, reasonUtf8=None, isReply=False):
        super().sendCloseFrame(code, as_bytes(reasonUtf8), isReply)


class Run:
    """Runs one case after another, each over a connection of its own."""

    def __init__(self, cases):
        self.cases, self.running = iter(cases), 0
        for _ in range(CONNECTIONS_MAX):
            self.next()

    def next(self):
        case = next(self.cases, None)
        if case is not None:
            self.running += 1
            self.connect(case)
        elif self.running == 0:
            reactor.stop()

    def connect(self, kind):
        factory = WebSocketClientFactory(URL)
        factory.setProtocolOptions(
            failByDrop=False,
            openHandshakeTimeout=PATIENCE_SECONDS,
            closeHandshakeTimeout=PATIENCE_SECONDS,
            serverConnectionDropTimeout=PATIENCE_SECONDS,
        )

        def build(_):
            protocol = Fuzzer()
            protocol.factory = factory
            protocol.case = case = kind(protocol)
            case.compare = lambda one, other: as_bytes(one) == as_bytes(other)
            protocol.done = lambda: self.report(kind, case)
            return protocol

        factory.buildProtocol = build
        factory.clientConnectionFailed = lambda _, reason: self.fail(reason)
        connectWS(factory)

    def report(self, kind, case):
        print(number(kind), case.behavior, case.behaviorClose, end=" ", sep="|")
        print(case.result, case.resultClose, flush=True)
        self.running -= 1
        self.next()

    def fail(self, reason):
        print("no connection:", reason.getErrorMessage())
        reactor.stop()


def number(kind):
    return kind.__name__[len("Case") :].replace("_", ".")


def main():
    prefixes = tuple(f"{prefix}." for prefix in sys.argv[3].split(","))
    wanted = [case for case in load_cases() if (number(case) + ".").startswith(prefixes)]
    reactor.callWhenRunning(Run, wanted)
    reactor.run()


main()
