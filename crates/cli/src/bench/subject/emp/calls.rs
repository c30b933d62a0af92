//! EMP's calls one by one.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::Context;
use emp_host::{Address, Endpoint, Node, ReceiveRequest, SendRequest};

use super::post::{DATA, finish, receive, send, settle, wanted};
use crate::bench::calls::Calls;

/// Requests under way on one end.
pub(super) struct EmpCalls<'a> {
    node: &'a Node,
    endpoint: &'a Endpoint,
    to: Address,
    out: Arc<[u8]>,
    receives: VecDeque<ReceiveRequest<Vec<u8>>>,
    sends: VecDeque<SendRequest<Arc<[u8]>>>,
    /// Buffers without a request.
    spare: Vec<Vec<u8>>,
    size: usize,
}

impl<'a> EmpCalls<'a> {
    /// For messages of a size, of which so many are received at a time.
    pub(super) fn new(
        (node, endpoint, to): (&'a Node, &'a Endpoint, Address),
        size: usize,
        batch: usize,
    ) -> Self {
        let spare = (0..batch).map(|_| vec![0; size]).collect();
        let (receives, sends) = (VecDeque::with_capacity(batch), VecDeque::with_capacity(batch));
        let out = vec![0x5a; size].into();
        Self { node, endpoint, to, out, receives, sends, spare, size }
    }
}

impl Calls for EmpCalls<'_> {
    fn post_receive(&mut self) -> anyhow::Result<()> {
        let buffer = self.spare.pop().unwrap_or_else(|| vec![0; self.size]);
        let selector = wanted(self.to, DATA);
        self.receives.push_back(receive(self.endpoint, selector, buffer)?);
        Ok(())
    }

    fn post_send(&mut self) -> anyhow::Result<()> {
        let out = Arc::clone(&self.out);
        self.sends.push_back(send(self.endpoint, self.to, DATA, out)?);
        Ok(())
    }

    fn wait_receive(&mut self) -> anyhow::Result<()> {
        let request =
            self.receives.pop_front().context("a receive was posted for every message")?;
        self.spare.push(finish(request)?);
        Ok(())
    }

    fn wait_send(&mut self) -> anyhow::Result<()> {
        finish(self.sends.pop_front().context("only what was posted is waited for")?).map(drop)
    }

    fn settle(&mut self) {
        settle(self.node);
    }
}
