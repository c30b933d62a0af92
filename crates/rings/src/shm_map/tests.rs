use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;

use super::*;

fn memfd(flags: libc::c_uint, bytes: usize, seals: libc::c_int) -> OwnedFd {
    // SAFETY: the name ends with a zero byte; the descriptor is fresh; the other calls take no pointers.
    unsafe {
        let fd = libc::memfd_create(c"emp-test".as_ptr(), flags | libc::MFD_CLOEXEC);
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        assert_eq!(libc::ftruncate(fd, bytes as libc::off_t), 0);
        if seals != 0 {
            assert_eq!(libc::fcntl(fd, libc::F_ADD_SEALS, seals), 0);
        }
        OwnedFd::from_raw_fd(fd)
    }
}

fn refused(file: BorrowedFd<'_>) -> String {
    let error = ShmEnd::open(file).expect_err("it is to be refused");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    error.to_string()
}

#[test]
fn frames_pass_both_ways() {
    let (file, mut a) = ShmEnd::create().expect("memory is to be had");
    let mut b = ShmEnd::open(file.as_fd()).expect("what `create` makes is accepted");
    let mut buffer = vec![0; RING_FRAME_BYTES_MAX];
    for length in (1..3000).chain([RING_FRAME_BYTES_MAX; 100]) {
        let frame: Vec<u8> = (0..length).map(|place| (place * 31 + length) as u8).collect();
        let (head, tail) = frame.split_at(length / 2);
        assert_eq!(a.producer.push(length, [head, tail].into_iter()), Ok(true));
        assert_eq!(b.consumer.pop(&mut buffer), Ok(Some(length)));
        assert!(buffer[..length] == frame, "{length} bytes differ");
        assert_eq!(b.producer.push(length, [tail, head].into_iter()), Ok(true));
        assert_eq!(a.consumer.pop(&mut buffer), Ok(Some(length)));
        assert!(buffer[..length - head.len()] == *tail, "{length} bytes back differ");
    }
}

#[test]
fn memory_that_could_shrink_is_refused() {
    let sealing = libc::MFD_ALLOW_SEALING;
    for seals in [0, libc::F_SEAL_SHRINK, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW] {
        let why = refused(memfd(sealing, SHM_BYTES, seals).as_fd());
        assert!(why.contains("not sealed"), "{why}");
    }
    // One that allows no seals has the seal of seals, and nothing else.
    assert!(refused(memfd(0, SHM_BYTES, 0).as_fd()).contains("not sealed"));
}

#[test]
fn memory_of_another_size_is_refused() {
    for bytes in [0, 4096, SHM_BYTES - 1, SHM_BYTES + 1, 2 * SHM_BYTES] {
        let why = refused(memfd(libc::MFD_ALLOW_SEALING, bytes, SEALS).as_fd());
        assert!(why.contains("another size"), "{why}");
    }
}

#[test]
fn what_is_no_memory_is_refused() {
    let null = File::open("/dev/null").expect("it exists");
    assert!(refused(null.as_fd()).contains("not sealed"));
    let program = File::open(std::env::current_exe().expect("a path")).expect("it exists");
    assert!(refused(program.as_fd()).contains("not sealed"));
}

#[test]
fn memory_that_cannot_be_written_is_an_error() {
    let file = memfd(libc::MFD_ALLOW_SEALING, SHM_BYTES, libc::F_SEAL_WRITE | SEALS);
    let error = ShmEnd::open(file.as_fd()).expect_err("it cannot be mapped for writing");
    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
}

#[test]
fn the_file_cannot_be_truncated_under_the_rings() {
    let (file, mut end) = ShmEnd::create().expect("memory is to be had");
    let mut file = File::from(file);
    let error = file.set_len(0).expect_err("it is sealed");
    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    // Holes read as zeros, which are not a frame.
    assert_eq!(end.consumer.pop(&mut [0; 64]), Ok(None));
    let records = (half_bytes(RING_BYTES) + CONTROL_BYTES) as u64;
    file.seek(io::SeekFrom::Start(records)).expect("inside");
    file.write_all(&65u64.to_ne_bytes()).expect("it can be written like any file");
    assert_eq!(end.consumer.pop(&mut [0; 64]), Err(crate::Corrupt));
    let mut word = [0; 8];
    file.seek(io::SeekFrom::Start(records)).expect("inside");
    file.read_exact(&mut word).expect("inside");
    assert_eq!(u64::from_ne_bytes(word), 65);
}

/// Rings of a service and its client.
const SMALL: usize = 64 << 10;

fn punch(file: BorrowedFd<'_>) -> io::Result<()> {
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no pointers.
    let done =
        unsafe { libc::fallocate(file.as_raw_fd(), how, 0, shm_bytes(SMALL) as libc::off_t) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn blocks(file: BorrowedFd<'_>) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let file = File::from(file.try_clone_to_owned().expect("a copy"));
    file.metadata().expect("it has some").blocks()
}

/// Memory of a client cannot be taken from under the service, by no call on the descriptor and none on the client's own mapping; what was
/// taken before is there again.
#[test]
fn kept_memory_cannot_be_punched() {
    let (file, mut service) = SharedEnd::<SMALL>::create_filled().expect("memory is to be had");
    let whole = (shm_bytes(SMALL) / 512) as u64;
    assert_eq!(blocks(file.as_fd()), whole, "it is there before anybody writes");
    let mut client = SharedEnd::<SMALL>::open_filled(file.as_fd()).expect("it is sealed");
    punch(file.as_fd()).expect("nobody keeps it yet");
    assert_eq!(blocks(file.as_fd()), 0);
    service.keep(file.as_fd()).expect("this kernel has the seal");
    assert_eq!(blocks(file.as_fd()), whole, "it is there again");
    let refused = punch(file.as_fd()).expect_err("it is kept");
    assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    // SAFETY: removes pages of a file behind a mapping that is live and of this size.
    let removed = unsafe {
        libc::madvise(client.map.at.as_ptr().cast(), client.map.bytes, libc::MADV_REMOVE)
    };
    assert_eq!((removed, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EPERM)));
    assert_eq!(blocks(file.as_fd()), whole);
    let late = SharedEnd::<SMALL>::open_filled(file.as_fd()).expect_err("nobody else writes to it");
    assert_eq!(late.raw_os_error(), Some(libc::EPERM));
    let mut written = File::from(file.try_clone().expect("a copy"));
    assert!(written.write_all(&[1]).is_err(), "not by the file either");
    // And both ends go on.
    let mut buffer = [0; 64];
    assert_eq!(client.producer.push(3, [&[1u8, 2, 3][..]].into_iter()), Ok(true));
    assert_eq!(service.consumer.pop(&mut buffer), Ok(Some(3)));
    assert_eq!(service.producer.push(2, [&[4u8, 5][..]].into_iter()), Ok(true));
    assert_eq!(client.consumer.pop(&mut buffer), Ok(Some(2)));
}
