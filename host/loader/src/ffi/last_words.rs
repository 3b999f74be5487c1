//! The note that a crashing process leaves: the signal and the thread that caused it.
//!
//! The handler only uses functions that are safe in a signal handler: it asks the kernel for the name of its thread,
//! writes one line to a file that is already open, restores the previous handler and lets the signal occur again. An
//! `exit` is recorded the same way. `_exit`, SIGKILL and a stack overflow on a thread of a library leave no note.

use std::{
    ffi::{c_int, c_void},
    fs::File,
    mem::{self, MaybeUninit},
    os::fd::IntoRawFd,
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicI32, Ordering},
    },
};

/// Signals by which a fault ends its process.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];
/// The word that records an end by `exit`.
pub const EXIT: &str = "exit";
/// The longest name of a thread including its terminating zero, in bytes.
const NAME_BYTES: usize = 16;

/// The descriptor of the open file; negative: none.
static FILE: AtomicI32 = AtomicI32::new(-1);
/// The id of the process that may write. Its forked children may not.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// The previous signal handlers.
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// Makes a crash of this process write a note to `file`. Only the first call has an effect.
pub fn keep_last_words(file: File) {
    // SAFETY: a struct of numbers, flags and pointers, for which zero is a value; each is written below.
    let mut before: [libc::sigaction; SIGNALS.len()] = unsafe { MaybeUninit::zeroed().assume_init() };
    for (signal, before) in SIGNALS.iter().zip(&mut before) {
        // SAFETY: asks for the present handler and changes nothing.
        unsafe { libc::sigaction(*signal, ptr::null(), before) };
    }
    if BEFORE.set(before).is_err() {
        return;
    }
    PROCESS.store(std::process::id().cast_signed(), Ordering::Relaxed);
    // Never closed: it is needed until the process ends.
    FILE.store(file.into_raw_fd(), Ordering::Relaxed);
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_signal;
    for signal in SIGNALS {
        // SAFETY: as above; zero is an empty mask and no flags.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler has the type that SA_SIGINFO asks for and calls only functions that are safe in one.
        unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
    // SAFETY: the function takes nothing, returns nothing and does not unwind.
    unsafe { libc::atexit(on_exit) };
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let mut digits = [0; 2];
    let number = u8::try_from(signal.clamp(0, 99)).unwrap_or(0);
    digits[0] = b'0' + number / 10;
    digits[1] = b'0' + number % 10;
    note(if number < 10 { &digits[1..] } else { &digits });
    let at = SIGNALS.iter().position(|known| *known == signal);
    let before = BEFORE.get().and_then(|before| before.get(at?));
    if let Some(before) = before {
        // SAFETY: `before` was filled by the same call, and changing a handler is allowed in one.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    }
    // SAFETY: the kernel hands a valid `info` to a handler with SA_SIGINFO.
    let code = unsafe { info.as_ref() }.map_or(0, |info| info.si_code);
    // A fault occurs again when this returns; a sent signal does not.
    if code <= 0 {
        // SAFETY: it is one of the functions that a handler may call; the signal comes when this returns.
        unsafe { libc::raise(signal) };
    }
}

extern "C" fn on_exit() {
    note(EXIT.as_bytes());
}

/// Writes `word`, the name of this thread and a line end. Takes no lock and allocates no memory.
fn note(word: &[u8]) {
    // SAFETY: it takes nothing.
    let process = unsafe { libc::getpid() };
    let file = FILE.load(Ordering::Relaxed);
    if file < 0 || process != PROCESS.load(Ordering::Relaxed) {
        return;
    }
    let mut name = [0_u8; NAME_BYTES];
    // SAFETY: the kernel writes at most 16 bytes, the last of them zero.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    let mut line = [0_u8; 8 + NAME_BYTES];
    let mut at = 0;
    for byte in word.iter().chain(b" ").chain(&name[..length]).chain(b"\n") {
        if let Some(place) = line.get_mut(at) {
            *place = *byte;
            at += 1;
        }
    }
    // SAFETY: the bytes are this function's own and initialised; the descriptor is never closed.
    unsafe { libc::write(file, line.as_ptr().cast(), at.min(line.len())) };
}
