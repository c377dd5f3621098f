//! What is written: harmless, whole, the same each time.

use crate::support::{Ran, busy, chrome, nasty, page};
use serde_json::Value;
use std::collections::BTreeSet;

fn about(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"about\">").expect("the data");
    serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("JSON")
}

#[test]
fn names_do_no_harm_in_a_page() {
    for t in [nasty().timeline(), nasty().recorded()] {
        let text = page(&t);
        assert_eq!(text.matches("</script>").count(), 5, "one for each script of the template");
        assert!(text.bytes().all(|b| b == b'\n' || b >= b' ') && !text.contains("<b>"));
        let name = about(&text)["processes"][1][1].as_str().expect("a name").to_owned();
        assert_eq!(name, "</script><b>\\\"\\'\\\\\\x01\\xff", "as Name shows it everywhere");
    }
    assert_eq!(about(&page(&nasty().timeline()))["title"], "a <test> of \"it\"");
}

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    let text = page(&busy("soft-domain", "fleet,batch=20").timeline());
    for word in ["http:", "https:", "src=", "@import", "url(", "fetch(", "innerHTML", "{{"] {
        assert!(!text.contains(word), "{word}");
    }
    assert!(text.contains("default-src 'none'"));
}

#[test]
fn a_page_tells_its_counts() {
    let t = busy("soft-domain", "fleet,batch=20").timeline();
    let a = about(&page(&t));
    assert_eq!(a["spans"], t.spans.len());
    assert_eq!(a["marks"], t.marks.len());
    assert_eq!(a["lanes"].as_array().map(Vec::len), Some(t.topology.nr_cpus()));
    assert_eq!(a["tasks"].as_array().map(Vec::len), Some(t.tasks.len()));
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let make = || busy("soft-domain", "mixed");
    let both =
        |ran: &Ran| (page(&ran.timeline()), chrome(&ran.timeline()), page(&ran.recorded()), chrome(&ran.recorded()));
    assert!(both(&make()) == both(&make()));
}

#[test]
fn the_json_has_what_perfetto_needs() {
    for ran in [busy("default-like", "fleet,batch=20"), nasty()] {
        let t = ran.timeline();
        let json: Value = serde_json::from_str(&chrome(&t)).expect("JSON");
        let events = json["traceEvents"].as_array().expect("events");
        let of = |ph: &str| events.iter().filter(|e| e["ph"] == ph).collect::<Vec<_>>();
        assert_eq!(of("X").len(), t.spans.len());
        assert_eq!(of("i").len(), t.marks.len());
        assert!(of("C").len() >= t.topology.nr_llcs());
        let tracks: BTreeSet<_> =
            of("M").iter().filter(|e| e["name"] == "thread_name").map(|e| e["tid"].as_u64()).collect();
        assert_eq!(tracks.len(), t.topology.nr_cpus());
        for e in of("X") {
            assert!(e["ts"].is_f64() && e["dur"].is_f64() && e["name"].is_string() && e["pid"].is_u64(), "{e}");
            assert!(tracks.contains(&e["tid"].as_u64()) && e["args"]["task"].is_string(), "{e}");
        }
        for e in of("C") {
            assert!(e["ts"].is_f64() && e["args"]["tasks"].is_u64() && e["pid"].is_u64(), "{e}");
        }
        assert!(of("i").iter().all(|e| e["s"] == "t" && e["ts"].is_f64()));
    }
}
