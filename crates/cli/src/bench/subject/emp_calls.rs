//! EMP's calls one by one.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::Context;
use emp_host::{ReceiveRequest, SendRequest};

use super::emp::{DATA, Emp, finish, receive, send};
use crate::bench::calls::Calls;

/// Requests under way on one end.
pub(super) struct EmpCalls<'a> {
    emp: &'a Emp,
    out: Arc<[u8]>,
    receives: VecDeque<ReceiveRequest<Vec<u8>>>,
    sends: VecDeque<SendRequest<Arc<[u8]>>>,
    /// Buffers without a request.
    spare: Vec<Vec<u8>>,
    size: usize,
}

impl<'a> EmpCalls<'a> {
    /// For messages of a size, of which so many are received at a time.
    pub(super) fn new(emp: &'a Emp, size: usize, batch: usize) -> Self {
        let spare = (0..batch).map(|_| vec![0; size]).collect();
        let (receives, sends) = (VecDeque::with_capacity(batch), VecDeque::with_capacity(batch));
        Self { emp, out: vec![0x5a; size].into(), receives, sends, spare, size }
    }
}

impl Calls for EmpCalls<'_> {
    fn post_receive(&mut self) -> anyhow::Result<()> {
        let buffer = self.spare.pop().unwrap_or_else(|| vec![0; self.size]);
        let selector = self.emp.wanted(DATA);
        self.receives.push_back(receive(&self.emp.endpoint, selector, buffer)?);
        Ok(())
    }

    fn post_send(&mut self) -> anyhow::Result<()> {
        let out = Arc::clone(&self.out);
        self.sends.push_back(send(&self.emp.endpoint, self.emp.to, DATA, out)?);
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
        self.emp.settle();
    }
}
