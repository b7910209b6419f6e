"""Runs a program for which the kernel refuses some system calls, like a container's seccomp filter.

python3 refuse_calls.py ERROR CALL,CALL... PROGRAM ARGUMENT...

ERROR and CALL are numbers of this architecture. System calls since Linux 5.1, from 424 on, have the
same numbers on all architectures.
"""

import ctypes
import os
import struct
import sys

# linux/prctl.h, linux/seccomp.h, linux/bpf_common.h
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000


def instruction(code, value, if_true=0, if_false=0):
    """Returns a struct sock_filter."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def install_filter(error, calls):
    """Makes the kernel refuse the calls with an error, for this process and all descendants."""
    program = [instruction(LOAD_WORD, 0)]  # The number of the call is at offset 0.
    for call in calls:
        program.append(instruction(JUMP_IF_EQUAL, call, 0, 1))
        program.append(instruction(RETURN, FAIL | error))
    program.append(instruction(RETURN, ALLOW))
    code = ctypes.create_string_buffer(b"".join(program))
    # struct sock_fprog: the number of instructions, then their address with native alignment.
    filter_program = struct.pack("HP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    for arguments in (
        (PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero),
        (PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), filter_program, zero, zero),
    ):
        if libc.prctl(*arguments) != 0:
            sys.exit("prctl: " + os.strerror(ctypes.get_errno()))


install_filter(int(sys.argv[1]), [int(call) for call in sys.argv[2].split(",")])
os.execvp(sys.argv[3], sys.argv[3:])
