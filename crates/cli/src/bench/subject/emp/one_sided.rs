//! Puts, gets and atomic additions: one end does them, the other only makes progress.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use emp_host::{AtomicOp, Refused, RegionOptions, RemoteRegion, Request};

use super::end::Emp;
use super::post::{END, finish, finish_within, receive, wanted};
use crate::bench::job::{Job, Pattern};
use crate::bench::patience::Patience;

/// The key of what is measured, at both ends.
const KEY: u64 = 1;

/// Bytes of a number that atomics add to.
const NUMBER_BYTES: usize = 8;

impl Emp {
    /// Exports memory for a job, if what is exported is too short for it.
    pub(super) fn export(&mut self, job: &Job) -> anyhow::Result<()> {
        if self.region.as_ref().is_none_or(|region| region.len() < job.size) {
            // Its key is needed again.
            self.region = None;
            let options = RegionOptions { key: Some(KEY), ..RegionOptions::default() };
            let exported = self.node.export_with(vec![0; job.size], options);
            self.region =
                Some(exported.map_err(|refused| anyhow!("EMP exports nothing: {refused}"))?);
        }
        Ok(())
    }

    /// Does the operations of a job, and says so when the last has ended.
    pub(super) fn reach_out(&mut self, job: &Job) -> anyhow::Result<()> {
        let target = RemoteRegion {
            to: self.to.node,
            to_endpoint: self.to.endpoint,
            key: KEY,
            generation: 0,
            offset: 0,
        };
        match job.pattern {
            Pattern::Put => self.puts(job, target)?,
            Pattern::Get => self.gets(job, target)?,
            Pattern::Atomic => self.atomics(job, target)?,
            other => bail!("{} is not one-sided", other.name()),
        }
        self.send_end()
    }

    /// Makes progress until the other end has done its operations.
    pub(super) fn be_reached(&mut self) -> anyhow::Result<()> {
        let end = receive(&self.endpoint, wanted(self.to, END), vec![0])?;
        // However long a slice is. Should the other end be lost, the receive fails, for it names the sender.
        finish_within(end, Duration::MAX).map(drop)
    }

    fn puts(&mut self, job: &Job, target: RemoteRegion) -> anyhow::Result<()> {
        let (endpoint, out) = (&self.endpoint, &self.out);
        let put = |_: ()| post(Arc::clone(out), |buffer| endpoint.put(target, buffer));
        windowed(job, vec![(); job.window], put, drop)
    }

    fn gets(&mut self, job: &Job, target: RemoteRegion) -> anyhow::Result<()> {
        let endpoint = &self.endpoint;
        let buffers = vec![vec![0u8; job.size]; job.window];
        windowed(job, buffers, |buffer| post(buffer, |buffer| endpoint.get(target, buffer)), |b| b)
    }

    fn atomics(&mut self, job: &Job, target: RemoteRegion) -> anyhow::Result<()> {
        let endpoint = &self.endpoint;
        let ones = vec![1u64; job.size / NUMBER_BYTES];
        let add = |_: ()| {
            let sum = |(): ()| {
                let request = endpoint.fetch_atomic(target, AtomicOp::Sum, &ones);
                request.map_err(|refused| Refused { reason: refused.reason, buffer: () })
            };
            post((), sum)
        };
        windowed(job, vec![(); job.window], add, drop)
    }
}

/// Posts, however long it takes until there is room. A refused post makes progress by itself.
fn post<B, R: Send + 'static>(
    mut buffer: B,
    mut attempt: impl FnMut(B) -> Result<Request<R>, Refused<B>>,
) -> anyhow::Result<Request<R>> {
    let mut patience = Patience::default();
    loop {
        match attempt(buffer) {
            Ok(request) => return Ok(request),
            Err(refused) if refused.reason.is_temporary() => buffer = refused.buffer,
            Err(refused) => bail!("EMP refused an operation: {refused}"),
        }
        patience.idle()?;
    }
}

/// Keeps as many operations under way as there are tokens: one is needed for each, and comes back when it has ended.
fn windowed<T, R: Send + 'static>(
    job: &Job,
    mut tokens: Vec<T>,
    mut start: impl FnMut(T) -> anyhow::Result<Request<R>>,
    back: impl Fn(R) -> T,
) -> anyhow::Result<()> {
    let mut flying = VecDeque::with_capacity(tokens.len());
    for _ in 0..job.count {
        let token = match tokens.pop() {
            Some(token) => token,
            None => match flying.pop_front() {
                Some(request) => back(finish(request)?),
                None => bail!("a window of no operations"),
            },
        };
        flying.push_back(start(token)?);
    }
    flying.into_iter().try_for_each(|request| finish(request).map(drop))
}
