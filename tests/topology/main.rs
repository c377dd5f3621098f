//! The topology: from captured machines, from made-up sysfs trees, and properties over random ones.

mod machines;
mod odd_trees;
mod properties;
mod saved;
#[path = "../support/mod.rs"]
mod support;
