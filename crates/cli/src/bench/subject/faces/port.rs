//! What all faces' libraries are to the ping-pong.

/// Milliseconds for meeting the other end. It is there, and met at once; but on a machine that others keep busy each of the two may wait for
/// seconds until it runs.
pub const CONNECT_MS: u32 = 20_000;

/// What the ping-pong asks of a face's library: one end of a pair, with its buffers.
pub trait Port {
    /// What the other end must know.
    fn address(&self) -> anyhow::Result<Vec<u8>>;
    /// Connects to the other end.
    fn meet(&mut self, address: &[u8]) -> anyhow::Result<()>;
    /// Makes messages so long, and buffers for so many receives. Nothing is under way.
    fn resize(&mut self, size: usize, receives: usize) -> anyhow::Result<()>;
    /// Another subject has the memory until the next [`resize`](Self::resize); if something is under way, it stays.
    fn leave_memory(&mut self);
    /// Receives that can be posted at a time.
    fn receives(&self) -> usize;
    /// Posts a send of the message.
    fn send(&mut self) -> anyhow::Result<()>;
    /// Posts a receive into one of the buffers, where the interface has receives.
    fn receive(&mut self, number: usize) -> anyhow::Result<()>;
    /// Whether the next message is here.
    fn arrived(&mut self) -> anyhow::Result<bool>;
    /// Whether all sends have ended.
    fn sent(&mut self) -> anyhow::Result<bool>;
    /// Makes progress.
    fn progress(&mut self) -> anyhow::Result<()>;
}
