//! What a policy was made from: with this and the calls, the same program makes the same decisions.

use super::bytes::{Bad, In, Out};
use crate::ids::{CpuId, MAX_CPUS};
use crate::limits::Limits;
use crate::service::Pattern;
use crate::soft_domain::Settings;
use crate::topology::{Level, RawCpu, Topology};

/// Longest text in a header, bytes.
const LONGEST: usize = 4096;
/// Most patterns.
const SERVICES: u64 = 4096;
/// Most tasks that a file may make a policy reserve memory for.
const MOST_TASKS: usize = 1 << 22;

/// A fresh policy begins.
#[derive(Clone, Debug)]
pub struct Header {
    /// What recorded it: program, version, kernel. For people.
    pub about: String,
    /// The policy's name, as `--policy` takes it.
    pub policy: String,
    /// The machine.
    pub topology: Topology,
    /// The settings.
    pub settings: Settings,
}

impl Header {
    /// Stands in until the real one is read.
    pub(super) fn nowhere() -> Self {
        Header {
            about: String::new(),
            policy: String::new(),
            topology: Topology::default(),
            settings: Settings::default(),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut buf = Vec::new();
        let mut o = Out(&mut buf);
        o.text(cut(&self.about));
        o.text(cut(&self.policy));
        let Settings { services, level, limits, max_tasks } = &self.settings;
        o.int((services.len() as u64).min(SERVICES));
        services.iter().take(SERVICES as usize).for_each(|s| o.text(cut(&s.text())));
        o.byte(Level::ALL.iter().position(|l| l == level).unwrap_or(0) as u8);
        o.int(*max_tasks as u64);
        let values = limit_values(limits);
        o.int(values.len() as u64);
        values.into_iter().for_each(|v| o.int(v));
        let cpus = raw_cpus(&self.topology);
        o.int(cpus.len() as u64);
        for c in cpus {
            for n in [c.id, c.core, c.cluster.map_or(0, |n| n + 1), c.llc, c.node, c.capacity.into()] {
                o.int(n.into());
            }
        }
        buf
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Header, Bad> {
        let i = &mut In(bytes);
        let text = |i: &mut In| i.text(LONGEST).map(|t| String::from_utf8_lossy(t).into_owned());
        let (about, policy) = (text(i)?, text(i)?);
        let n = i.int()?;
        if n > SERVICES {
            return Err(Bad("too many services"));
        }
        let pattern = |i: &mut In| Pattern::new(&text(i)?).ok_or(Bad("an empty service pattern"));
        let services = (0..n).map(|_| pattern(i)).collect::<Result<_, _>>()?;
        let level = *Level::ALL.get(usize::from(i.byte()?)).ok_or(Bad("an unknown level"))?;
        let max_tasks = i.small()?;
        if max_tasks > MOST_TASKS {
            return Err(Bad("too many tasks to track"));
        }
        let limits = take_limits(i)?;
        let n = i.int()?;
        if n > MAX_CPUS as u64 {
            return Err(Bad("too many CPUs"));
        }
        let cpus = (0..n).map(|_| take_cpu(i)).collect::<Result<Vec<_>, _>>()?;
        let topology = Topology::new(&cpus, Vec::new()).map_err(|_| Bad("no usable CPU"))?;
        if !i.is_empty() {
            return Err(Bad("a header is too long"));
        }
        Ok(Header { about, policy, topology, settings: Settings { services, level, limits, max_tasks } })
    }
}

fn cut(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(LONGEST)]
}

/// All limits in a fixed order. Taken apart, so that a new one cannot be forgotten here; it goes last, and the format's
/// version goes up.
fn limit_values(limits: &Limits) -> [u64; 14] {
    let Limits {
        slice_ns,
        slice_min_ns,
        lag_ns,
        age_bound_ns,
        load_half_life_ns,
        home_margin,
        home_crowded_ns,
        home_settle_ns,
        spill_llc_ns,
        spill_node_ns,
        llc_left,
        llc_taken_ns,
        llc_free,
        llc_free_ns,
    } = *limits;
    [
        slice_ns,
        slice_min_ns,
        lag_ns,
        age_bound_ns,
        load_half_life_ns,
        home_margin.into(),
        home_crowded_ns,
        home_settle_ns,
        spill_llc_ns,
        spill_node_ns,
        llc_left.into(),
        llc_taken_ns,
        llc_free.into(),
        llc_free_ns,
    ]
}

fn take_limits(i: &mut In) -> Result<Limits, Bad> {
    if i.int()? != limit_values(&Limits::default()).len() as u64 {
        return Err(Bad("another number of limits"));
    }
    Ok(Limits {
        slice_ns: i.int()?,
        slice_min_ns: i.int()?,
        lag_ns: i.int()?,
        age_bound_ns: i.int()?,
        load_half_life_ns: i.int()?,
        home_margin: i.small()?,
        home_crowded_ns: i.int()?,
        home_settle_ns: i.int()?,
        spill_llc_ns: i.int()?,
        spill_node_ns: i.int()?,
        llc_left: i.small()?,
        llc_taken_ns: i.int()?,
        llc_free: i.small()?,
        llc_free_ns: i.int()?,
    })
}

/// The machine as its reader saw it; makes an equal one again, but for the sentences on what was assumed.
fn raw_cpus(topology: &Topology) -> Vec<RawCpu> {
    let raw = |cpu: CpuId| {
        let c = topology.cpu(cpu)?;
        let clustered = topology.llc_clusters(c.llc).len() > 1;
        Some(RawCpu {
            id: c.id.0.into(),
            core: c.core.0.into(),
            cluster: clustered.then_some(c.cluster.0.into()),
            llc: c.llc.0.into(),
            node: topology.kernel_node(c.node)?,
            capacity: c.capacity,
        })
    };
    topology.cpus().iter().filter_map(raw).collect()
}

fn take_cpu(i: &mut In) -> Result<RawCpu, Bad> {
    let (id, core, cluster): (u32, u32, u32) = (i.small()?, i.small()?, i.small()?);
    Ok(RawCpu { id, core, cluster: cluster.checked_sub(1), llc: i.small()?, node: i.small()?, capacity: i.small()? })
}
