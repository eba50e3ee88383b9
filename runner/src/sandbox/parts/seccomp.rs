//! A filter of system calls: those that open the kernel further than a program in a sandbox needs.

/// An instruction of the kernel's packet filter: code, jump if true, jump if false, operand.
type Instruction = (u16, u8, u8, u32);

/// Loads the word at an offset of `struct seccomp_data`.
const LOAD: u16 = 0x20;
/// Compares with the operand.
const IS: u16 = 0x15;
/// Compares bits with the operand.
const HAS: u16 = 0x45;
const RETURN: u16 = 0x06;

const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// The lower half of an argument; both architectures are little-endian.
const ARGUMENTS: [u32; 2] = [16, 24];

const ALLOW: u32 = 0x7fff_0000;
const REFUSE: u32 = 0x0005_0000;
const NOT_PERMITTED: u32 = 1;
const NO_SUCH_CALL: u32 = 38;
const NO_SUCH_FAMILY: u32 = 97;

const NEW_USER_NAMESPACE: u32 = 0x1000_0000;
/// Types into a terminal, or pastes into one.
const TERMINAL_INPUT: [u32; 2] = [0x5412, 0x541c];

/// What differs between processors.
struct Architecture {
    name: u32,
    clone: u32,
    unshare: u32,
    control: u32,
    socket: u32,
    /// Mounts, modules, other kernels, keys, performance counters, programs in the kernel, other processes' memory faults, and
    /// what changes another process: the sandbox's first one may be of the agent's own user.
    refused: &'static [u32],
    /// Numbers from here on are another interface to the same calls.
    other_interface: Option<u32>,
}

/// Its flags lie in memory, where no filter sees them; programs fall back on `clone`.
const CLONE3: u32 = 435;

/// Sockets that are of the sandbox's own network: unix, inet, inet6, netlink. Those of a virtual machine's host (vsock) are of
/// no network namespace.
const SOCKETS: [u32; 4] = [1, 2, 10, 16];

/// The same numbers everywhere: `pidfd_getfd`, those of mounts, and io_uring's, through which calls pass unseen.
const SHARED: [u32; 12] = [438, 428, 429, 430, 431, 432, 433, 442, 425, 426, 427, 467];

#[cfg(target_arch = "x86_64")]
const HERE: Option<Architecture> = Some(Architecture {
    name: 0xc000_003e,
    clone: 56,
    unshare: 272,
    control: 16,
    socket: 41,
    // mount umount2 pivot_root swapon swapoff reboot init_module delete_module finit_module kexec_load kexec_file_load
    // add_key request_key keyctl perf_event_open bpf userfaultfd open_by_handle_at setns acct settimeofday clock_settime
    // ptrace process_vm_readv process_vm_writev
    refused: &[
        165, 166, 155, 167, 168, 169, 175, 176, 313, 246, 320, 248, 249, 250, 298, 321, 323, 304, 308, 163, 164, 227,
        101, 310, 311,
    ],
    other_interface: Some(0x4000_0000),
});
#[cfg(target_arch = "aarch64")]
const HERE: Option<Architecture> = Some(Architecture {
    name: 0xc000_00b7,
    clone: 220,
    unshare: 97,
    control: 29,
    socket: 198,
    refused: &[
        40, 39, 41, 224, 225, 142, 105, 106, 273, 104, 294, 217, 218, 219, 241, 280, 282, 265, 268, 89, 170, 112, 117,
        270, 271,
    ],
    other_interface: None,
});
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const HERE: Option<Architecture> = None;

/// The filter, as `bwrap` reads it; `None` for processors whose numbers are not known here.
pub(crate) fn filter() -> Option<Vec<u8>> {
    let here = HERE?;
    let refuse = (RETURN, 0, 0, REFUSE | NOT_PERMITTED);
    let mut program: Vec<Instruction> = vec![
        (LOAD, 0, 0, ARCHITECTURE),
        (IS, 1, 0, here.name),
        // What is made for another processor would be counted otherwise.
        (RETURN, 0, 0, REFUSE | NO_SUCH_CALL),
        (LOAD, 0, 0, NUMBER),
        (IS, 0, 1, CLONE3),
        (RETURN, 0, 0, REFUSE | NO_SUCH_CALL),
    ];
    if let Some(first) = here.other_interface {
        program.extend([(HAS, 0, 1, first), (RETURN, 0, 0, REFUSE | NO_SUCH_CALL)]);
    }
    for call in here.refused.iter().chain(&SHARED) {
        program.extend([(IS, 0, 1, *call), refuse]);
    }
    // Each loads an argument, and so ends by loading the number again.
    for call in [here.clone, here.unshare] {
        program.extend([
            (IS, 0, 4, call),
            (LOAD, 0, 0, ARGUMENTS[0]),
            (HAS, 0, 1, NEW_USER_NAMESPACE),
            refuse,
            (LOAD, 0, 0, NUMBER),
        ]);
    }
    let [unix, inet, inet6, netlink] = SOCKETS;
    program.extend([
        (IS, 0, 7, here.socket),
        (LOAD, 0, 0, ARGUMENTS[0]),
        (IS, 4, 0, unix),
        (IS, 3, 0, inet),
        (IS, 2, 0, inet6),
        (IS, 1, 0, netlink),
        (RETURN, 0, 0, REFUSE | NO_SUCH_FAMILY),
        (LOAD, 0, 0, NUMBER),
    ]);
    program.extend([
        (IS, 0, 4, here.control),
        (LOAD, 0, 0, ARGUMENTS[1]),
        (IS, 1, 0, TERMINAL_INPUT[0]),
        (IS, 0, 1, TERMINAL_INPUT[1]),
        refuse,
        (RETURN, 0, 0, ALLOW),
    ]);
    let bytes = program.into_iter().flat_map(|(code, if_true, if_false, operand)| {
        let [low, high] = code.to_ne_bytes();
        let [a, b, c, d] = operand.to_ne_bytes();
        [low, high, if_true, if_false, a, b, c, d]
    });
    Some(bytes.collect())
}
