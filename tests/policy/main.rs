//! The policy on a made-up machine: what holds for any order of events on any topology.

mod behind;
mod every_policy;
mod fairness;
mod foreign;
mod machine;
mod partners;
mod properties;
mod script;
mod spread;
#[path = "../support/mod.rs"]
mod support;
