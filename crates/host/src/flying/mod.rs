//! What is under way: requests' slots, completion queues, alarms, who sleeps for what, and how long waits took.

pub(crate) mod alarm;
pub(crate) mod predict;
pub(crate) mod queues;
pub(crate) mod requests;
pub(crate) mod sleepers;
