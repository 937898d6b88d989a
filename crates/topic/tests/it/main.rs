//! Topics as their users see them.

mod basics;
mod killing;
mod sharing;
mod support;
mod waiting;
