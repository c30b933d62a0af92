//! TCP, the yardstick.

mod calls;
mod end;
pub mod opening;
mod some;
