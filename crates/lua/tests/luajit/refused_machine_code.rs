//! The behaviour of LuaJIT when the system does not make machine code executable.

use std::io;

use mlua::{Function, Lua};

use super::inspectable_vm::{jit, open, traces};

/// Refuses to make memory executable in this thread from now on, as systemd does with
/// `MemoryDenyWriteExecute`: a filter of system calls.
fn refuse_executable_memory() {
    const MODE_FILTER: u64 = libc::SECCOMP_MODE_FILTER as u64;
    const NUMBER_AT: u32 = 0;
    /// Of the third argument of a call, the protection; both machines have its lower half first.
    const PROTECTION_AT: u32 = 32;
    let word = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let any_bit = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    let end = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut lines = [
        line(word, 0, 0, NUMBER_AT),
        line(equal, 0, 3, libc::SYS_mprotect as u32),
        line(word, 0, 0, PROTECTION_AT),
        line(any_bit, 0, 1, libc::PROT_EXEC as u32),
        line(end, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EACCES as u32),
        line(end, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
    // SAFETY: the kernel copies the filter, which is alive, and its lines.
    let outcomes = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64),
            libc::prctl(libc::PR_SET_SECCOMP, MODE_FILTER, &raw const filter, 0_u64, 0_u64),
        ]
    };
    assert_eq!(outcomes, [0, 0], "{}", io::Error::last_os_error());
}

/// Runs a loop that is worth compiling, and has a branch that is taken from `from` on.
fn sum(lua: &Lua, function: &Function, from: i64) {
    let sum: i64 = function.call((1000, from)).expect("a sum");
    let more = (1..=1000).filter(|n| *n >= from).count() as i64;
    assert_eq!(sum, 500_500 + more * 7, "{} traces", traces(lua));
}

fn summing(lua: &Lua) -> Function {
    let code = "return function(count, from)
            local sum = 0
            for n = 1, count do
                sum = sum + n
                if n >= from then sum = sum + 7 end
            end
            return sum
        end";
    lua.load(code).eval().expect("a function")
}

#[test]
fn a_vm_without_executable_memory_continues_without_the_compiler() {
    let lua = open();
    let (known, new) = (summing(&lua), summing(&lua));
    sum(&lua, &known, 2000);
    assert_eq!(traces(&lua), 1);
    refuse_executable_memory();
    // Another loop: its code cannot be made executable, nor that of the first one again.
    sum(&lua, &new, 2000);
    let is_on = || jit(&lua).get::<Function>("status").and_then(|f| f.call::<bool>(()));
    assert!(!is_on().expect("a status"));
    assert_eq!(traces(&lua), 0);
    for from in [1, 500, 2000] {
        sum(&lua, &known, from);
        sum(&lua, &new, from);
    }
    assert_eq!(traces(&lua), 0);
}

/// The same holds for a branch of a loop that is compiled: the exit of its trace is changed, too.
#[test]
fn a_branch_without_executable_memory_is_dropped_with_its_loop() {
    let lua = open();
    let function = summing(&lua);
    sum(&lua, &function, 2000);
    assert_eq!(traces(&lua), 1);
    refuse_executable_memory();
    for from in [1, 500, 2000] {
        sum(&lua, &function, from);
    }
    assert_eq!(traces(&lua), 0);
}

/// A VM that has compiled nothing yet, in a process that may not.
#[test]
fn the_first_compiled_loop_may_be_refused_executable_memory() {
    let lua = open();
    let function = summing(&lua);
    refuse_executable_memory();
    for from in [1, 500, 2000] {
        sum(&lua, &function, from);
    }
    assert_eq!(traces(&lua), 0);
}
