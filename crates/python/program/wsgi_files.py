# Files of a WSGI application (PEP 3333, "Optional Platform-Specific File Handling"): the server
# sends what it can from the file, and this process reads the rest.

import _io
import _socket
import os
from time import monotonic


class FileWrapper:
    """The `wsgi.file_wrapper`: yields the content of an open file in pieces."""

    def __init__(self, filelike, block_size=PIECE_MAX_BYTES):
        self.filelike = filelike
        self.block_size = block_size
        # A file has all its content at once: smaller pieces would only be more frames.
        if hasattr(filelike, 'seekable') and filelike.seekable():
            self.block_size = max(block_size, PIECE_MAX_BYTES)
        if hasattr(filelike, 'close'):
            self.close = filelike.close

    def __iter__(self):
        return self

    def __next__(self):
        data = self.filelike.read(self.block_size)
        if not data:
            raise StopIteration
        return data


def find_open_file(filelike):
    """Returns descriptor, position and size of what is left of a regular file, as far as reading
    `filelike` gives just that; otherwise the descriptor is None.

    Others may have a descriptor, too, and give something else, such as what a file decompresses to.
    """
    kind = type(filelike)
    try:
        if kind is _io.BufferedReader or kind is _io.BufferedRandom:
            if type(filelike.raw) is not _io.FileIO:
                return None, 0, 0
            if kind is _io.BufferedRandom:
                filelike.flush()
        elif kind is not _io.FileIO:
            return None, 0, 0
        descriptor = filelike.fileno()
        status = os.fstat(descriptor)
        if status.st_mode & 0o170000 != 0o100000 or not filelike.readable():
            return None, 0, 0
        position = filelike.tell()
        return descriptor, position, max(0, status.st_size - position)
    except (OSError, ValueError):
        return None, 0, 0


# File systems whose files the server sends: reading from them waits for a disk of this machine at
# most. Those of a network (NFS, CIFS, Ceph), of a host (9p, virtiofs) and of a program (FUSE) may
# not respond for minutes, and the server would wait with all its clients: this process waits alone.
LOCAL_FILE_SYSTEMS = frozenset((
    'bcachefs', 'btrfs', 'erofs', 'exfat', 'ext2', 'ext3', 'ext4', 'f2fs', 'iso9660', 'jfs',
    'nilfs2', 'ntfs3', 'overlay', 'ramfs', 'reiserfs', 'rootfs', 'squashfs', 'tmpfs', 'udf', 'vfat',
    'xfs', 'zfs'))
# Whether the file systems of these devices are among them, and until when that is believed: the
# number of a device that is no disk is used again for others.
local_devices = {}


def is_on_local_file_system(descriptor):
    device, now = os.fstat(descriptor).st_dev, monotonic()
    is_local, end = local_devices.get(device, (False, 0))
    if now >= end:
        is_local = find_file_system(descriptor) in LOCAL_FILE_SYSTEMS
        local_devices[device] = is_local, now + LOCAL_DEVICE_SECONDS
    return is_local


def find_file_system(descriptor):
    """Returns the type of the file system of an open file, or '' if that cannot be found out.

    The device of a file is not always that of its mount (btrfs, overlay), but its mount has a
    number (proc_pid_fdinfo(5), proc_pid_mountinfo(5)).
    """
    number = ''
    try:
        with open('/proc/self/fdinfo/%d' % descriptor) as info:
            for line in info:
                if line.startswith('mnt_id:'):
                    number = line[len('mnt_id:'):].strip()
        with open('/proc/self/mountinfo', errors='replace') as mounts:
            for line in mounts:
                if line.split(' ', 1)[0] == number:
                    return line.partition(' - ')[2].split(' ', 1)[0]
    except OSError:
        pass  # There is no /proc.
    return ''


def send_descriptor(channel, number, descriptor):
    """Sends the descriptor of a file for a request by a channel."""
    rights = _socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor_content.pack(descriptor)
    channel.sendmsg((number_content.pack(number),), (rights,), _socket.MSG_DONTWAIT)
