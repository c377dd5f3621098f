//! Small policies: for comparison, and as templates for your own.

pub mod fifo;
