# Files as WSGI responses (PEP 3333, "Optional Platform-Specific File Handling"): the server sends
# regular files on local file systems from their descriptors, and this process reads all others.

import _io
import _socket
import os
from time import monotonic


class FileWrapper:
    """The `wsgi.file_wrapper`: an iterator over the content of a file-like object in pieces."""

    def __init__(self, filelike, block_size=PIECE_MAX_BYTES):
        self.filelike = filelike
        self.block_size = block_size
        # Reading a file never waits for more data, so smaller pieces would only cause more frames.
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
    """Returns the descriptor of a regular file, the current position, and the number of bytes left.

    The descriptor is None unless reading `filelike` returns exactly the bytes of the file. Other
    objects may have a descriptor, too, but return other bytes: a gzip file, for example, returns
    the decompressed ones.
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


# The types of file systems whose files the server may send. Reading from them waits for a disk of
# this machine at most. Network file systems (NFS, CIFS, Ceph), those of a virtual machine's host
# (9p, virtiofs) and those of a program (FUSE) may not respond for minutes. The server would then
# block for all of its clients, so this process reads such files, and only it blocks.
LOCAL_FILE_SYSTEMS = frozenset((
    'bcachefs', 'btrfs', 'erofs', 'exfat', 'ext2', 'ext3', 'ext4', 'f2fs', 'iso9660', 'jfs',
    'nilfs2', 'ntfs3', 'overlay', 'ramfs', 'reiserfs', 'rootfs', 'squashfs', 'tmpfs', 'udf', 'vfat',
    'xfs', 'zfs'))
# A cache from device numbers to tuples: whether the device has such a file system, and the time at
# which the entry expires. Entries expire because the number of a device that is not a disk can be
# reused for another file system.
local_devices = {}


def is_on_local_file_system(descriptor):
    device, now = os.fstat(descriptor).st_dev, monotonic()
    is_local, expires = local_devices.get(device, (False, 0))
    if now >= expires:
        is_local = find_file_system(descriptor) in LOCAL_FILE_SYSTEMS
        local_devices[device] = is_local, now + LOCAL_DEVICE_SECONDS
    return is_local


def find_file_system(descriptor):
    """Returns the type of the file system of an open file, or '' if it cannot be determined.

    The ID of the mount leads to the type (proc_pid_fdinfo(5), proc_pid_mountinfo(5)), because the
    device number of a file is not always the number of its mount (btrfs, overlay).
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
        pass  # /proc is not mounted.
    return ''


def send_descriptor(channel, number, descriptor):
    """Sends a file descriptor, together with the number of its request, on a channel."""
    rights = _socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor_format.pack(descriptor)
    channel.sendmsg((u32_format.pack(number),), (rights,), _socket.MSG_DONTWAIT)
