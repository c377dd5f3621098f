//! Pictures of simulations and recordings: what they hold is true, and what users chose does no harm in them.

mod cli;
mod model;
mod output;
mod recordings;
mod support;
