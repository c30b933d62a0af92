//! Memory of what is measured: the same kind for all subjects, and as much.
//!
//! Long messages lie on huge pages where the kernel has them, as in a program whose allocator asks for them: without, EMP's long
//! frames pay for each page that is sent by reference, and nobody else does.

use anyhow::Context;
use emp_host::PageBuffer;

/// What messages that are sent are filled with.
pub const FILL: u8 = 0x5a;

/// So many buffers of a size to receive into, one behind the other, all there already: a page that is touched for the first time costs
/// as much as a message.
pub fn several(count: usize, size: usize) -> anyhow::Result<Vec<PageBuffer>> {
    let buffers = PageBuffer::several(count, size);
    let mut buffers =
        buffers.with_context(|| format!("memory for {count} messages of {size} bytes"))?;
    buffers.iter_mut().for_each(|buffer| buffer.fill(0));
    Ok(buffers)
}

/// One of so many bytes, zeroed.
pub fn one(size: usize) -> anyhow::Result<PageBuffer> {
    several(1, size)?.pop().context("no memory")
}

/// One to send.
pub fn filled(size: usize) -> anyhow::Result<PageBuffer> {
    let mut buffer = one(size)?;
    buffer.fill(FILL);
    Ok(buffer)
}
