"""Runs a program that is not allowed to execute code that it has generated.

python3 deny_execute.py prctl|seccomp PROGRAM ARGUMENT...

systemd implements `MemoryDenyWriteExecute=yes` in these two ways: with PR_SET_MDWE since Linux 6.3,
and with a seccomp filter on older kernels.
"""

import ctypes
import os
import platform
import struct
import sys

# linux/prctl.h, linux/seccomp.h, linux/bpf_common.h
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, AND, JUMP_IF_EQUAL, JUMP_IF_SET, RETURN = 0x20, 0x54, 0x15, 0x45, 0x06
ALLOW, FAIL, EPERM = 0x7FFF0000, 0x00050000, 1
PROT_WRITE, PROT_EXEC = 2, 4
THIRD_ARGUMENT = 16 + 2 * 8  # The offset of its lower half in struct seccomp_data.

# The numbers of mmap, mprotect and pkey_mprotect.
CALLS = {"x86_64": (9, 10, 329), "aarch64": (222, 226, 288)}

libc = ctypes.CDLL(None, use_errno=True)


def prctl(option, *arguments):
    """Calls prctl() with five arguments; missing ones are 0."""
    words = [ctypes.c_ulong(word) if isinstance(word, int) else word for word in arguments]
    words += [ctypes.c_ulong(0)] * (4 - len(words))
    if libc.prctl(option, *words) != 0:
        sys.exit(f"prctl {option}: " + os.strerror(ctypes.get_errno()))


def install_filter():
    """Forbids mappings that are writable and executable, and making memory executable later."""
    mmap, mprotect, pkey_mprotect = CALLS[platform.machine()]
    program = b"".join(
        struct.pack("=HBBI", code, if_true, if_false, value)
        for code, value, if_true, if_false in (
            (LOAD_WORD, 0, 0, 0),
            (JUMP_IF_EQUAL, mmap, 3, 0),
            (JUMP_IF_EQUAL, mprotect, 5, 0),
            (JUMP_IF_EQUAL, pkey_mprotect, 4, 0),
            (RETURN, ALLOW, 0, 0),
            (LOAD_WORD, THIRD_ARGUMENT, 0, 0),
            (AND, PROT_WRITE | PROT_EXEC, 0, 0),
            (JUMP_IF_EQUAL, PROT_WRITE | PROT_EXEC, 3, 2),
            (LOAD_WORD, THIRD_ARGUMENT, 0, 0),
            (JUMP_IF_SET, PROT_EXEC, 1, 0),
            (RETURN, ALLOW, 0, 0),
            (RETURN, FAIL | EPERM, 0, 0),
        )
    )
    code = ctypes.create_string_buffer(program)
    filter_program = struct.pack("HP", len(program) // 8, ctypes.addressof(code))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_program)


if sys.argv[1] == "prctl":
    prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN)
else:
    install_filter()
os.execvp(sys.argv[2], sys.argv[2:])
