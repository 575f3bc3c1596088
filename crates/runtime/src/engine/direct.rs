//! `recv` and `send`, the two system calls of every message, made directly. In: the arguments of
//! the C library's functions. Out: the number of bytes or the negative error number.
//!
//! The C library's functions are cancellation points. That costs two atomic operations in a process
//! with threads, though no thread is ever cancelled here. After each of these calls the caches hold
//! the kernel's code. So every cache line of code on the way there and back is fetched anew. An
//! inline instruction then costs less than a call through another library.

use std::os::fd::RawFd;

/// # Safety
/// `to` is valid for writes of `n` bytes.
#[inline(always)]
pub unsafe fn recv(fd: RawFd, to: *mut u8, n: usize) -> isize {
    // SAFETY: by contract; no address is requested.
    unsafe { call(libc::SYS_recvfrom, fd, to as usize, n, 0) }
}

/// The state of a socket's receive queue, which is not changed.
#[inline(always)]
pub fn waiting(fd: RawFd) -> super::Waiting {
    let mut byte = 0u8;
    loop {
        // SAFETY: room for the one requested byte; no address is requested.
        let n = unsafe {
            call(libc::SYS_recvfrom, fd, std::ptr::addr_of_mut!(byte) as usize, 1, libc::MSG_PEEK | libc::MSG_DONTWAIT)
        };
        match -n as i32 {
            libc::EINTR => {}
            libc::EAGAIN => return super::Waiting::Nothing,
            _ if n > 0 => return super::Waiting::Bytes,
            _ => return super::Waiting::End,
        }
    }
}

/// # Safety
/// `from` is valid for reads of `n` bytes.
#[inline(always)]
pub unsafe fn send(fd: RawFd, from: *const u8, n: usize, flags: i32) -> isize {
    // SAFETY: by contract; no address is given.
    unsafe { call(libc::SYS_sendto, fd, from as usize, n, flags) }
}

/// A call of six arguments; the last two are 0.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn call(number: libc::c_long, fd: RawFd, bytes: usize, n: usize, flags: i32) -> isize {
    let result: isize;
    // SAFETY: the caller vouches for the memory; the kernel changes no register but these, and
    // nothing on the stack.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") fd as isize, in("rsi") bytes, in("rdx") n, in("r10") flags as isize, in("r8") 0usize, in("r9") 0usize,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn call(number: libc::c_long, fd: RawFd, bytes: usize, n: usize, flags: i32) -> isize {
    // SAFETY: as above.
    let result = unsafe { libc::syscall(number, fd, bytes, n, flags, 0usize, 0usize) };
    if result < 0 {
        -(super::common::errno() as isize)
    } else {
        result as isize
    }
}

#[cfg(test)]
mod tests {
    use super::super::Waiting;
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_and_errors_come_through() {
        let (a, b) = UnixStream::pair().unwrap();
        b.set_nonblocking(true).unwrap();
        let mut buf = [0u8; 8];
        // SAFETY: the buffers are as long as is said.
        unsafe {
            assert_eq!(recv(b.as_raw_fd(), buf.as_mut_ptr(), buf.len()), -(libc::EAGAIN as isize));
            assert_eq!(send(a.as_raw_fd(), b"hello".as_ptr(), 5, libc::MSG_NOSIGNAL), 5);
            assert_eq!(waiting(b.as_raw_fd()), Waiting::Bytes);
            assert_eq!(recv(b.as_raw_fd(), buf.as_mut_ptr(), buf.len()), 5);
            assert_eq!(waiting(b.as_raw_fd()), Waiting::Nothing);
            drop(a);
            assert_eq!(waiting(b.as_raw_fd()), Waiting::End);
            assert_eq!(recv(b.as_raw_fd(), buf.as_mut_ptr(), buf.len()), 0);
            assert_eq!(send(b.as_raw_fd(), b"x".as_ptr(), 1, libc::MSG_NOSIGNAL), -(libc::EPIPE as isize));
        }
        assert_eq!(&buf[..5], b"hello");
    }
}
