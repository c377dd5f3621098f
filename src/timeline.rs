//! Pictures of a run: who ran where and when, as one HTML page or as Chrome's trace-event JSON.
//!
//! ```text
//!   simulator --watch--> from_sim  \                  / html  (page.html, page.css, page.js)
//!                                    model::Timeline
//!   recording --replay-> from_trace /                 \ json  (for ui.perfetto.dev)
//! ```
//!
//! A simulation is shown as it was. A recording holds what the policy was told and what it answered, so that stints are
//! worked out from it: `from_trace.rs` says how, docs/timeline.md says it to users.

mod base64;
pub mod from_sim;
pub mod from_trace;
pub mod html;
pub mod json;
pub mod model;
mod text;

pub use model::Timeline;

/// Stints that a picture may hold: a page of about 60 MB, which a browser still opens.
pub const MOST_SPANS: usize = 5_000_000;
